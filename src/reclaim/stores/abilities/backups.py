"""The ability of stores that keep copies of what they replace."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection


class KeepsBackups(ABC):
    """A store that keeps copies of what it replaces, for ever."""

    @abstractmethod
    def collect_backups(self) -> None:
        """Let plans name the copies that nothing will need: a person asks for it."""


class HeldBackups(ABC):
    """The held handle of a store that has to change something before a copy may go."""

    @abstractmethod
    def free_kinds(self, kinds: Collection[str]) -> None:
        """Make sure that nothing needs, now or later, what a plan names of some kinds. Asked
        before the roots are read: what is needed then stays."""
