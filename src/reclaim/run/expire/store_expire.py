"""Expire: edit the history of a store that is not of the catalog, by rules; deletes no bytes.

The edit is predicted, shown, and made under the store's lock: by its own library where that can be
asked for the rules, and by us where only we can (decision 0050).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from reclaim.catalog.collection.undo.editors import EXPIRE
from reclaim.engine.tasks.parts import Place
from reclaim.errors import Refused
from reclaim.ids import new_run_id
from reclaim.policy import Policy, require_rules
from reclaim.run.expire.edit_counts import count_edit
from reclaim.run.expire.expire import ExpirePlan
from reclaim.run.expire.library_edit import (
    check_library,
    edit_by_library,
    find_library_edit,
    predicting,
)
from reclaim.run.expire.library_notes import LibraryNotes
from reclaim.run.expire.reviewed_edit import EditAgain, ReviewedEdit, make_edit
from reclaim.run.plan.checks import check_clock
from reclaim.run.plan.decide import decide
from reclaim.run.plan.plan_document import LibraryEdit
from reclaim.run.plan.plan_snapshots import PlannedSnapshots
from reclaim.run.record.interrupted import cause_of
from reclaim.run.record.record_writer import RecordWriter
from reclaim.run_record import EditCounts, Phase, RunRecord
from reclaim.stores.abilities import EditsHistory, Expiration, HistorySeen, ShowsHistory
from reclaim.stores.base import Held, Store


def plan_store_expire(
    store: Store,
    policy: Policy,
    *,
    refs: Sequence[str] = (),
    delete_expired_tags: bool = False,
    delete_expired_branches: bool = False,
) -> ExpirePlan:
    """Decide what of a store's history expires. Changes nothing, and needs no engine."""
    require_rules(policy)
    library_edit = _find_library_edit(
        store,
        policy,
        refs,
        delete_expired_tags=delete_expired_tags,
        delete_expired_branches=delete_expired_branches,
    )
    if not isinstance(store, ShowsHistory):
        raise Refused(
            f"the history of {store.kind} stores can be read only by a plan",
            hint="use `reclaim plan` with the same rules, then `reclaim apply`",
        )
    store.check()
    now = store.clock.now()
    seen = store.current_history()
    expiration = Expiration(policy, now, delete_expired_tags, delete_expired_branches)
    decided = decide(
        policy,
        snapshots=seen.snapshots,
        refs=seen.refs,
        leases=seen.returned,
        busy=seen.busy,
        now=now,
        limit=refs,
        delete_expired_tags=delete_expired_tags,
        delete_expired_branches=delete_expired_branches,
        predict=None if library_edit is None else predicting(store, expiration),
        noun=store.noun,
    )
    edit = decided.edit
    expired = decided.history.numbers.keys() - decided.decisions.kept
    reviewed = ReviewedEdit(
        policy, now, expired, frozenset(edit.unreachable), edit.delete_refs, refs
    )
    return ExpirePlan(seen, decided, reviewed, library_edit)


def _find_library_edit(
    store: Store, policy: Policy, refs: Sequence[str], **flags: bool
) -> LibraryEdit | None:
    """The edit to ask the store's library for; None if we make it."""
    library_edit = find_library_edit(store, policy, **flags)
    if library_edit is None:
        return None
    if not refs:
        check_library(store)
        return library_edit
    if issubclass(store.handle, EditsHistory):
        return None
    raise Refused(
        f"the library of {store.kind} stores edits their history, and cannot be narrowed to "
        "some refs",
        hint="leave --ref out",
    )


def apply_store_expire(store: Store, plan: ExpirePlan) -> RunRecord | None:
    """Make the edit of a plan; None when there was nothing to do."""
    if plan.edit.empty:
        return None
    run_id = new_run_id(store.clock.now())
    with store.lock(run_id) as held:
        store.check()
        check_clock(store, store.storage, Place(*store.place(run_id)).below("work"))
        held.begin()
        writer = RecordWriter(held, RunRecord(run_id, EXPIRE, Phase.STARTED, store.clock.now()))
        writer.start()
        try:
            counts = _edit(store, held, plan, writer)
            # What the library took away with it, and that nobody has condemned.
            held.abandon()
        except BaseException as error:
            _stop(held, plan, writer, cause_of(error))
            raise
        writer.replace_edit(counts=counts)
        writer.write(phase=Phase.DONE if counts else Phase.STOPPED)
    return store.find_run(run_id) if counts else None


def _edit(store: Store, held: Held, plan: ExpirePlan, writer: RecordWriter) -> EditCounts:
    reviewed, library_edit = plan.reviewed, plan.library_edit
    if library_edit is not None:
        expiration = Expiration(
            reviewed.policy,
            reviewed.now,
            library_edit.delete_expired_tags,
            library_edit.delete_expired_branches,
        )
        planned = PlannedSnapshots(
            live=frozenset(),
            dead={},
            expired=frozenset(reviewed.expired),
            released=frozenset(reviewed.released),
            reparent={},
            delete_refs=tuple(reviewed.delete_refs),
        )
        notes = LibraryNotes(store, writer, None)
        return edit_by_library(store, held, expiration, planned, notes)
    assert isinstance(held, EditsHistory)
    editing = held

    def make(again: EditAgain, seen: HistorySeen) -> bool:
        return editing.edit_history(again.edit.reparent, again.edit.delete_refs, seen)

    again = make_edit(reviewed, editing.read_history, make)
    return count_edit(again.edit, again.released)


def _stop(held: Held, plan: ExpirePlan, writer: RecordWriter, error: str) -> None:
    """Take back what can be, as far as that is possible, and note how it ended."""
    if plan.library_edit is None and isinstance(held, EditsHistory):
        try:
            held.roll_back()
        except Exception:
            # Left as started, it is rolled back by whoever has the lock next.
            return
    with suppress(Exception):
        held.abandon()
    with suppress(Exception):
        writer.write(phase=Phase.STOPPED, error=error)
