"""Looking for objects where they belong: a sweep that takes nothing.

It is spread, timed and journaled as any other sweep is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reclaim.engine.tasks.deleting import MISSING, Taken, Target
from reclaim.engine.tasks.quarantine import each, look
from reclaim.storage import Storage
from reclaim.storage.pace import InTime

AT_HOME = "at home"


@dataclass(frozen=True, slots=True)
class LookAtHome:
    """Notes of each object whether it is there. One that cannot be asked for is not known."""

    @property
    def outcome(self) -> str:
        return AT_HOME

    def page(self, storage: Storage, targets: Sequence[Target], in_time: InTime) -> Sequence[Taken]:
        return each(storage, targets, lambda target: self._look(storage, target), in_time)

    def take_one(
        self,
        storage: Storage,
        target: Target,
        in_time: InTime,  # noqa: ARG002 - one request
    ) -> Taken:
        return self._look(storage, target)

    def _look(self, storage: Storage, target: Target) -> Taken:
        return Taken(MISSING if look(storage, target.address) is None else AT_HOME)
