"""Plan: edit the history by rules, and delete nothing.

The history is read and decided on in this process, without an engine and without a listing. The
plan is written down, reviewed and applied like any other (decision 0032).
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from reclaim.engine.answers import NO_CONTAINERS, Candidates
from reclaim.engine.tasks.parts import Opener, Place, open_storage
from reclaim.errors import ReclaimError, Refused
from reclaim.ids import new_run_id
from reclaim.lock import edit_in_progress
from reclaim.policy import require_rules
from reclaim.run.expire.library_edit import check_library, find_library_edit, predicting
from reclaim.run.plan import plan_file, plan_snapshots
from reclaim.run.plan.checks import check_clock
from reclaim.run.plan.dead_snapshots import find_dead_ids
from reclaim.run.plan.decide import Decided, decide_seen
from reclaim.run.plan.plan_document import HistoryOnly, LibraryEdit, PlanSections
from reclaim.run.plan.plan_summary import PlanFindings, summarize
from reclaim.run.plan.planning import PlanOptions, WrittenPlan, record_plan
from reclaim.run.record.stages import Silent, Stages, Watcher
from reclaim.stores.abilities import EditsHistory, Expiration, HistorySeen, ShowsHistory
from reclaim.stores.base import Store
from reclaim.stores.observation import Observation, SnapshotCounts

SNAPSHOTS = "snapshots.parquet"


@dataclass(frozen=True, slots=True)
class HistoryDecision:
    """A history as it was read, and what a policy makes of it."""

    seen: Observation
    decided: Decided
    library_edit: LibraryEdit | None
    """The edit that the store's own library is asked for, if that edits the history."""


def plan_history(
    store: Store,
    options: PlanOptions | None = None,
    *,
    refs: Sequence[str] = (),
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> WrittenPlan:
    """Plan an edit of the history, which is narrowed to what some ``refs`` reach if any are given.

    Changes nothing in the store, which only notes what the plan hashes to.
    """
    options = options or PlanOptions()
    run_id = new_run_id(store.clock.now())
    place = options.place or Place(*store.place(run_id))
    storage = opener(place.url)
    stages = Stages(run_id, watcher or Silent())
    started = store.clock.now()
    with stages.stage("check"):
        library_edit = _find_library_edit(store, options, refs)
        store.check()
        check_clock(store, storage, place.below("work"))
    with stages.stage("decide") as deciding:
        decision = _decide(store, options, refs, library_edit)
        seen, decided = decision.seen, decision.decided
        dead = find_dead_ids(seen, decided)
        deciding.facts |= {"live": len(decided.live), "dead": len(dead)}
    try:
        findings = PlanFindings(
            run=run_id,
            place=place,
            started_at=started,
            cutoff=started - options.margins.objects,
            policy=options.policy,
            policy_source=options.policy_source,
            library_edit=library_edit,
            inventory=None,
            allowed_fraction=options.allowed_fraction,
            versioning="",
            noncurrent=None,
            seen=seen,
            decided=decided,
            dead=dead,
            containers=NO_CONTAINERS,
            found=Candidates(),
            snapshots=plan_snapshots.write(storage, place.at(SNAPSHOTS), seen, decided),
            sections=PlanSections(history_only=HistoryOnly(refs=_tips(seen, refs))),
        )
        plan = WrittenPlan(place, plan_file.write(storage, place, summarize(store, findings)))
    except BaseException:
        with suppress(ReclaimError):
            storage.delete(place.at(SNAPSHOTS))
        raise
    return record_plan(store, plan)


def _tips(seen: Observation, names: Sequence[str]) -> dict[str, str]:
    return {ref.name: ref.snapshot for ref in seen.refs if ref.name in names}


def decide_history(
    store: Store, options: PlanOptions, *, refs: Sequence[str] = ()
) -> HistoryDecision:
    """Decide what such a plan would make of the history; writes nothing at all."""
    library_edit = _find_library_edit(store, options, refs)
    store.check()
    return _decide(store, options, refs, library_edit)


def _find_library_edit(
    store: Store, options: PlanOptions, refs: Sequence[str]
) -> LibraryEdit | None:
    """The edit to ask the store's own library for; None if Reclaim makes it."""
    require_rules(options.policy)
    library_edit = find_library_edit(
        store,
        options.policy,
        delete_expired_tags=options.delete_expired_tags,
        delete_expired_branches=options.delete_expired_branches,
    )
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


def _decide(
    store: Store, options: PlanOptions, refs: Sequence[str], library_edit: LibraryEdit | None
) -> HistoryDecision:
    if not isinstance(store, ShowsHistory):
        raise Refused(
            f"the history of {store.kind} stores can be read only by a plan of their objects",
            hint="plan with the same rules and without --history-only",
        )
    seen = _observe(store, store.current_history())
    if seen.editor is not None:
        # What its edit hides may be part of the history again.
        raise edit_in_progress(seen.editor)
    predict = None
    if library_edit is not None:
        expiration = Expiration(
            options.policy,
            seen.read_at,
            library_edit.delete_expired_tags,
            library_edit.delete_expired_branches,
        )
        predict = predicting(store, expiration)
    decided = decide_seen(
        options.policy,
        seen,
        limit=refs,
        delete_expired_tags=options.delete_expired_tags,
        delete_expired_branches=options.delete_expired_branches,
        predict=predict,
        noun=store.noun,
    )
    return HistoryDecision(seen, decided, library_edit)


def _observe(store: Store, history: HistorySeen) -> Observation:
    """A history as an observation that has nothing else; leases are read after it.

    Leases decide only on what the plan says: an apply deletes no snapshot, and what the undo of a
    run holds was read with the history.
    """
    ids = frozenset(snapshot.id for snapshot in history.snapshots)
    leases = [
        lease
        for lease, valid in store.leases()
        if valid and lease.undone_run is None and lease.snapshot in ids
    ]
    return Observation(
        refs=tuple(history.refs),
        ids=ids,
        snapshots=tuple(history.snapshots),
        leases=(*history.returned, *leases),
        busy=history.busy,
        containers={},
        marked={},
        closed=frozenset(),
        open=frozenset(),
        held=(),
        held_count=0,
        read_at=store.clock.now(),
        expected=SnapshotCounts(history.count, 0),
        read=SnapshotCounts(len(ids), 0),
        editor=history.editor,
    )
