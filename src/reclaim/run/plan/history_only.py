"""Plan an edit of the history by rules, without deleting objects.

The history is read and decided in this process, without an engine and a listing. The plan is
written, reviewed and applied like any other (decision 0032).
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
    """History as read, with the decisions of a policy."""

    seen: Observation
    decided: Decided
    library_edit: LibraryEdit | None
    """Edit requested from the store's own library; None if Reclaim makes the edit."""


def plan_history(
    store: Store,
    options: PlanOptions | None = None,
    *,
    refs: Sequence[str] = (),
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> WrittenPlan:
    """Plan an edit of the history, of all refs or only some ``refs``.

    The store is not changed, except for a record of the plan's digest.
    """
    options = options or PlanOptions()
    run_id = new_run_id(store.clock.now())
    place = options.place or Place(*store.place(run_id))
    storage = opener(place.url)
    stages = Stages(run_id, watcher or Silent(), noun=store.noun)
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
            candidates=Candidates(),
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
    """Decide an edit of the history without writing a plan."""
    library_edit = _find_library_edit(store, options, refs)
    store.check()
    return _decide(store, options, refs, library_edit)


def _find_library_edit(
    store: Store, options: PlanOptions, refs: Sequence[str]
) -> LibraryEdit | None:
    """Edit to request from the store's own library; None if Reclaim makes the edit."""
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
        f"the library of {store.kind} stores edits the whole history; it cannot be limited to "
        "some refs",
        hint="run without --ref",
    )


def _decide(
    store: Store, options: PlanOptions, refs: Sequence[str], library_edit: LibraryEdit | None
) -> HistoryDecision:
    if not isinstance(store, ShowsHistory):
        raise Refused(
            f"the history of {store.kind} stores can only be read by a plan with objects",
            hint="plan with the same rules and without --history-only",
        )
    seen = _observe(store, store.current_history())
    if seen.editor is not None:
        # The edit may be rolled back, with its snapshots part of the history again.
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
    """Convert a history to an observation without objects; read the leases after it.

    Leases affect only the texts of the plan: an apply deletes no snapshot, and leases of undos were
    read with the history.
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
