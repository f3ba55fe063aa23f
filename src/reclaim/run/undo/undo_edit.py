"""The way back from a run that edited history and put nothing in quarantine.

One that stopped before it took anything away is taken back whole. Of one that is done, the edit is
taken back as far as the snapshots are still there; what it deleted is gone.
"""

from __future__ import annotations

from collections.abc import Sequence

from reclaim.errors import Conflict, NotFound, Refused
from reclaim.run.sweep.removal import removal_of
from reclaim.run_record import COLLECT, EXPIRE, Action, RunRecord
from reclaim.stores.abilities import EditsHistory, ExpiresItself
from reclaim.stores.base import Held, Store


def edits_alone(run: RunRecord) -> bool:
    """Whether an edit of the history is all of a run that could be taken back."""
    of_kind = run.kind in (COLLECT, EXPIRE)
    return of_kind and run.allows(Action.UNDO) and removal_of(run) is None


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
        run.check(Action.UNDO)
        if not edits_alone(run):
            raise Conflict(f"run {run_id} is {run.phase} now", hint="see `reclaim runs`")
        if run.edit.by_library and _is_irreversible(store, held):
            edited = (
                f"run {run_id} let the library of {store.name} edit the history, which cannot be "
                "taken back"
            )
            if run.promoted and run.kind == COLLECT:
                raise Refused(
                    f"{edited}, and put nothing in quarantine: what it deleted cannot be brought "
                    "back",
                    hint="apply with --quarantine to be able to undo it",
                )
            if run.kind == EXPIRE:
                raise Refused(
                    edited,
                    hint=f"nothing was deleted; make a branch or a tag at a {store.noun} that is "
                    "still there",
                )
            raise Refused(
                f"{edited}, and stopped before it deleted anything",
                hint=f"nothing was deleted; `reclaim apply {run.place}` finishes it",
            )
        if not isinstance(held, EditsHistory):
            raise Refused(
                f"run {run_id} put nothing in quarantine and edited no history that could be "
                "taken back: what it deleted cannot be brought back",
                hint="apply with --quarantine to be able to undo it",
            )
        store.check()
        held.begin()
        return held.undo_edit()


def _is_irreversible(store: Store, held: Held) -> bool:
    """Whether nobody can take back what the store's own library edited."""
    if not isinstance(store, ExpiresItself) or not isinstance(held, EditsHistory):
        return True
    return bool(store.irreversible())
