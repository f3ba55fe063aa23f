"""The ability of stores that delete objects by themselves, without a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class OnlineDeletes:
    """The objects that a store deletes by itself, without a run: those gone, and those waiting."""

    on: bool
    objects: int
    bytes: int
    last_at: datetime | None
    due: int
    oldest: datetime | None
    """Since when the oldest one of those that wait has been without a reference."""
    late: bool
    """Whether something is there that should have gone by now."""


class DeletesOnline(ABC):
    """A store that deletes bytes soon after nothing refers to them, where it is told to."""

    @abstractmethod
    def online_deletes(self) -> OnlineDeletes: ...
