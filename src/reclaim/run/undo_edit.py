"""The way back from a run that edited history and then stopped, before it took anything away."""

from __future__ import annotations

from collections.abc import Sequence

from reclaim.errors import Conflict, NotFound, Refused
from reclaim.model import EDITED_BY_LIBRARY, Run, RunState
from reclaim.run.apply import COLLECT
from reclaim.run.removal import removal_of
from reclaim.stores.abilities import EditsHistory
from reclaim.stores.base import Store

EARLY = (RunState.STOPPED, RunState.STARTED)
"""How far a run has come that may not have taken anything away yet."""


def stopped_early(run: Run) -> bool:
    """Whether a run that sets nothing aside may have done no more than edit history."""
    return run.kind == COLLECT and run.state in EARLY and removal_of(run) is None


def undo_edit(store: Store, run_id: str) -> Sequence[str]:
    """Take back what a run did to the history; returns what had changed since and was left.

    Needs no engine. Refused if the run went further than that.
    """
    if store.deleted:
        raise Refused(f"{store.name} was deleted, and nothing of it can be used any more")
    with store.lock(run_id) as held:
        run = store.find_run(run_id)
        if run is None:
            raise NotFound(f"there is no run {run_id}", hint="see `reclaim runs`")
        if not stopped_early(run):
            raise Conflict(f"run {run_id} is {run.state} now", hint="see `reclaim runs`")
        if run.summary.get(EDITED_BY_LIBRARY):
            raise Refused(
                f"run {run_id} let the library of {store.name} edit the history, which cannot be "
                "taken back, and stopped before it deleted anything",
                hint=f"nothing was deleted; `reclaim apply {run.place}` finishes it",
            )
        if not isinstance(held, EditsHistory):
            raise Refused(
                f"run {run_id} put nothing in quarantine and edited no history: nothing to undo"
            )
        store.check()
        held.begin()
        return held.undo_edit()
