"""Abilities of stores in what must be there, and in what is found there."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Protocol, runtime_checkable

from reclaim.stores.findings import Advance, Finding
from reclaim.stores.format import Reader
from reclaim.stores.observation import Observation


@runtime_checkable
class NeedsOtherSnapshots(Protocol):
    """A store whose snapshots are of no use without others, such as their parents."""

    def keep_whole(
        self, seen: Observation, held: Iterable[str], *, besides: str, reader: Reader
    ) -> Observation:
        """An observation in which what promised snapshots need is live as well.

        Promised are those that other runs than ``besides`` have set aside and can bring back, and
        those at the addresses ``held``, which they were about to take or have begun to bring back.
        """
        ...


@runtime_checkable
class AllowsMissing(Protocol):
    """A store that can tell that snapshots are missing which others name."""

    def allow_missing(self) -> None:
        """Go on without them: a person says that they are lost for good."""
        ...


@runtime_checkable
class Examines(Protocol):
    """A store that knows what can be wrong with it; whatever kind it is, ``doctor`` asks it."""

    def findings(self, *, deep: bool, advance: Advance | None) -> Iterator[Finding]:
        """Findings worth telling. ``deep`` looks for all live data.

        With ``advance``, which is told of each object, the bytes of all live data are read as well.
        """
        ...


@runtime_checkable
class AdoptsUnknown(Protocol):
    """A store whose storage can be ahead of what it knows; see ``held.adopt``."""

    def unknown_guards(self) -> Sequence[str]:
        """Guards that protect objects, or did, and that only the storage knows."""
        ...


@runtime_checkable
class Adopts(Protocol):
    """The held handle of such a store."""

    def adopt(self, unknown: Collection[str]) -> None:
        """Register them as closed: a person says that the store is the right one."""
        ...
