"""Ability of stores keeping copies of replaced files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection


class KeepsBackups(ABC):
    """A store that keeps copies of replaced files for ever."""

    @abstractmethod
    def collect_backups(self) -> None:
        """Include unneeded copies in plans, as explicitly requested."""


class HeldBackups(ABC):
    """Held handle of a store requiring changes before a copy can be deleted."""

    @abstractmethod
    def free_kinds(self, kinds: Collection[str]) -> None:
        """Remove every need, now or later, for the objects of these kinds named by a plan. Called
        before the roots are read: objects needed then are kept.
        """
