"""Planning a run of lifecycle rules: a plan like any other, of what rules match wherever something
refers to it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

import pyarrow as pa

from reclaim.engine import pipelines
from reclaim.engine.answers import Candidates, ContainerFiles, Objects
from reclaim.engine.base import Engine
from reclaim.engine.incremental import CopyRequest, Indexed, IndexRequest
from reclaim.engine.lifecycle import EarlierRun, LifecycleSearch, RangeFiles, RangesRequest
from reclaim.engine.requests import ExpandRequest, FindRequest
from reclaim.engine.tasks.lifecycle_ranges import Renumbering
from reclaim.engine.tasks.parts import Opener, Part, Place, open_storage, write_part
from reclaim.errors import IncompleteRead, InvalidInput
from reclaim.model import SnapshotId
from reclaim.policy.lifecycle import (
    Bounds,
    LifecyclePolicy,
    current_rules,
    date_rules,
    lifecycle_document,
)
from reclaim.policy.lifecycle.classes import BranchClasses
from reclaim.run.lifecycle.checkpoint import LifecycleCheckpoint, read_lifecycle
from reclaim.run.lifecycle.reach import Reach, find_metaranges, find_reach
from reclaim.run.lifecycle.tables import (
    current_rules_table,
    finished_rules,
    potential_commits,
)
from reclaim.run.plan.collection import by_partition, list_store
from reclaim.run.plan.context import PlanContext
from reclaim.run.plan.dead_snapshots import dead_containers, find_dead_ids
from reclaim.run.plan.decide import Decided
from reclaim.run.plan.indexing import copy_known, find_edges, index_ranges
from reclaim.run.plan.plan_document import (
    ContainerCounts,
    File,
    IndexFile,
    Lifecycle,
    LifecycleRuleDate,
    PlanSections,
)
from reclaim.run.plan.plan_kind import (
    FullRunNeeded,
    MarkedContainers,
    ObjectListing,
    PlanKind,
    WhyFull,
)
from reclaim.run.plan.planning import PlanOptions, WrittenPlan, make_plan
from reclaim.run.record.checkpoints import (
    Kind,
    Start,
    count_taken,
    find_passed_barriers,
    find_start,
    newest_id,
)
from reclaim.run.record.stages import Watcher
from reclaim.stores.base import Store
from reclaim.stores.format import IndexesEntries
from reclaim.stores.observation import Observation

MUCH = 0.5
"""Where a larger part goes of what an earlier run knew, all objects are listed and counted."""


@dataclass(frozen=True, slots=True)
class LifecycleOptions:
    """Options of a run of lifecycle rules, beside those of every plan."""

    policy: LifecyclePolicy
    full: bool = False
    """Whether nothing of earlier runs is used."""


def plan_lifecycle(
    store: Store,
    engine: Engine,
    asked: LifecycleOptions,
    options: PlanOptions | None = None,
    *,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> WrittenPlan:
    """Find what lifecycle rules match wherever something refers to it, and write it down."""
    if not isinstance(store.format, IndexesEntries):
        raise InvalidInput(
            f"{store.name} has no paths with creation dates, so lifecycle rules cannot be applied",
            hint="lifecycle rules are for repositories of the catalog",
        )
    wanted = options or PlanOptions()
    if wanted.inventory is not None or not wanted.policy.empty:
        raise InvalidInput(
            "a run of lifecycle rules takes neither retention rules nor an inventory"
        )
    if store.deleted:
        raise InvalidInput(
            f"{store.name} was deleted, and no rule is needed for what it left",
            hint="collect it with `reclaim gc`",
        )
    check_rules(store, asked.policy)
    return make_plan(
        store,
        engine,
        wanted,
        lambda context, why_full: LifecycleRules(context, asked, why_full, wanted.allowed_fraction),
        watcher=watcher,
        opener=opener,
    )


def check_rules(store: Store, policy: LifecyclePolicy) -> None:
    """Refuse rules by which nothing could go, or that cannot be told apart."""
    if not policy.enabled_rules:
        raise InvalidInput(
            f"{store.name} has no enabled lifecycle rule, so nothing could match",
            hint="set rules with `reclaim lifecycle set`",
        )
    BranchClasses.of(date_rules(policy, store.clock.now().date()))


class LifecycleRules(PlanKind):
    """A run of lifecycle rules: it takes what rules match wherever something refers to it."""

    takes_referenced = True

    def __init__(
        self,
        context: PlanContext,
        asked: LifecycleOptions,
        why_full: WhyFull | None,
        allowed_fraction: float,
    ) -> None:
        super().__init__(context)
        self._allowed_fraction = allowed_fraction
        self._store = context.store
        self._engine = context.engine
        self._asked = asked
        self._today: date = context.started_at.date()
        self._dated = date_rules(asked.policy, self._today)
        self._classes = BranchClasses.of(self._dated)
        self._runs = list(context.store.runs())
        start = find_start(
            self._store,
            context.own_storage,
            self._runs,
            Kind.LIFECYCLE,
            read_lifecycle,
            full=asked.full,
        )
        if why_full is not None:
            start = start.restarted(why_full.why, damaged=why_full.damaged)
        self._start: Start[LifecycleCheckpoint] = start
        self._checkpoint = start.section
        self._decided: Decided | None = None
        self._reach: Reach | None = None
        self._ranges = RangeFiles()
        self._copied: Sequence[Part] = ()
        self._edges: Sequence[str] = ()
        self._indexed = Indexed()
        self._bytes = 0

    def checkpoint_files(self) -> Collection[str]:
        return self._start.files()

    # What is looked at

    @property
    def lists_all(self) -> bool:
        return self._checkpoint is None

    def list(self, place: Place) -> ObjectListing:
        if self._checkpoint is None:
            return list_store(self.context, place)
        # What goes is looked up by name. Partitions are known by theirs.
        format = self._store.format
        assert isinstance(format, IndexesEntries)
        folders = format.partition_folders(self._store.storage, None)
        return ObjectListing(Objects(place.url, ()), by_partition(folders))

    def mark(
        self,
        seen: Observation,
        decided: Decided,
        named: pa.Table,  # noqa: ARG002
        listing: ObjectListing,  # noqa: ARG002
    ) -> MarkedContainers:
        self._decided = decided
        self._reach = reach = find_reach(seen, decided, self._classes)
        bits: Mapping[SnapshotId, int] | None = None
        if self._checkpoint is not None:
            self._copied = self._copy_known(self._checkpoint)
            bits = self._find_new(self._checkpoint, reach)
        # With the bits of then for as long as these are right: only new commits are asked.
        everything = find_metaranges(seen, reach)
        request = RangesRequest(
            self._store.format, everything, self.context.place.below("containers")
        )
        if bits is not None and self._checkpoint is not None:
            request = replace(
                request,
                metaranges=find_metaranges(seen, reach, bits),
                known=self._copied,
                renumbering=Renumbering.of(self._checkpoint.names, reach.names),
            )
        metaranges = request.metaranges
        self._ranges = files = pipelines.group_ranges(self._engine, request)
        if files.metaranges != metaranges.num_rows:
            raise IncompleteRead(
                f"{metaranges.num_rows} metaranges were expected and {files.metaranges} were read",
                hint="nothing was planned; run it again, and look at the storage if it repeats",
            )
        self._index_ranges(seen, files)
        containers = ContainerFiles(
            files.containers,
            of_snapshots=everything.num_rows - metaranges.num_rows + files.metaranges,
            containers=files.ranges,
            entries=files.entries,
        )
        # Live containers list what goes, so none of them covers what is promised.
        return MarkedContainers(
            containers, covering=(), dead=self._expand_dead(seen, decided, containers)
        )

    def _expand_dead(
        self, seen: Observation, decided: Decided, containers: ContainerFiles
    ) -> ContainerFiles:
        """The containers of dead commits, where their paths may be protected."""
        dead = find_dead_ids(seen, decided) if seen.protect else frozenset()
        named = dead_containers(seen, dead)
        if not named.num_rows:
            return containers
        # Paths of what live ranges list are judged with their entries.
        place, known = self.context.work.below("dead"), self._ranges.containers
        return pipelines.expand(
            self._engine, ExpandRequest(self._store.format, named, place, known=known)
        )

    def _copy_known(self, checkpoint: LifecycleCheckpoint) -> Sequence[Part]:
        """The ranges of the checkpoint, where all other files of the plan are."""
        place = self.context.work.below("known")
        url = self._store.storage.url
        copied = pipelines.copy(self._engine, CopyRequest(checkpoint.ranges, url, place))
        self._bytes += copied.bytes
        return copied.parts

    def _index_ranges(self, seen: Observation, files: RangeFiles) -> None:
        """Read the ranges that the index does not have, or not for sure."""
        self._edges = find_edges(seen, files.entries, whole=self._start.checkpoint is None)
        since = copy_known(self.context, self._start)
        self._bytes += since.bytes
        self._indexed = index_ranges(
            self._engine,
            IndexRequest(
                self._store.format,
                files.containers,
                # Those of then, and what was read since: all entries of that are looked at.
                [*self._copied, *since.parts],
                self._edges,
                self.context.place.below("index"),
            ),
            ContainerCounts(
                of_snapshots=files.metaranges,
                containers=files.ranges + files.metaranges,
                entries=files.entries,
            ),
        )

    def _find_new(
        self, checkpoint: LifecycleCheckpoint, reach: Reach
    ) -> Mapping[SnapshotId, int] | None:
        """The commits that came since, if what reached the others then reaches them now; otherwise
        None, and all are asked which ranges they have."""
        then = checkpoint.commits
        same = self._classes.named == checkpoint.classes.named and all(
            reach.bits.get(one) == bits for one, bits in then.items()
        )
        if not same:
            return None
        return {one: bits for one, bits in reach.bits.items() if one not in then}

    # What is found

    def judge(self, request: FindRequest, seen: Observation) -> Candidates:  # noqa: ARG002
        assert self._reach is not None
        manifest = self._start.checkpoint.manifest if self._start.checkpoint else None
        checkpoint, earlier = self._checkpoint, None
        if checkpoint is not None and manifest is not None:
            earlier = EarlierRun(
                manifest.parts_until(checkpoint.section),
                checkpoint.carried,
                self._copied,
                checkpoint.classes,
            )
        search = LifecycleSearch(
            classes=self._classes,
            names=self._reach.names,
            ranges=self._ranges.parts,
            edges=self._edges,
            url=self._store.storage.url,
            index=manifest.parts_since(None) if manifest else (),
            fresh=self._indexed.parts,
            found=self.context.place.below("lifecycle"),
            earlier=earlier,
        )
        found = pipelines.find(self._engine, replace(request, lifecycle=search))
        # Of the ranges that the index has, an earlier run has counted what was read.
        counts = self._indexed.counts
        found.read.entries = counts.known_entries + counts.entries
        found.read.containers = counts.known + counts.containers - self._ranges.metaranges
        return found

    def sections(self, seen: Observation, candidates: Candidates) -> PlanSections:  # noqa: ARG002
        return PlanSections(lifecycle=self._section(candidates))

    def _section(self, found: Candidates) -> Lifecycle:
        notes, checkpoint, reach = found.lifecycle, self._checkpoint, self._reach
        start, counts = self._start, self._indexed.counts
        assert notes is not None
        assert reach is not None
        place = self.context.place.below("lifecycle")
        commits = write_part(self.context.storage, place.at("commits.parquet"), reach.commits())
        objects = notes.objects
        if checkpoint is not None:
            objects = self._count_known(checkpoint, going=sum(part.rows for part in found.parts))
        return Lifecycle(
            today=self._today,
            policy=lifecycle_document(self._asked.policy),
            rules=[LifecycleRuleDate.of(rule) for rule in self._dated],
            mode=start.mode,
            why=start.why,
            commits=File.of(commits),
            holders=list(reach.names.holders),
            branches=list(reach.names.branches),
            ranges=[File.of(part) for part in self._ranges.parts],
            rows=[File.of(part) for part in notes.rows],
            addresses=[File.of(part) for part in notes.addresses],
            held=[File.of(part) for part in notes.held],
            current_rules=File.of(self._write_current_rules(place)),
            potential_commits=File.of(self._write_potential_commits(place)),
            held_count=sum(part.rows for part in notes.held),
            gone=notes.gone,
            objects_known=objects,
            bytes_read=self._ranges.bytes
            + self._bytes
            + counts.bytes
            + notes.index_bytes
            + start.size
            + (checkpoint.bytes if checkpoint else 0),
            ranges_read=counts.ranges,
            metaranges_read=self._ranges.metaranges,
            base=newest_id(self._runs),
            generation=start.generation,
            barriers=sorted(find_passed_barriers(self._runs)),
            index=[IndexFile.of(part) for part in self._indexed.parts],
            indexed=[File.of(part) for part in self._indexed.ranges],
        )

    def _count_known(self, checkpoint: LifecycleCheckpoint, going: int) -> int:
        """How many objects there are at least: those of the checkpoint, without what runs took.

        What came since is not counted, for a range that is written again lists old objects too. So
        where much of what is known goes, or more than is allowed, everything is listed.
        """
        taken = count_taken(self._runs, checkpoint.section)
        objects = max(0, checkpoint.section.objects - taken)
        if going > min(MUCH, self._allowed_fraction) * objects:
            raise FullRunNeeded(f"{going} of at least {objects} objects would go")
        return objects

    def _write_current_rules(self, place: Place) -> Part:
        table = current_rules_table(self._dated, finished_rules(self._runs))
        return write_part(self.context.storage, place.at("current_rules.parquet"), table)

    def _write_potential_commits(self, place: Place) -> Part:
        assert self._reach is not None
        assert self._decided is not None
        checkpoint = self._checkpoint
        comparable = checkpoint is not None and checkpoint.classes.named == self._classes.named
        bounds = Bounds.of(current_rules(self._dated, finished_rules(self._runs)))
        table = potential_commits(
            self._decided,
            self._reach,
            bounds,
            checkpoint.commits if checkpoint is not None and comparable else None,
        )
        return write_part(self.context.storage, place.at("potential_commits.parquet"), table)
