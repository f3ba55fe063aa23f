"""Planning a run on uncommitted data: a plan like any other, made from less."""

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
from reclaim.run.uncommitted import scope
from reclaim.run.uncommitted.checkpoint import PARTITIONS, UncommittedCheckpoint, read_uncommitted
from reclaim.safety import SAFETY
from reclaim.storage import KeyRange
from reclaim.stores.base import Store
from reclaim.stores.format import IndexesEntries
from reclaim.stores.observation import Observation

SLOWEST_LISTING = SAFETY.objects / 2
"""After more than this, what is final now may not have been when it was listed."""


@dataclass(frozen=True, slots=True)
class UncommittedOptions:
    """Options of a run on uncommitted data, beside those of every plan."""

    full: bool = False
    """Whether nothing of earlier runs is used."""
    branch: str | None = None
    """The branch that the listing is limited to."""


def plan_uncommitted(
    store: Store,
    engine: Engine,
    options: PlanOptions | None = None,
    asked: UncommittedOptions | None = None,
    *,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> WrittenPlan:
    """Find what nothing refers to, looking at no more than is needed, and write it down."""
    if not isinstance(store.format, IndexesEntries):
        raise InvalidInput(
            f"{store.name} has no uncommitted data of which checkpoints are made",
            hint=f"use `reclaim plan`, which finds every {store.noun} that nothing refers to",
        )
    wanted, how = options or PlanOptions(), asked or UncommittedOptions()
    if how.branch == "":
        raise InvalidInput(
            "the name of a branch is empty", hint="leave --branch out for all of them"
        )
    if how.branch is not None and store.deleted:
        raise InvalidInput(
            f"{store.name} was deleted, and what it left goes as a whole",
            hint="leave --branch out",
        )
    if wanted.inventory is not None or not wanted.policy.empty:
        raise InvalidInput("a run on uncommitted data takes neither rules nor an inventory")
    return make_plan(
        store,
        engine,
        wanted,
        lambda context, why_full: UncommittedData(context, how, why_full, wanted.allowed_fraction),
        watcher=watcher,
        opener=opener,
    )


class UncommittedData(PlanKind):
    """A run on uncommitted data: it looks at what may have changed since the checkpoint."""

    def __init__(
        self,
        context: PlanContext,
        asked: UncommittedOptions,
        why_full: WhyFull | None,
        allowed_fraction: float,
    ) -> None:
        super().__init__(context)
        self._allowed_fraction = allowed_fraction
        self._store = context.store
        self._engine = context.engine
        self._asked = asked
        self._runs = list(context.store.runs())
        # A store that was deleted goes as a whole.
        runs = () if self._store.deleted else self._runs
        start = find_start(
            self._store,
            context.own_storage,
            runs,
            Kind.UNCOMMITTED,
            read_uncommitted,
            full=asked.full,
        )
        if why_full is not None:
            start = start.restarted(why_full.why, damaged=why_full.damaged)
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

    # What is looked at

    @property
    def lists_all(self) -> bool:
        return self._checkpoint is None and self._asked.branch is None

    def list(self, place: Place) -> ObjectListing:
        format = self._store.format
        assert isinstance(format, IndexesEntries)
        if self._store.deleted:
            return list_store(self.context, place)
        folders = [
            (folder, partition)
            for folder, partition in format.partition_folders(
                self._store.storage, self._asked.branch
            )
            if not self.context.is_skipped(folder)
        ]
        # All that are there are known by name, whether they are listed or not.
        self._partitions = by_partition(folders)
        self._listed = sorted(self._partitions.keys() - self._final_then)
        ranges = [KeyRange(*keys) for keys in scope.find_ranges(folders, self._final_then)]
        return ObjectListing(self._engine.list(format, ranges, place), self._partitions)

    def _check_branch(self, seen: Observation) -> None:
        """Refuse a branch that there is not: nothing of it would look like nothing to do."""
        branch = self._asked.branch
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
                f"{self._dead.counts.unread} containers of dead commits cannot be read any more"
            )
        since = copy_known(self.context, self._start)
        self._bytes += since.bytes
        self._indexed = index_ranges(
            self._engine,
            IndexRequest(
                self._store.format,
                changed.parts,
                # Live ones of then, and what was read since: all entries of that are looked at.
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
        """The containers of the checkpoint, where all other files of the plan are."""
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
        """All containers, and those of them that the checkpoint need not know.

        While every commit of the checkpoint lives on, so do its containers, and only those of new
        commits and of dead ones are asked what they list.
        """
        changes = scope.find_changes(
            checkpoint.live, live=decided.live, there=seen.ids | seen.marked.keys()
        )
        if changes.lost:
            raise FullRunNeeded(
                f"{len(changes.lost)} {self._store.noun}s of the checkpoint of run "
                f"{checkpoint.section.run} were taken by another run"
            )
        if changes.died:
            containers = expand(self.context, named)
            return containers, containers
        then, new = (
            {
                address
                for addresses in seen.containers.values()
                for snapshot, address in addresses.items()
                if snapshot in snapshots
            }
            for snapshots in (checkpoint.live, changes.new)
        )
        # A commit that changes nothing has the container of its parent, which is counted already.
        is_new = pc.is_in(named.column("address"), pa.array(sorted(new - then), pa.string()))
        changed = named.filter(pc.or_(is_new, pc.not_equal(named.column("cause"), LIVE)))
        more = expand(self.context, changed, known=known)
        counts = checkpoint.section.counts
        whole = ContainerFiles(
            [*known, *more.parts],
            of_snapshots=counts.of_snapshots + more.of_snapshots,
            containers=counts.containers + more.containers,
            entries=counts.entries + more.entries,
            dead=more.dead,
        )
        return whole, more

    # What is found

    def judge(self, request: FindRequest, seen: Observation) -> Candidates:  # noqa: ARG002
        checkpoint, prefix = self._checkpoint, ""
        if self._asked.branch is not None:
            format = self._store.format
            assert isinstance(format, IndexesEntries)
            prefix = f"{format.branch_folder(self._asked.branch)}/"
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
        # Of other containers an earlier run has counted what was read.
        candidates.read.entries = self._indexed.counts.entries
        return candidates

    def _choose_index(self) -> Sequence[Part]:
        """The parts of the index that may have what is looked for."""
        start, checkpoint = self._start, self._checkpoint
        if start.checkpoint is None:
            return ()
        manifest = start.checkpoint.manifest
        if checkpoint is None:
            return manifest.parts_since(None)
        looked_up = scope.find_looked_up(self._listed, self._dead.counts.partitions)
        return [
            *overlapping(manifest.parts_until(checkpoint.section), looked_up),
            # What became live since may be listed in any partition.
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
            # The count errs on the safe side: objects that rules took may be subtracted twice.
            raise FullRunNeeded(f"{going} of at least {known} objects would go")
        return PlanSections(uncommitted=section)

    def _section(self, seen: Observation, found: Candidates) -> Uncommitted:
        notes, checkpoint = found.uncommitted, self._checkpoint
        assert notes is not None
        whole = self._asked.branch is None and not self._store.deleted
        counts = dict(notes.guards)
        if checkpoint is not None:
            for partition, objects in checkpoint.counts.items():
                size = checkpoint.sizes[partition]
                if partition in self._final_then and partition not in counts:
                    # What somebody has deleted since was looked up, and was not there.
                    gone, _ = notes.missing.get(partition, (0, 0))
                    counts[partition] = max(0, objects - gone), size
        start, taken = self._start, self._count_taken()
        return Uncommitted(
            mode=start.mode,
            why=start.why,
            branch=self._asked.branch,
            partitions_listed=len(self._listed) or len(notes.guards),
            objects_listed=found.objects - notes.looked_up,
            objects_looked_up=notes.looked_up,
            bytes_read=self._bytes
            + notes.bytes
            + start.size
            + (checkpoint.bytes if checkpoint else 0),
            ranges_read=self._ranges,
            objects_known=self._count_known(found, counts, taken),
            taken=taken,
            base=newest_id(self._runs),
            generation=start.generation,
            barriers=sorted(find_passed_barriers(self._runs)),
            counts=ContainerCounts.of(self._containers),
            index=[IndexFile.of(part) for part in self._indexed.parts],
            indexed=[File.of(part) for part in self._indexed.ranges],
            carried=[File.of(part) for part in notes.carried],
            partitions=File.of(self._write_partitions(seen, counts)) if whole else None,
        )

    def _count_taken(self) -> int:
        """How many objects lifecycle rules took since the partitions that are not listed were."""
        if self._checkpoint is None:
            return 0
        section = self._checkpoint.section
        by_rules = [run for run in self._runs if run.lifecycle is not None]
        return section.taken + count_taken(by_rules, section)

    def _count_known(
        self, found: Candidates, counts: Mapping[str, tuple[int, int]], taken: int
    ) -> int:
        notes = found.uncommitted
        assert notes is not None
        tallies = (found.verdict.going, found.verdict.staying)
        unreferenced = sum(
            objects
            for tally in tallies
            for (kind, *_), (objects, _) in tally.items()
            if kind not in OF_RUNS
        )
        # Of a part of the store alone: all that is referred to, as far as that was read.
        least = notes.committed + unreferenced
        known = sum(objects for objects, _ in counts.values())
        skipped = sum(
            objects for partition, (objects, _) in counts.items() if partition not in notes.guards
        )
        known -= min(taken, skipped)
        if self._asked.branch is not None and self._checkpoint is not None:
            # Elsewhere nothing was looked up, and all that may be gone is taken for gone.
            asked = (*self._checkpoint.carried, *self._dead.parts)
            known += notes.looked_up - sum(part.rows for part in asked)
        return max(least, known)

    def _write_partitions(self, seen: Observation, counts: Mapping[str, tuple[int, int]]) -> Part:
        final = seen.final
        if seen.read_at - self.context.started_at > SLOWEST_LISTING:
            # One may have been written to after it was listed, and closed long ago by now.
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
