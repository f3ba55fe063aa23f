"""The sources of roots, in order. Both a plan and its apply read all of them.

To add a root, add an entry. Each source only adds to an observation, so it can only keep more.
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
    """Source of roots."""

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
    """Add the roots of every source to an observation of a store.

    Call it twice: before the run decides which snapshots are live, and after the containers of live
    snapshots are marked.
    """
    for source in ROOTS:
        if source.moment is request.moment:
            seen = source.hold(seen, request)
    return seen
