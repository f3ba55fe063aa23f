"""The sources of roots. A plan and its apply ask all of them, in this order.

A new root is one entry here. Each source only adds to an observation, so that more is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reclaim.run.record.checkpoints import hold_checkpoint
from reclaim.run.roots.edits import hold_needed_once_edited, hold_undoable_edits
from reclaim.run.roots.promises import hold_needed_by_promises, hold_promises
from reclaim.run.roots.protection import hold_memory
from reclaim.run.roots.request import HoldRoots, Moment, RootRequest
from reclaim.stores.observation import Observation


@dataclass(frozen=True, slots=True)
class RootSource:
    """One source of roots."""

    name: str
    hold: HoldRoots
    moment: Moment = Moment.BEFORE_DECIDING


ROOTS: Sequence[RootSource] = (
    RootSource("promises of runs that can be undone", hold_promises),
    RootSource("history edits that can be undone", hold_undoable_edits),
    RootSource("checkpoint", hold_checkpoint),
    RootSource("memory of protected paths", hold_memory),
    RootSource("needs of re-parented snapshots", hold_needed_once_edited, Moment.AFTER_MARKING),
    RootSource("needs of promised snapshots", hold_needed_by_promises, Moment.AFTER_MARKING),
)


def hold_roots(seen: Observation, request: RootRequest) -> Observation:
    """An observation of a store with the roots of every source.

    To be called twice: before the run decides which snapshots are live, and once the containers of
    the live ones are marked.
    """
    for source in ROOTS:
        if source.moment is request.moment:
            seen = source.hold(seen, request)
    return seen
