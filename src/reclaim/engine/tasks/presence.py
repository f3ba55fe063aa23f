"""A sweep that deletes nothing: check whether objects exist at their own addresses.

It is spread, timed and journaled like any other sweep.
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
class CheckPresence:
    """Records for each object whether it exists. An object that cannot be checked counts as
    unknown."""

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
