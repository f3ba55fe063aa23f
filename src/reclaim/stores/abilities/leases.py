"""Abilities of stores whose snapshots can be leased."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol, runtime_checkable

from reclaim.model import Lease


@runtime_checkable
class ListsLeases(Protocol):
    """A store that knows who uses its snapshots."""

    def leases(self) -> Sequence[tuple[Lease, bool]]:
        """All leases, and whether each is valid."""
        ...


@runtime_checkable
class HoldsLeases(ListsLeases, Protocol):
    """A store in which snapshots can be leased by whoever uses them."""

    def take_lease(self, snapshot: str, *, holder: str, length: timedelta) -> Lease: ...

    def renew_lease(self, lease: Lease) -> Lease: ...

    def release_lease(self, lease_id: str) -> None: ...
