"""Planning a run of lifecycle rules: a plan of matched objects, referenced or not."""

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
    FullRunReason,
    MarkedContainers,
    ObjectListing,
    PlanKind,
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

LARGE_FRACTION = 0.5
"""If more than this fraction of known objects would be deleted, all objects are listed and counted.
"""


@dataclass(frozen=True, slots=True)
class LifecycleOptions:
    """Options of a run of lifecycle rules, in addition to those of every plan."""

    policy: LifecyclePolicy
    full: bool = False
    """Whether to ignore checkpoints of earlier runs."""


def plan_lifecycle(
    store: Store,
    engine: Engine,
    requested: LifecycleOptions,
    options: PlanOptions | None = None,
    *,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> WrittenPlan:
    """Find objects matched by lifecycle rules in all of their references, and write a plan."""
    if not isinstance(store.format, IndexesEntries):
        raise InvalidInput(
            f"{store.name} has no paths with creation dates, so lifecycle rules cannot be applied",
            hint="lifecycle rules are only for repositories of a catalog",
        )
    plan_options = options or PlanOptions()
    if plan_options.inventory is not None or not plan_options.policy.empty:
        raise InvalidInput(
            "a run of lifecycle rules supports neither retention rules nor an inventory"
        )
    if store.deleted:
        raise InvalidInput(
            f"{store.name} was deleted; its objects can be collected without rules",
            hint="collect it with `reclaim gc`",
        )
    check_rules(store, requested.policy)
    return make_plan(
        store,
        engine,
        plan_options,
        lambda context, full_run_reason: LifecycleRules(
            context, requested, full_run_reason, plan_options.allowed_fraction
        ),
        watcher=watcher,
        opener=opener,
    )


def check_rules(store: Store, policy: LifecyclePolicy) -> None:
    """Refuse ambiguous rules, and rules that match nothing."""
    if not policy.enabled_rules:
        raise InvalidInput(
            f"{store.name} has no enabled lifecycle rule, so nothing could match",
            hint="set rules with `reclaim lifecycle set`",
        )
    BranchClasses.of(date_rules(policy, store.clock.now().date()))


class LifecycleRules(PlanKind):
    """Run of lifecycle rules: delete objects whose references all match a rule."""

    takes_referenced = True

    def __init__(
        self,
        context: PlanContext,
        requested: LifecycleOptions,
        full_run_reason: FullRunReason | None,
        allowed_fraction: float,
    ) -> None:
        super().__init__(context)
        self._allowed_fraction = allowed_fraction
        self._store = context.store
        self._engine = context.engine
        self._options = requested
        self._today: date = context.started_at.date()
        self._dated = date_rules(requested.policy, self._today)
        self._classes = BranchClasses.of(self._dated)
        self._runs = list(context.store.runs())
        start = find_start(
            self._store,
            context.own_storage,
            self._runs,
            Kind.LIFECYCLE,
            read_lifecycle,
            full=requested.full,
        )
        if full_run_reason is not None:
            start = start.restarted(full_run_reason.why, damaged=full_run_reason.damaged)
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

    # Objects to read

    @property
    def lists_all(self) -> bool:
        return self._checkpoint is None

    def list(self, place: Place) -> ObjectListing:
        if self._checkpoint is None:
            return list_store(self.context, place)
        # Matched objects are looked up by address, partitions by folder name.
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
        # The checkpoint's bits are used while they are valid, to read only new commits.
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
                f"{metaranges.num_rows} metaranges were expected, but {files.metaranges} were read",
                hint="nothing was planned; run it again, and look at the storage if it repeats",
            )
        self._index_ranges(seen, files)
        containers = ContainerFiles(
            files.containers,
            of_snapshots=everything.num_rows - metaranges.num_rows + files.metaranges,
            containers=files.ranges,
            entries=files.entries,
        )
        # Live containers list the matched objects, so none of them covers promised objects.
        return MarkedContainers(
            containers, covering=(), dead=self._expand_dead(seen, decided, containers)
        )

    def _expand_dead(
        self, seen: Observation, decided: Decided, containers: ContainerFiles
    ) -> ContainerFiles:
        """Containers of dead commits, if their paths may be protected."""
        dead = find_dead_ids(seen, decided) if seen.protect else frozenset()
        named = dead_containers(seen, dead)
        if not named.num_rows:
            return containers
        # Paths of entries in live ranges are judged with these ranges.
        place, known = self.context.work.below("dead"), self._ranges.containers
        return pipelines.expand(
            self._engine, ExpandRequest(self._store.format, named, place, known=known)
        )

    def _copy_known(self, checkpoint: LifecycleCheckpoint) -> Sequence[Part]:
        """Copy the checkpoint's ranges next to the other files of the plan."""
        place = self.context.work.below("known")
        url = self._store.storage.url
        copied = pipelines.copy(self._engine, CopyRequest(checkpoint.ranges, url, place))
        self._bytes += copied.bytes
        return copied.parts

    def _index_ranges(self, seen: Observation, files: RangeFiles) -> None:
        """Read ranges that are missing from the index."""
        self._edges = find_edges(seen, files.entries, whole=self._start.checkpoint is None)
        since = copy_known(self.context, self._start)
        self._bytes += since.bytes
        self._indexed = index_ranges(
            self._engine,
            IndexRequest(
                self._store.format,
                files.containers,
                # Ranges of the checkpoint, and ranges read since, whose entries are all judged.
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
        """Return the commits added since the checkpoint, if the reach of all others is unchanged;
        otherwise None, to read the ranges of all commits."""
        checkpoint_bits = checkpoint.commits
        unchanged = self._classes.named == checkpoint.classes.named and all(
            reach.bits.get(snapshot) == bits for snapshot, bits in checkpoint_bits.items()
        )
        if not unchanged:
            return None
        return {
            snapshot: bits
            for snapshot, bits in reach.bits.items()
            if snapshot not in checkpoint_bits
        }

    # Results

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
            results=self.context.place.below("lifecycle"),
            earlier=earlier,
        )
        candidates = pipelines.find(self._engine, replace(request, lifecycle=search))
        # Reads of indexed ranges were counted by an earlier run.
        counts = self._indexed.counts
        candidates.read.entries = counts.known_entries + counts.entries
        candidates.read.containers = counts.known + counts.containers - self._ranges.metaranges
        return candidates

    def sections(self, seen: Observation, candidates: Candidates) -> PlanSections:  # noqa: ARG002
        return PlanSections(lifecycle=self._section(candidates))

    def _section(self, candidates: Candidates) -> Lifecycle:
        notes, checkpoint, reach = candidates.lifecycle, self._checkpoint, self._reach
        start, counts = self._start, self._indexed.counts
        assert notes is not None
        assert reach is not None
        place = self.context.place.below("lifecycle")
        commits = write_part(self.context.storage, place.at("commits.parquet"), reach.commits())
        objects = notes.objects
        if checkpoint is not None:
            objects = self._count_known(
                checkpoint, going=sum(part.rows for part in candidates.parts)
            )
        return Lifecycle(
            today=self._today,
            policy=lifecycle_document(self._options.policy),
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
        """Minimum number of objects: those of the checkpoint, without objects deleted by runs.

        New objects are not counted, because a rewritten range lists old objects too. So a plan that
        deletes many of the known objects, or more than allowed, lists everything.
        """
        taken = count_taken(self._runs, checkpoint.section)
        objects = max(0, checkpoint.section.objects - taken)
        if going > min(LARGE_FRACTION, self._allowed_fraction) * objects:
            raise FullRunNeeded(f"{going} of at least {objects} objects would be deleted")
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
