"""Ability of stores whose snapshots can be leased by readers."""

from __future__ import annotations

from abc import abstractmethod
from datetime import timedelta

from reclaim.model import Lease
from reclaim.stores.base import Store


class HoldsLeases(Store):
    """A store whose snapshots can be leased by readers."""

    @abstractmethod
    def take_lease(self, snapshot: str, *, holder: str, length: timedelta) -> Lease: ...

    @abstractmethod
    def renew_lease(self, lease: Lease) -> Lease: ...

    @abstractmethod
    def release_lease(self, lease_id: str) -> None: ...
