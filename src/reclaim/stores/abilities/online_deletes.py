"""Ability of stores to delete objects without a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class OnlineDeletes:
    """Objects deleted, and due for deletion, by the store itself without a run."""

    on: bool
    objects: int
    bytes: int
    last_at: datetime | None
    due: int
    oldest: datetime | None
    """Time since which the oldest waiting object has been unreferenced."""
    late: bool
    """Whether deletions are overdue."""


class DeletesOnline(ABC):
    """A store that deletes bytes soon after their last reference is removed, if configured."""

    @abstractmethod
    def online_deletes(self) -> OnlineDeletes: ...
