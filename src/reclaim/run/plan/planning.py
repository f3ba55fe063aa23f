"""Plan: find deletable objects, and write them to a plan for review. The store is not changed,
except for a record of the plan's digest.

The order is the safety argument. Objects are listed first; then the roots are read. So a listed
object unreachable from every root afterwards is garbage, and newer objects are not in the listing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from reclaim.engine.answers import Objects
from reclaim.engine.base import Engine
from reclaim.engine.requests import FindRequest
from reclaim.engine.tasks.judging import CandidateRules
from reclaim.engine.tasks.parts import Opener, Place, open_storage
from reclaim.engine.tasks.tally import CONTAINERS, OBJECTS
from reclaim.errors import (
    Corrupt,
    IncompleteRead,
    InvalidInput,
    NotFound,
    OutOfTime,
    ReclaimError,
)
from reclaim.ids import new_run_id
from reclaim.lock import edit_in_progress
from reclaim.model import SnapshotId
from reclaim.policy import Policy
from reclaim.run.expire.library_edit import check_library, find_library_edit, predicting
from reclaim.run.plan import plan_file, plan_snapshots
from reclaim.run.plan.checks import (
    check_clock,
    check_complete,
    check_fraction,
    check_inventory,
    check_kept,
    check_listed,
    check_partitions,
)
from reclaim.run.plan.collection import make_collection
from reclaim.run.plan.context import PlanContext, YoungRuns
from reclaim.run.plan.dead_snapshots import CAUSES, causes_of, find_containers, find_dead_ids
from reclaim.run.plan.decide import KEEPS_ALL, Decided, Predict, decide_seen
from reclaim.run.plan.plan_document import LibraryEdit, Noncurrent, PlanDocument
from reclaim.run.plan.plan_kind import FullRunReason, MakeKind, ObjectListing, PlanKind
from reclaim.run.plan.plan_summary import PlanFindings, summarize
from reclaim.run.purge.orphans import protected_folders
from reclaim.run.record.stages import Silent, Stages, Watcher
from reclaim.run.roots.protection import Protection, find_protection
from reclaim.run.roots.request import RootRequest
from reclaim.run.roots.roots import hold_roots
from reclaim.storage import buckets, is_leftover
from reclaim.stores.abilities import Expiration, ShowsHistory
from reclaim.stores.base import Store
from reclaim.stores.format import DecodesSnapshots
from reclaim.stores.observation import Margins, Observation, ObserveRequest

FOLDERS = ("work", "containers", "objects", "index", "carried", "protected", "lifecycle")
"""Folders of a plan."""
MAX_FRACTION = 0.9
"""A plan to delete a larger fraction of all objects requires explicit confirmation."""

ROUNDS = 3
"""Attempts at a plan before giving up, when runs delete files about to be read."""
MISSING_FILE_ERRORS = (Corrupt, NotFound, IncompleteRead)
"""Errors raised when files disappear."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Options of a plan, as given by a user."""

    policy: Policy = KEEPS_ALL
    policy_source: str = ""
    """Whether the policy was given or stored, as written to the plan."""
    margins: Margins = field(default_factory=Margins)
    place: Place | None = None
    inventory: Objects | None = None
    inventory_name: str | None = None
    allowed_fraction: float = MAX_FRACTION
    delete_expired_tags: bool = False
    delete_expired_branches: bool = False


@dataclass(frozen=True, slots=True)
class WrittenPlan:
    """Plan with its location."""

    place: Place
    document: PlanDocument
    not_recorded: str | None = None
    """Reason why the store could not record the plan's digest; None if it did, or was not asked."""


def make_plan(
    store: Store,
    engine: Engine,
    options: PlanOptions | None = None,
    kind: MakeKind = make_collection,
    *,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> WrittenPlan:
    """Find deletable objects, write a plan, and let the store record its digest."""
    plan = find_candidates(store, engine, options, kind, watcher=watcher, opener=opener)
    return record_plan(store, plan)


def record_plan(store: Store, plan: WrittenPlan) -> WrittenPlan:
    """Let the store record the digest of a plan if possible: planning needs no write access."""
    try:
        store.record_plan(plan.document.run, plan.document.digest)
    except ReclaimError as error:
        return replace(plan, not_recorded=error.message)
    return plan


def find_candidates(
    store: Store,
    engine: Engine,
    options: PlanOptions | None = None,
    kind: MakeKind = make_collection,
    *,
    besides: str | None = None,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> WrittenPlan:
    """Find deletable objects, and write a plan without a record in the store.

    ``besides`` is the run to continue: its own promises do not spare objects.
    """
    run = new_run_id(store.clock.now())
    stages = Stages(run, watcher or Silent(), noun=store.noun)
    planning = Planning(store, engine, options or PlanOptions(), kind, besides or run, opener)
    return planning.run(run, stages)


class Planning:
    """Making of a single plan, for any kind of run."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        options: PlanOptions,
        kind: MakeKind,
        besides: str,
        opener: Opener,
    ) -> None:
        self._store = store
        self._engine = engine
        self._options = options
        self._make_kind = kind
        self._besides = besides
        self._opener = opener
        self._live: frozenset[SnapshotId] = frozenset()
        """Snapshots observed as live."""

    def run(self, run: str, stages: Stages) -> WrittenPlan:
        for _ in range(ROUNDS):
            self._live = frozenset()
            context = self._begin(run, stages)
            try:
                plan = self._attempt(context)
            except BaseException as error:
                # Files of a refused plan would only be listed again.
                with suppress(ReclaimError):
                    context.tidy(*FOLDERS)
                    context.storage.delete(context.place.at("snapshots.parquet"))
                if not isinstance(error, MISSING_FILE_ERRORS) or not self._lost_live():
                    raise
            else:
                context.tidy("work")
                return plan
        raise OutOfTime(
            f"runs removed {self._store.noun}s of {self._store.name} during every attempt to read "
            "them",
            hint="nothing was changed; plan again when these runs are done",
        )

    def _begin(self, run: str, stages: Stages) -> PlanContext:
        store, margins, now = self._store, self._options.margins, self._store.clock.now()
        place = self._options.place or Place(*store.place(run))
        young = YoungRuns(store, margins, now)
        return PlanContext(
            store, self._engine, run, place, margins, self._opener, stages, now, young
        )

    def _attempt(self, context: PlanContext) -> WrittenPlan:
        """Make a plan; repeat it as a full run if the checkpoint is unusable.

        A full run still uses the index. If a file of the index is damaged as well, the plan is
        repeated without the index.
        """
        reason: FullRunReason | None = None
        while True:
            kind = self._make_kind(context, reason)
            try:
                return self._plan(context, kind)
            except Exception as error:
                next_reason = kind.full_run_reason(error)
                if next_reason is None or not next_reason.goes_beyond(reason):
                    raise
                reason = next_reason
            with suppress(ReclaimError):
                context.tidy(*FOLDERS)
            context = replace(context, started_at=self._store.clock.now())

    def _lost_live(self) -> bool:
        """Whether a run has removed a snapshot since it was observed as live.

        Then missing files are no damage.
        """
        if self._store.deleted or not isinstance(self._store, ShowsHistory):
            return False
        try:
            seen = self._store.current_history()
        except ReclaimError:
            return False
        return not self._live <= {snapshot.id for snapshot in seen.snapshots}

    def _plan(self, context: PlanContext, kind: PlanKind) -> WrittenPlan:
        store, engine, options = self._store, self._engine, self._options
        stage, work = context.stages.stage, context.work
        with stage("check"):
            library_edit = self._find_library_edit()
            if library_edit is not None:
                check_library(store)
            store.check()
            check_clock(store, context.storage, work)
            inventory = self._inventory()
        # The checks above need no engine.
        engine.start()
        with stage("list", unit=OBJECTS) as listing_stage:
            listing = ObjectListing(inventory) if inventory else kind.list(work.below("listing"))
            objects = listing.objects
            listing_stage.facts["objects"] = sum(part.rows for part in objects.parts)
        versioning = buckets.versioning(store.storage.url) or ""
        noncurrent = _count_versions(context) if versioning and kind.lists_all else None
        roots = RootRequest(
            store,
            engine,
            self._besides,
            work,
            self._opener,
            takes_referenced=kind.takes_referenced,
        )
        with stage("observe") as observing:
            seen = store.observe(
                ObserveRequest(
                    context.storage,
                    work.at("roots/"),
                    engine,
                    options.margins.objects,
                    survey=listing.survey,
                )
            )
            seen = hold_roots(seen, roots)
            observing.facts |= {"snapshots": len(seen.ids), "refs": len(seen.refs)}
            # After a jump of the clock, young objects look old.
            check_clock(store, context.storage, work)
        with stage("decide") as deciding:
            decided = self._decide(seen, library_edit)
            self._live = decided.live
            dead = find_dead_ids(seen, decided)
            deciding.facts |= {"live": len(decided.live), "dead": len(dead)}
        with stage("mark", unit=CONTAINERS) as marking:
            named = find_containers(seen, decided)
            marked = kind.mark(seen, decided, named, listing)
            containers = marked.containers
            marking.facts |= {"containers": containers.containers, "entries": containers.entries}
            seen = hold_roots(seen, roots.after_marking(marked.covering, decided))
            protection = find_protection(
                store,
                engine,
                seen,
                marked.dead,
                place=context.place.below("protected"),
                work=work,
                opener=self._opener,
                listed=marked.listed_by_dead,
            )
        looked_at = sum(part.rows for part in objects.parts)
        with stage("plan", unit=OBJECTS, total=looked_at) as planning:
            rules = self._rules(context, seen, objects, protection)
            candidates = kind.judge(
                FindRequest(
                    store.format,
                    objects,
                    containers,
                    seen.held,
                    rules,
                    context.place.below("objects"),
                    work,
                ),
                seen,
            )
            planning.facts |= {"candidates": sum(part.rows for part in candidates.parts)}
        counted = kind.counted(containers)
        check_complete(seen, decided, named, counted, candidates)
        check_kept(store, listing.survey, decided, candidates)
        check_listed(store, objects, candidates, began_at=context.started_at)
        check_inventory(store, objects, candidates)
        strangers = candidates.verdict.strangers.keys()
        check_partitions(store, _known_by_name(store, listing, seen) | strangers, seen)
        written = plan_snapshots.write(
            context.storage, context.place.at("snapshots.parquet"), seen, decided
        )
        findings = PlanFindings(
            run=context.run,
            place=context.place,
            started_at=context.started_at,
            cutoff=context.started_at - options.margins.objects,
            policy=options.policy,
            policy_source=options.policy_source,
            library_edit=library_edit,
            inventory=options.inventory_name,
            allowed_fraction=options.allowed_fraction,
            versioning=versioning,
            noncurrent=noncurrent,
            seen=seen,
            decided=decided,
            dead=dead,
            containers=counted,
            candidates=candidates,
            snapshots=written,
            protection=protection,
            sections=kind.sections(seen, candidates),
        )
        made = summarize(store, findings)
        check_fraction(made)
        # From memory, not read back: others may have write access to the folder.
        return WrittenPlan(context.place, plan_file.write(context.storage, context.place, made))

    def _inventory(self) -> Objects | None:
        given = self._options.inventory
        if given is not None and isinstance(self._store.format, DecodesSnapshots):
            raise InvalidInput(
                f"the {self._store.noun}s of {self._store.name} must be listed in the storage; an "
                "inventory is not supported",
                hint="run without --inventory",
            )
        return given

    def _find_library_edit(self) -> LibraryEdit | None:
        return find_library_edit(
            self._store,
            self._options.policy,
            delete_expired_tags=self._options.delete_expired_tags,
            delete_expired_branches=self._options.delete_expired_branches,
        )

    def _decide(self, seen: Observation, library_edit: LibraryEdit | None) -> Decided:
        options = self._options
        if seen.editor is not None and not options.policy.empty:
            raise edit_in_progress(seen.editor)
        predict: Predict | None = None
        if library_edit is not None:
            # The store's own library edits the history.
            expiration = Expiration(
                options.policy,
                seen.read_at,
                library_edit.delete_expired_tags,
                library_edit.delete_expired_branches,
            )
            predict = predicting(self._store, expiration)
        return decide_seen(
            options.policy,
            seen,
            delete_expired_tags=options.delete_expired_tags,
            delete_expired_branches=options.delete_expired_branches,
            predict=predict,
            noun=self._store.noun,
        )

    def _rules(
        self,
        context: PlanContext,
        seen: Observation,
        objects: Objects,
        protection: Protection,
    ) -> CandidateRules:
        store, format, now = self._store, self._store.format, context.started_at
        cutoffs = {}
        for kind in format.order:
            cutoffs[kind] = now - self._options.margins.age(format.margins[kind])
            if objects.before is not None:
                cutoffs[kind] = min(cutoffs[kind], objects.before)
        return CandidateRules(
            cutoffs=cutoffs,
            closed=seen.closed,
            open=seen.open,
            # In a deleted store the causes make no difference.
            causes=[None] * len(CAUSES) if store.deleted else causes_of(seen, store.noun),
            reasons=format.reasons,
            now=now,
            protected=_protected_folders(context),
            protect=seen.protect,
            shields=protection.shields,
            in_doubt=protection.matches.unread > 0,
            paths=seen.paths,
        )


def _count_versions(context: PlanContext) -> Noncurrent:
    """Count the noncurrent versions kept by a bucket."""
    store = context.store
    with context.stages.stage("versions") as counting:
        folders = buckets.folders(store.storage.url, store.format.prefix)
        count, size = context.engine.noncurrent(store.format, folders)
        counting.facts |= {"noncurrent": count, "bytes": size}
    return Noncurrent(objects=count, bytes=size)


def _known_by_name(store: Store, listing: ObjectListing, seen: Observation) -> set[str]:
    """Names of listed partitions, except unknown partitions without objects."""

    def is_empty(partition: str, folders: Sequence[str]) -> bool:
        if partition in seen.closed or partition in seen.open:
            return False
        return bool(folders) and all(is_leftover(store.storage, folder) for folder in folders)

    return {name for name, folders in listing.partitions.items() if not is_empty(name, folders)}


def _protected_folders(context: PlanContext) -> Sequence[str]:
    """Folders of the storage from which nothing is deleted."""
    store, place = context.store, context.place
    own = [place.prefix] if place.url == store.storage.url else []
    # The quarantine of an existing store is never collected.
    return [*own, *protected_folders(store)] if store.deleted else own
