"""Plan: find what may go, and write it down for review. Changes nothing in the store, which only
notes what the plan hashes to.

The order is the argument. What exists is listed first and written down; then the roots are read.
So an object that is listed and that no root reaches afterwards is garbage, and what is born later
is not in the listing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import pyarrow as pa

from reclaim.engine.answers import Candidates, ContainerFiles, Objects, Surveyed
from reclaim.engine.base import Engine
from reclaim.engine.requests import ExpandRequest, FindRequest
from reclaim.engine.tasks.judging import CandidateRules
from reclaim.engine.tasks.parts import Opener, Part, Place, open_storage, write_part
from reclaim.engine.tasks.shielding import Matches
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
from reclaim.run.plan.dead_snapshots import CAUSES, causes_of, find_containers, find_dead_ids
from reclaim.run.plan.decide import KEEPS_ALL, Decided, Predict, decide_seen
from reclaim.run.plan.plan_document import (
    LibraryEdit,
    Lifecycle,
    Noncurrent,
    PlanDocument,
    Uncommitted,
)
from reclaim.run.plan.plan_summary import PlanFindings, summarize
from reclaim.run.plan.promises import keep_for_edited, keep_needed, keep_promises
from reclaim.run.plan.protection import Protection, find_protection, hold_memory
from reclaim.run.plan.young_runs import YoungRuns
from reclaim.run.purge.orphans import protected_folders
from reclaim.run.record.checkpoints import hold_checkpoint
from reclaim.run.record.stages import Silent, Stages, Watcher
from reclaim.storage import LISTED, KeyRange, buckets, is_relic
from reclaim.stores.abilities import Expiration, ShowsHistory
from reclaim.stores.base import Store
from reclaim.stores.format import DecodesSnapshots, SurveysContainers
from reclaim.stores.observation import Margins, Observation, ObserveRequest, Survey
from reclaim.urls import is_odd

FOLDERS = ("work", "containers", "objects", "index", "carried", "protected", "lifecycle")
"""The folders of a plan."""
MOST = 0.9
"""A plan that takes a larger part of all objects than this needs a word from a person."""

ROUNDS = 3
"""How often a plan is begun again because a run removed what it was about to read."""
LOST = (Corrupt, NotFound, IncompleteRead)
"""How it is noticed that something is gone."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Options of a plan, as a person gives them."""

    policy: Policy = KEEPS_ALL
    policy_source: str = ""
    """Whether the policy was given or stored, as the plan says it."""
    margins: Margins = field(default_factory=Margins)
    place: Place | None = None
    inventory: Objects | None = None
    inventory_name: str | None = None
    allowed_fraction: float = MOST
    delete_expired_tags: bool = False
    delete_expired_branches: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan and where it is."""

    place: Place
    document: PlanDocument
    not_recorded: str | None = None
    """Why the store could not note what the plan hashes to; None when it did, or was not asked."""


def make_plan(
    store: Store,
    engine: Engine,
    options: PlanOptions | None = None,
    *,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> Plan:
    """Find what may go, write it down, and let the store note what the plan hashes to."""
    return record_plan(
        store, find_candidates(store, engine, options, watcher=watcher, opener=opener)
    )


def record_plan(store: Store, plan: Plan) -> Plan:
    """Let the store note what a plan hashes to, if it can: to plan, one need not write there."""
    try:
        store.record_plan(plan.document.run, plan.document.digest)
    except ReclaimError as error:
        return replace(plan, not_recorded=error.message)
    return plan


def find_candidates(
    store: Store,
    engine: Engine,
    options: PlanOptions | None = None,
    *,
    besides: str | None = None,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> Plan:
    """Find what may go, and write it down. The store is not told.

    ``besides`` is a run that goes on with what it took before: what it promised is not spared.
    """
    run_id = new_run_id(store.clock.now())
    return Planning(
        store, engine, options or PlanOptions(), run_id, besides, watcher or Silent(), opener
    ).run()


class Planning:
    """One plan in the making."""

    def __init__(
        self,
        store: Store,
        engine: Engine,
        options: PlanOptions,
        run_id: str,
        besides: str | None,
        watcher: Watcher,
        opener: Opener,
    ) -> None:
        self._store = store
        self._engine = engine
        self._options = options
        self._run = run_id
        self._besides = besides or run_id
        self._stages = Stages(run_id, watcher)
        self._place = options.place or Place(*store.place(run_id))
        self._opener = opener
        self._storage = opener(self._place.url)
        self._started = store.clock.now()
        self._young = YoungRuns(store, options.margins, self._started)
        self._versioning = buckets.versioning(store.storage.url) or ""
        self._noncurrent: Noncurrent | None = None
        self._survey: Survey | None = None
        self._surveyed: Surveyed | None = None
        self._library_edit: LibraryEdit | None = None
        self._live: frozenset[SnapshotId] = frozenset()
        """The snapshots that were observed as live."""
        self._partitions: Mapping[str, Sequence[str]] = {}
        """The partitions that were listed, with their folders."""

    def run(self) -> Plan:
        for _ in range(ROUNDS):
            self._live = frozenset()
            try:
                plan = self._plan()
            except BaseException as error:
                # A plan that was refused is no plan; what is left of it would only be listed again.
                with suppress(ReclaimError):
                    self._tidy(*FOLDERS)
                    self._storage.delete(self._place.at("snapshots.parquet"))
                if not isinstance(error, LOST) or not self._lost_live():
                    raise
            else:
                self._tidy("work")
                return plan
        raise OutOfTime(
            f"runs removed {self._store.noun}s of {self._store.name} each time that a plan read "
            "them",
            hint="nothing was changed; plan it again when these runs are done",
        )

    def _lost_live(self) -> bool:
        """Whether a run has since removed a snapshot that was live when it was observed.

        Its files may be gone by now, and nothing is damaged.
        """
        if self._store.deleted or not isinstance(self._store, ShowsHistory):
            return False
        try:
            seen = self._store.current_history()
        except ReclaimError:
            return False
        return not self._live <= {snapshot.id for snapshot in seen.snapshots}

    def _plan(self) -> Plan:
        stage, work = self._stages.stage, self._place.below("work")
        with stage("check"):
            self._library_edit = self._find_library_edit()
            if self._library_edit is not None:
                check_library(self._store)
            self._store.check()
            check_clock(self._store, self._storage, work)
            inventory = self._inventory()
        # What is refused by now needed no engine.
        self._engine.start()
        with stage("list", unit=OBJECTS) as listing:
            objects = inventory or self._list(work.below("listing"))
            listing.facts["objects"] = sum(part.rows for part in objects.parts)
        self._count_versions()
        with stage("observe") as observing:
            seen = self._store.observe(
                ObserveRequest(
                    self._storage,
                    work.at("roots/"),
                    self._engine,
                    self._options.margins.objects,
                    survey=self._survey,
                )
            )
            seen = keep_promises(
                seen,
                self._store,
                self._engine,
                besides=self._besides,
                place=work,
                opener=self._opener,
            )
            seen = self._keep_more(seen)
            for hold in (hold_checkpoint, hold_memory):
                url = self._store.storage.url
                seen = hold(seen, self._store, self._opener(url), work, self._storage)
            observing.facts |= {"snapshots": len(seen.ids), "refs": len(seen.refs)}
            # A clock that jumped since has made old what is young.
            check_clock(self._store, self._storage, work)
        with stage("decide") as deciding:
            decided = self._decide(seen)
            self._live = decided.live
            seen = keep_for_edited(seen, self._store, decided, place=work, opener=self._opener)
            dead = find_dead_ids(seen, decided)
            deciding.facts |= {"live": len(decided.live), "dead": len(dead)}
        with stage("mark", unit=CONTAINERS) as marking:
            named = find_containers(seen, decided)
            containers = self._expand(seen, decided, named)
            marking.facts |= {"containers": containers.containers, "entries": containers.entries}
            seen = keep_needed(
                seen,
                self._store,
                self._engine,
                besides=self._besides,
                place=work,
                known=self._covering(containers),
            )
            protection = self._find_protection(seen, containers)
        looked_at = sum(part.rows for part in objects.parts)
        with stage("plan", unit=OBJECTS, total=looked_at) as planning:
            found = self._find(
                FindRequest(
                    self._store.format,
                    objects,
                    containers,
                    seen.held,
                    self._rules(seen, objects, protection),
                    self._place.below("objects"),
                    work,
                ),
                seen,
            )
            planning.facts |= {"candidates": sum(part.rows for part in found.parts)}
        check_complete(seen, decided, named, self._counted(containers), found)
        check_kept(self._store, self._survey, decided, found)
        check_listed(self._store, objects, found, began_at=self._started)
        check_inventory(self._store, objects, found)
        strangers = found.verdict.strangers.keys()
        # One in which an object was found is not asked whether it is empty.
        listed = {name for name in self._partitions if not self._is_empty_stranger(name, seen)}
        check_partitions(self._store, listed | strangers, seen)
        written = plan_snapshots.write(
            self._storage, self._place.at("snapshots.parquet"), seen, decided
        )
        findings = PlanFindings(
            run=self._run,
            place=self._place,
            started_at=self._started,
            cutoff=self._started - self._options.margins.objects,
            policy=self._options.policy,
            policy_source=self._options.policy_source,
            library_edit=self._library_edit,
            inventory=self._options.inventory_name,
            allowed_fraction=self._options.allowed_fraction,
            versioning=self._versioning,
            noncurrent=self._noncurrent,
            seen=seen,
            decided=decided,
            dead=dead,
            containers=self._counted(containers),
            found=found,
            snapshots=written,
            protection=protection,
            uncommitted=self._uncommitted(seen, found),
            lifecycle=self._lifecycle(found),
        )
        made = summarize(self._store, findings)
        check_fraction(made)
        # As it is here, not as it can be read: others may be able to write there.
        return Plan(self._place, plan_file.write(self._storage, self._place, made))

    def _expand(self, seen: Observation, decided: Decided, named: pa.Table) -> ContainerFiles:  # noqa: ARG002
        """The containers that snapshots need, and those that only dead ones have."""
        place = self._place.below("containers")
        return self._engine.expand(
            ExpandRequest(self._store.format, named, place, surveyed=self._surveyed)
        )

    def _covering(self, containers: ContainerFiles) -> Sequence[Part]:
        """Containers whose entries stay anyway, so that promises need not name them."""
        return containers.parts

    def _find(self, request: FindRequest, seen: Observation) -> Candidates:  # noqa: ARG002
        """The objects that may go."""
        return self._engine.find(request)

    def _counted(self, containers: ContainerFiles) -> ContainerFiles:
        """The containers with the counts of what had to be read of them."""
        return containers

    def _uncommitted(self, seen: Observation, found: Candidates) -> Uncommitted | None:  # noqa: ARG002
        """The section of the plan about a run on uncommitted data."""
        return None

    def _lifecycle(self, found: Candidates) -> Lifecycle | None:  # noqa: ARG002
        """The section of the plan about a run of lifecycle rules."""
        return None

    def _count_versions(self) -> None:
        """Count what a bucket keeps beside the current objects."""
        if not self._versioning:
            return
        with self._stages.stage("versions") as counting:
            folders = buckets.folders(self._store.storage.url, self._store.format.prefix)
            count, size = self._engine.noncurrent(self._store.format, folders)
            self._noncurrent = Noncurrent(objects=count, bytes=size)
            counting.facts |= {"noncurrent": count, "bytes": size}

    def _inventory(self) -> Objects | None:
        given = self._options.inventory
        if given is not None and isinstance(self._store.format, DecodesSnapshots):
            raise InvalidInput(
                f"the {self._store.noun}s of {self._store.name} have to be listed in the "
                "storage itself; an inventory cannot replace that",
                hint="leave --inventory out",
            )
        return given

    def _list(self, place: Place) -> Objects:
        format = self._store.format
        ranges = [
            keys
            for keys in format.key_ranges(self._store.storage)
            if not self._is_skipped(keys.prefix)
        ]
        self._partitions = _partitions(self._store, ranges)
        if not isinstance(format, DecodesSnapshots):
            return self._engine.list(format, ranges, place)
        # Its snapshots are files: they are read where they are listed, and once.
        of_snapshots = [keys for keys in ranges if format.has_snapshots(keys)]
        if isinstance(format, SurveysContainers) and format.surveys_containers:
            self._surveyed = self._engine.survey_containers(
                format, of_snapshots, self._place.below("work").below("surveyed")
            )
            rows = self._surveyed.rows
        else:
            rows = self._engine.survey(format, of_snapshots)
        self._survey = Survey(rows, self._started)
        others = [keys for keys in ranges if not format.has_snapshots(keys)]
        objects = self._engine.list(format, others, place)
        if not rows.num_rows:
            return objects
        listed = rows.select(LISTED.names)
        surveyed = write_part(self._storage, place.at("survey.parquet"), listed)
        return replace(objects, parts=(surveyed, *objects.parts))

    def _is_skipped(self, folder: str) -> bool:
        """Whether a folder is not listed: that of this run, or of one that is too young."""
        return folder.rstrip("/") == self._place.prefix.rstrip("/") or self._young.has(folder)

    def _is_empty_stranger(self, partition: str, seen: Observation) -> bool:
        """Whether a partition that nobody knows was listed, and has no object."""
        if partition in seen.closed or partition in seen.open:
            return False
        folders = self._partitions[partition]
        return bool(folders) and all(is_relic(self._store.storage, folder) for folder in folders)

    def _decide(self, seen: Observation) -> Decided:
        if seen.editor is not None and not self._options.policy.empty:
            raise edit_in_progress(seen.editor)
        return decide_seen(
            self._options.policy,
            seen,
            delete_expired_tags=self._options.delete_expired_tags,
            delete_expired_branches=self._options.delete_expired_branches,
            predict=self._predict(seen),
            noun=self._store.noun,
        )

    def _find_library_edit(self) -> LibraryEdit | None:
        return find_library_edit(
            self._store,
            self._options.policy,
            delete_expired_tags=self._options.delete_expired_tags,
            delete_expired_branches=self._options.delete_expired_branches,
        )

    def _predict(self, seen: Observation) -> Predict | None:
        """A prediction of the edit by the store's own library, if that edits the history."""
        edit = self._library_edit
        if edit is None:
            return None
        asked = Expiration(
            self._options.policy,
            seen.read_at,
            edit.delete_expired_tags,
            edit.delete_expired_branches,
        )
        return predicting(self._store, asked)

    def _find_protection(self, seen: Observation, containers: ContainerFiles) -> Protection:
        """The objects that the setting of the store protects."""
        return find_protection(
            self._store,
            self._engine,
            seen,
            containers,
            place=self._place.below("protected"),
            work=self._place.below("work"),
            opener=self._opener,
            listed=self._listed_by_dead(),
        )

    def _listed_by_dead(self) -> Matches | None:
        """The entries of dead containers, if they were read."""
        return None

    def _rules(self, seen: Observation, objects: Objects, protection: Protection) -> CandidateRules:
        format = self._store.format
        cutoffs = {}
        for kind in format.order:
            cutoffs[kind] = self._started - self._options.margins.age(format.margins[kind])
            if objects.before is not None:
                cutoffs[kind] = min(cutoffs[kind], objects.before)
        return CandidateRules(
            cutoffs=cutoffs,
            closed=seen.closed,
            open=seen.open,
            # Of a store that is gone, it makes no difference what snapshots were.
            causes=[None] * len(CAUSES)
            if self._store.deleted
            else causes_of(seen, self._store.noun),
            reasons=format.reasons,
            now=self._started,
            protected=self._protected(),
            protect=seen.protect,
            shields=protection.shields,
            in_doubt=protection.matches.unread > 0,
            paths=seen.paths,
        )

    def _keep_more(self, seen: Observation) -> Observation:
        """An observation in which more is held, for a plan that takes what is referred to."""
        return seen

    def _protected(self) -> Sequence[str]:
        """Folders of the storage that nothing is taken from."""
        own = [self._place.prefix] if self._place.url == self._store.storage.url else []
        # What is in quarantine of a living store is not collected at all.
        return [*own, *protected_folders(self._store)] if self._store.deleted else own

    def _tidy(self, *folders: str) -> None:
        """Remove what only the making of the plan needed."""
        for folder in folders:
            for stored in list(self._storage.list(self._place.at(folder))):
                self._storage.delete(stored.address)


def _partitions(store: Store, ranges: Sequence[KeyRange]) -> dict[str, list[str]]:
    folders = [keys.prefix for keys in ranges if not is_odd(f"{keys.prefix}/_")]
    inside = pa.array([f"{folder}/_" for folder in folders], pa.string())
    partitions = store.format.describe(inside).field("guard").to_pylist()
    return by_partition(zip(folders, partitions, strict=True))


def by_partition(folders: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The folders of each partition that has a name."""
    named: dict[str, list[str]] = {}
    for folder, partition in folders:
        if partition:
            named.setdefault(partition, []).append(folder)
    return named
