"""Undo of a run that edited history without a quarantine.

A run stopped before its first delete is undone completely. After a finished run, the edit is
reverted for existing snapshots; deleted objects are lost.
"""

from __future__ import annotations

from collections.abc import Sequence

from reclaim.errors import Conflict, NotFound, Refused
from reclaim.run.sweep.removal import removal_of
from reclaim.run_record import COLLECT, EXPIRE, Action, RunRecord
from reclaim.stores.abilities import EditsHistory, ExpiresItself
from reclaim.stores.base import Held, Store


def edits_alone(run: RunRecord) -> bool:
    """Whether only the history edit of a run can be undone."""
    of_kind = run.kind in (COLLECT, EXPIRE)
    return of_kind and run.allows(Action.UNDO) and removal_of(run) is None


def undo_edit(store: Store, run_id: str) -> Sequence[str]:
    """Revert the history edit of a run; return later changes left in place.

    Needs no engine. Refuse a run with further changes.
    """
    if store.deleted:
        raise Refused(f"{store.name} was deleted and cannot be restored")
    with store.lock(run_id) as held:
        run = store.find_run(run_id)
        if run is None:
            raise NotFound(f"there is no run {run_id}", hint="see `reclaim runs`")
        run.check(Action.UNDO)
        if not edits_alone(run):
            raise Conflict(f"run {run_id} is {run.phase} by now", hint="see `reclaim runs`")
        if run.edit.by_library and _is_irreversible(store, held):
            edited = (
                f"run {run_id} edited the history with the library of {store.name}, which cannot "
                "be reverted"
            )
            if run.promoted and run.kind == COLLECT:
                raise Refused(
                    f"{edited}, and put nothing in quarantine: deleted objects cannot be restored",
                    hint="apply with --quarantine to be able to undo a run",
                )
            if run.kind == EXPIRE:
                raise Refused(
                    edited,
                    hint=f"nothing was deleted; make a branch or a tag at an existing {store.noun}",
                )
            raise Refused(
                f"{edited}, and stopped before it deleted anything",
                hint=f"nothing was deleted; `reclaim apply {run.place}` finishes it",
            )
        if not isinstance(held, EditsHistory):
            raise Refused(
                f"run {run_id} put nothing in quarantine and has no history edit to revert: "
                "deleted objects cannot be restored",
                hint="apply with --quarantine to be able to undo a run",
            )
        store.check()
        held.begin()
        return held.undo_edit()


def _is_irreversible(store: Store, held: Held) -> bool:
    """Whether the edit by the store's own library cannot be reverted."""
    if not isinstance(store, ExpiresItself) or not isinstance(held, EditsHistory):
        return True
    return bool(store.irreversible())
