"""Planning a run on uncommitted data: a plan like any other, with fewer reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine import pipelines
from reclaim.engine.answers import NO_CONTAINERS, Candidates, ContainerFiles
from reclaim.engine.base import Engine
from reclaim.engine.incremental import CopyRequest, Indexed, IndexRequest
from reclaim.engine.requests import FindRequest
from reclaim.engine.tasks.index import overlapping
from reclaim.engine.tasks.parts import Opener, Part, Place, open_storage, write_part
from reclaim.engine.tasks.reading import LIVE
from reclaim.engine.tasks.shielding import Matches
from reclaim.engine.uncommitted import DeadEntries, DeadRequest, UncommittedSearch
from reclaim.errors import InvalidInput, NotFound
from reclaim.model import RefKind
from reclaim.run.plan.collection import by_partition, expand, list_store
from reclaim.run.plan.context import PlanContext
from reclaim.run.plan.decide import Decided
from reclaim.run.plan.indexing import copy_known, find_edges, index_ranges
from reclaim.run.plan.plan_document import (
    OF_RUNS,
    ContainerCounts,
    File,
    IndexFile,
    PlanSections,
    Uncommitted,
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
from reclaim.run.uncommitted import scope
from reclaim.run.uncommitted.checkpoint import PARTITIONS, UncommittedCheckpoint, read_uncommitted
from reclaim.safety import SAFETY
from reclaim.storage import KeyRange
from reclaim.stores.base import Store
from reclaim.stores.format import IndexesEntries
from reclaim.stores.observation import Observation

SLOWEST_LISTING = SAFETY.objects / 2
"""After a slower listing, partitions final now may have had writers while being listed."""


@dataclass(frozen=True, slots=True)
class UncommittedOptions:
    """Options of a run on uncommitted data, in addition to those of every plan."""

    full: bool = False
    """Whether to ignore checkpoints of earlier runs."""
    branch: str | None = None
    """Branch to limit the listing to."""


def plan_uncommitted(
    store: Store,
    engine: Engine,
    options: PlanOptions | None = None,
    requested: UncommittedOptions | None = None,
    *,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> WrittenPlan:
    """Find unreferenced objects with as few reads as possible, and write a plan."""
    if not isinstance(store.format, IndexesEntries):
        raise InvalidInput(
            f"incremental runs are not supported for {store.kind} stores",
            hint=f"use `reclaim plan`, which finds every unreferenced {store.noun}",
        )
    plan_options, choices = options or PlanOptions(), requested or UncommittedOptions()
    if choices.branch == "":
        raise InvalidInput(
            "the name of a branch is empty", hint="run without --branch for all branches"
        )
    if choices.branch is not None and store.deleted:
        raise InvalidInput(
            f"{store.name} was deleted, and is collected completely",
            hint="run without --branch",
        )
    if plan_options.inventory is not None or not plan_options.policy.empty:
        raise InvalidInput("a run on uncommitted data supports neither rules nor an inventory")
    return make_plan(
        store,
        engine,
        plan_options,
        lambda context, full_run_reason: UncommittedData(
            context, choices, full_run_reason, plan_options.allowed_fraction
        ),
        watcher=watcher,
        opener=opener,
    )


class UncommittedData(PlanKind):
    """Run on uncommitted data: read possible changes since the checkpoint."""

    def __init__(
        self,
        context: PlanContext,
        requested: UncommittedOptions,
        full_run_reason: FullRunReason | None,
        allowed_fraction: float,
    ) -> None:
        super().__init__(context)
        self._allowed_fraction = allowed_fraction
        self._store = context.store
        self._engine = context.engine
        self._options = requested
        self._runs = list(context.store.runs())
        # A deleted store is collected completely.
        runs = () if self._store.deleted else self._runs
        start = find_start(
            self._store,
            context.own_storage,
            runs,
            Kind.UNCOMMITTED,
            read_uncommitted,
            full=requested.full,
        )
        if full_run_reason is not None:
            start = start.restarted(full_run_reason.why, damaged=full_run_reason.damaged)
        self._start: Start[UncommittedCheckpoint] = start
        self._checkpoint = start.section
        self._bytes = self._ranges = 0
        self._listed: list[str] = []
        self._partitions: Mapping[str, Sequence[str]] = {}
        self._containers = NO_CONTAINERS
        self._indexed = Indexed()
        self._dead = DeadEntries()

    def checkpoint_files(self) -> Collection[str]:
        return self._start.files()

    @property
    def _final_then(self) -> frozenset[str]:
        return self._checkpoint.final if self._checkpoint else frozenset()

    # Objects to read

    @property
    def lists_all(self) -> bool:
        return self._checkpoint is None and self._options.branch is None

    def list(self, place: Place) -> ObjectListing:
        format = self._store.format
        assert isinstance(format, IndexesEntries)
        if self._store.deleted:
            return list_store(self.context, place)
        folders = [
            (folder, partition)
            for folder, partition in format.partition_folders(
                self._store.storage, self._options.branch
            )
            if not self.context.is_skipped(folder)
        ]
        # All existing partitions are known by name, listed or not.
        self._partitions = by_partition(folders)
        self._listed = sorted(self._partitions.keys() - self._final_then)
        ranges = [KeyRange(*keys) for keys in scope.find_ranges(folders, self._final_then)]
        return ObjectListing(self._engine.list(format, ranges, place), self._partitions)

    def _check_branch(self, seen: Observation) -> None:
        """Refuse a missing branch, whose empty plan would look like a clean branch."""
        branch = self._options.branch
        if branch is None or self._partitions:
            return
        if branch not in {ref.name for ref in seen.refs if ref.kind == RefKind.BRANCH}:
            raise NotFound(
                f"{self._store.name} has no branch {branch!r}, and nothing was uploaded to one",
                hint=f"see `reclaim branch list {self._store.name}`",
            )

    def mark(
        self,
        seen: Observation,
        decided: Decided,
        named: pa.Table,
        listing: ObjectListing,  # noqa: ARG002
    ) -> MarkedContainers:
        self._check_branch(seen)
        known: Sequence[Part] = ()
        if self._checkpoint is None:
            containers = changed = expand(self.context, named)
        else:
            known = self._copy_known(self._checkpoint)
            containers, changed = self._expand_changes(
                self._checkpoint, seen, decided, named, known
            )
        self._dead = DeadEntries()
        if containers.dead:
            place = self.context.work.below("dead")
            request = DeadRequest(self._store.format, changed.parts, place)
            self._dead = pipelines.dead_entries(self._engine, request)
        if self._checkpoint is not None and self._dead.counts.unread:
            raise FullRunNeeded(
                f"{self._dead.counts.unread} containers of dead commits can no longer be read"
            )
        since = copy_known(self.context, self._start)
        self._bytes += since.bytes
        self._indexed = index_ranges(
            self._engine,
            IndexRequest(
                self._store.format,
                changed.parts,
                # Live containers of the checkpoint, and ranges read since, whose entries are all
                # judged.
                [*known, *since.parts],
                find_edges(seen, changed.entries, whole=self._start.checkpoint is None),
                self.context.place.below("index"),
            ),
            ContainerCounts.of(changed),
        )
        for counts in (self._dead.counts, self._indexed.counts):
            self._bytes += counts.bytes
            self._ranges += counts.ranges
        listed = Matches(self._dead.parts, unread=self._dead.counts.damaged)
        return MarkedContainers(
            containers, containers.parts, dead=containers, listed_by_dead=listed
        )

    def _copy_known(self, checkpoint: UncommittedCheckpoint) -> Sequence[Part]:
        """Copy the containers of the checkpoint next to the other files of the plan."""
        place = self.context.place.below("containers").below("known")
        url = self._store.storage.url
        copied = pipelines.copy(
            self._engine, CopyRequest(checkpoint.containers, url, place, live=True)
        )
        self._bytes += copied.bytes
        return copied.parts

    def _expand_changes(
        self,
        checkpoint: UncommittedCheckpoint,
        seen: Observation,
        decided: Decided,
        named: pa.Table,
        known: Sequence[Part],
    ) -> tuple[ContainerFiles, ContainerFiles]:
        """Return all containers, and those to read.

        While every commit of the checkpoint is live, so are its containers, and only containers of
        new and dead commits are read.
        """
        changes = scope.find_changes(
            checkpoint.live, live=decided.live, existing=seen.ids | seen.marked.keys()
        )
        if changes.lost:
            raise FullRunNeeded(
                f"{len(changes.lost)} {self._store.noun}s of the checkpoint of run "
                f"{checkpoint.section.run} were deleted by another run"
            )
        if changes.died:
            everything = expand(self.context, named)
            return everything, everything
        known_addresses, new_addresses = (
            {
                address
                for addresses in seen.containers.values()
                for snapshot, address in addresses.items()
                if snapshot in snapshots
            }
            for snapshots in (checkpoint.live, changes.new)
        )
        # An empty commit shares the container of its parent, which is counted already.
        is_new = pc.is_in(
            named.column("address"), pa.array(sorted(new_addresses - known_addresses), pa.string())
        )
        changed = named.filter(pc.or_(is_new, pc.not_equal(named.column("cause"), LIVE)))
        expanded = expand(self.context, changed, known=known)
        counts = checkpoint.section.counts
        containers = ContainerFiles(
            [*known, *expanded.parts],
            of_snapshots=counts.of_snapshots + expanded.of_snapshots,
            containers=counts.containers + expanded.containers,
            entries=counts.entries + expanded.entries,
            dead=expanded.dead,
        )
        return containers, expanded

    # Results

    def judge(self, request: FindRequest, seen: Observation) -> Candidates:  # noqa: ARG002
        checkpoint, prefix = self._checkpoint, ""
        if self._options.branch is not None:
            format = self._store.format
            assert isinstance(format, IndexesEntries)
            prefix = f"{format.branch_folder(self._options.branch)}/"
        search = UncommittedSearch(
            url=self._store.storage.url,
            index=self._choose_index(),
            fresh=self._indexed.parts,
            dead=self._dead.parts,
            carried=checkpoint.carried if checkpoint else (),
            unlisted=self._final_then,
            below=prefix,
            carry=self.context.place.below("carried"),
        )
        candidates = pipelines.find(self._engine, replace(request, search=search))
        # Reads of other containers were counted by an earlier run.
        candidates.read.entries = self._indexed.counts.entries
        return candidates

    def _choose_index(self) -> Sequence[Part]:
        """Index files that may have entries for the addresses in question."""
        start, checkpoint = self._start, self._checkpoint
        if start.checkpoint is None:
            return ()
        manifest = start.checkpoint.manifest
        if checkpoint is None:
            return manifest.parts_since(None)
        looked_up = scope.find_looked_up(self._listed, self._dead.counts.partitions)
        return [
            *overlapping(manifest.parts_until(checkpoint.section), looked_up),
            # Objects that became live since may be in any partition.
            *manifest.parts_since(checkpoint.section),
        ]

    def counted(self, containers: ContainerFiles) -> ContainerFiles:
        self._containers = containers
        return replace(containers, entries=self._indexed.counts.expected_entries)

    def sections(self, seen: Observation, candidates: Candidates) -> PlanSections:
        section = self._section(seen, candidates)
        going = sum(
            objects
            for (kind, *_), (objects, _) in candidates.verdict.going.items()
            if kind not in OF_RUNS
        )
        known = section.objects_known
        if self._checkpoint is not None and going > self._allowed_fraction * known:
            # The count may be too low: objects deleted by rules may be subtracted twice.
            raise FullRunNeeded(f"{going} of at least {known} objects would be deleted")
        return PlanSections(uncommitted=section)

    def _section(self, seen: Observation, candidates: Candidates) -> Uncommitted:
        notes, checkpoint = candidates.uncommitted, self._checkpoint
        assert notes is not None
        covers_store = self._options.branch is None and not self._store.deleted
        counts = dict(notes.guards)
        if checkpoint is not None:
            for partition, objects in checkpoint.counts.items():
                size = checkpoint.sizes[partition]
                if partition in self._final_then and partition not in counts:
                    # Objects deleted since were looked up and missing.
                    gone, _ = notes.missing.get(partition, (0, 0))
                    counts[partition] = max(0, objects - gone), size
        start, taken = self._start, self._count_taken()
        return Uncommitted(
            mode=start.mode,
            why=start.why,
            branch=self._options.branch,
            partitions_listed=len(self._listed) or len(notes.guards),
            objects_listed=candidates.objects - notes.looked_up,
            objects_looked_up=notes.looked_up,
            bytes_read=self._bytes
            + notes.bytes
            + start.size
            + (checkpoint.bytes if checkpoint else 0),
            ranges_read=self._ranges,
            objects_known=self._count_known(candidates, counts, taken),
            taken=taken,
            base=newest_id(self._runs),
            generation=start.generation,
            barriers=sorted(find_passed_barriers(self._runs)),
            counts=ContainerCounts.of(self._containers),
            index=[IndexFile.of(part) for part in self._indexed.parts],
            indexed=[File.of(part) for part in self._indexed.ranges],
            carried=[File.of(part) for part in notes.carried],
            partitions=File.of(self._write_partitions(seen, counts)) if covers_store else None,
        )

    def _count_taken(self) -> int:
        """Number of objects deleted by lifecycle rules since unlisted partitions were last
        listed."""
        if self._checkpoint is None:
            return 0
        section = self._checkpoint.section
        by_rules = [run for run in self._runs if run.lifecycle is not None]
        return section.taken + count_taken(by_rules, section)

    def _count_known(
        self, candidates: Candidates, counts: Mapping[str, tuple[int, int]], taken: int
    ) -> int:
        notes = candidates.uncommitted
        assert notes is not None
        tallies = (candidates.verdict.going, candidates.verdict.staying)
        unreferenced = sum(
            objects
            for tally in tallies
            for (kind, *_), (objects, _) in tally.items()
            if kind not in OF_RUNS
        )
        # For a part of the store: all referenced objects, as far as read.
        minimum = notes.committed + unreferenced
        known = sum(objects for objects, _ in counts.values())
        skipped = sum(
            objects for partition, (objects, _) in counts.items() if partition not in notes.guards
        )
        known -= min(taken, skipped)
        if self._options.branch is not None and self._checkpoint is not None:
            # In other branches nothing was looked up, and all uncertain objects count as gone.
            looked_up_parts = (*self._checkpoint.carried, *self._dead.parts)
            known += notes.looked_up - sum(part.rows for part in looked_up_parts)
        return max(minimum, known)

    def _write_partitions(self, seen: Observation, counts: Mapping[str, tuple[int, int]]) -> Part:
        final = seen.final
        if seen.read_at - self.context.started_at > SLOWEST_LISTING:
            # A partition may have been written to after it was listed, and closed since.
            final = frozenset()
        names = sorted(counts.keys() | final)
        columns = (
            names,
            [counts.get(name, (0, 0))[0] for name in names],
            [counts.get(name, (0, 0))[1] for name in names],
            [name in final for name in names],
        )
        arrays = [pa.array(c, f.type) for c, f in zip(columns, PARTITIONS, strict=True)]
        table = pa.table(arrays, schema=PARTITIONS)
        return write_part(self.context.storage, self.context.place.at("partitions.parquet"), table)
