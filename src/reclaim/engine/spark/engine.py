"""The engine on Spark: the tasks of a run on executors, and the joins between them.

Only the DataFrame API that Spark Connect has as well. Tasks reach the storage through obstore, in
``mapInArrow``; they write what they find as parts and give back a line for each, so that nothing
of the size of the data comes to the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial, reduce

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from reclaim.clock import SystemClock
from reclaim.engine.answers import (
    Candidates,
    ContainerFiles,
    Excluded,
    Needed,
    Objects,
    Surveyed,
    Swept,
)
from reclaim.engine.incremental import (
    Carried,
    CarryRequest,
    Copied,
    CopyRequest,
    Indexed,
    IndexRequest,
)
from reclaim.engine.lifecycle import (
    PublishRequest,
    RangeFiles,
    RangesRequest,
    Rejudged,
    RejudgeRequest,
)
from reclaim.engine.requests import (
    ConfirmRequest,
    ExcludeRequest,
    ExpandRequest,
    FindRequest,
    IncompleteRequest,
    NeededRequest,
    RecallRequest,
    SweepRequest,
)
from reclaim.engine.spark.cores import TASKS_PER_CORE
from reclaim.engine.spark.expanding import Expander, live_addresses
from reclaim.engine.spark.finding import DRIVER_ROW_LIMIT, LOOKUP_LIMIT, Finder
from reclaim.engine.spark.frames import Frames, map_rows
from reclaim.engine.spark.incremental import IncrementalJobs
from reclaim.engine.spark.lifecycle import LifecycleJobs
from reclaim.engine.spark.meter import SparkMeter
from reclaim.engine.spark.session import works_here
from reclaim.engine.spark.shielding import ShieldingJobs
from reclaim.engine.spark.uncommitted import UncommittedJobs
from reclaim.engine.spark.work import candidates, containers, listing, parts, taking
from reclaim.engine.tasks.deleting import GOING, Outcome
from reclaim.engine.tasks.excluding import KNOWN_PATH
from reclaim.engine.tasks.judging import CANDIDATES, PATHS, add_kinds
from reclaim.engine.tasks.keys import KeysOf, keys_of
from reclaim.engine.tasks.parts import Part, Place, open_storage, read_part
from reclaim.engine.tasks.promised import LISTED_CONTAINERS, Unread
from reclaim.engine.tasks.reading import NEEDS
from reclaim.engine.tasks.recall import RANKED
from reclaim.engine.tasks.shielding import Matches, MatchRequest, MergeRequest, ShieldRequest
from reclaim.engine.uncommitted import DeadEntries, DeadRequest
from reclaim.process import note_remote_work
from reclaim.storage import KeyRange
from reclaim.storage.key_range import shares
from reclaim.stores.format import (
    CONTAINERS,
    OWNED,
    SNAPSHOTS,
    DecodesSnapshots,
    Format,
    SurveysContainers,
)

ADDRESSES = pa.schema([pa.field("address", pa.string(), nullable=False)])
LISTED_BY_A_TASK = 64
"""Folders of a storage that is asked by requests that are worth one more task than there are
cores."""
DELETED_BY_A_TASK = 1_000
"""Objects that are worth a task of their own to delete them."""


class SparkEngine:
    """Runs the tasks of a run on a Spark session that someone else will stop.

    A session that is given as a function is started by ``start``, or by the first step.
    """

    def __init__(
        self,
        session: SparkSession | Callable[[], SparkSession],
        *,
        tasks: int | None = None,
        metered: Callable[[SparkSession], SparkMeter] | None = None,
        lookup_limit: int = LOOKUP_LIMIT,
        driver_row_limit: int = DRIVER_ROW_LIMIT,
        keys_of: KeysOf = keys_of,
    ) -> None:
        """``tasks`` is how many a large job is cut into; by default twice the session's cores.

        ``metered`` makes the meter of the session, for people who watch how far its jobs are.
        """
        self._session = session
        self._given_tasks = tasks
        self._metered = metered
        self._lookup_limit = lookup_limit
        self._driver_row_limit = driver_row_limit
        self._keys_of = keys_of

    def start(self) -> None:
        _ = self._frames

    @cached_property
    def _frames(self) -> Frames:
        spark = self._session() if callable(self._session) else self._session
        if not works_here(spark):
            note_remote_work()
        return Frames(spark, self._given_tasks, self._metered(spark) if self._metered else None)

    @cached_property
    def _finder(self) -> Finder:
        return Finder(
            self._frames,
            lookup_limit=self._lookup_limit,
            driver_row_limit=self._driver_row_limit,
            keys_of=self._keys_of,
        )

    @cached_property
    def _expander(self) -> Expander:
        return Expander(self._frames, self._finder.driver_row_limit)

    @cached_property
    def _incremental(self) -> IncrementalJobs:
        return IncrementalJobs(self._frames, self._finder)

    @cached_property
    def _uncommitted(self) -> UncommittedJobs:
        return UncommittedJobs(self._frames, self._finder)

    @cached_property
    def _lifecycle(self) -> LifecycleJobs:
        return LifecycleJobs(self._frames, self._finder)

    @cached_property
    def _shielding(self) -> ShieldingJobs:
        return ShieldingJobs(self._frames, self._finder)

    def list(self, format: Format, ranges: Sequence[KeyRange], place: Place) -> Objects:
        if not ranges:
            return Objects(place.url, ())
        dealt = self._frames.deal(self._shares(format, ranges))
        lines = self._frames.run(dealt, partial(listing.list_keys, format, place))
        return Objects(place.url, lines.parts)

    def survey(self, format: DecodesSnapshots, ranges: Sequence[KeyRange]) -> pa.Table:
        if not ranges:
            return SNAPSHOTS.empty_table()
        dealt = self._frames.deal(self._shares(format, ranges))
        return self._frames.gather(dealt, partial(listing.survey, format), SNAPSHOTS)

    def survey_containers(
        self, format: SurveysContainers, ranges: Sequence[KeyRange], place: Place
    ) -> Surveyed:
        if not ranges:
            return Surveyed(SNAPSHOTS.empty_table(), ())
        dealt = self._frames.deal(self._shares(format, ranges))
        lines = self._frames.run(dealt, partial(listing.survey_containers, format, place))
        storage = open_storage(place.url)
        listed, rows = [], [SNAPSHOTS.empty_table()]
        for part in lines.parts:
            if part.group == listing.SURVEYED:
                rows.append(read_part(storage, part))
            else:
                listed.append(part)
        return Surveyed(pa.concat_tables(rows), listed)

    def snapshots(self, format: DecodesSnapshots, addresses: Sequence[str]) -> pa.Table:
        if not addresses:
            return SNAPSHOTS.empty_table()
        spread = self._frames.spread(pa.table({"address": pa.array(addresses, pa.string())}))
        return self._frames.gather(spread, partial(listing.read_snapshots, format), SNAPSHOTS)

    def _shares(self, format: Format, ranges: Sequence[KeyRange]) -> Sequence[pa.Table]:
        tasks = self._frames.tasks
        cores = max(1, tasks // TASKS_PER_CORE)
        # Every piece of a folder on a disk costs a look at all of its names.
        pieces = cores if format.root.startswith("file:") else None
        if pieces is None and not any(keys.after or keys.until for keys in ranges):
            # A task lists several folders at once, and so waits for none of them alone. Ranges of
            # one folder are put together, and there each task has one.
            tasks = min(tasks, max(cores, -(-len(ranges) // LISTED_BY_A_TASK)))
        return [listing.ranges_table(share) for share in shares(ranges, tasks, pieces=pieces)]

    def noncurrent(self, format: Format, folders: Sequence[str]) -> tuple[int, int]:
        if not folders:
            return 0, 0
        spread = self._frames.spread(pa.table({"folder": pa.array(folders, pa.string())}))
        lines = self._frames.run(spread, partial(listing.count_noncurrent, format))
        return lines.sum("objects"), lines.sum("size")

    def expand(self, request: ExpandRequest) -> ContainerFiles:
        return self._expander.expand(request)

    def find(self, request: FindRequest) -> Candidates:
        if request.search is not None:
            return self._uncommitted.search(request, request.search)
        if request.lifecycle is not None:
            return self._lifecycle.search(request, request.lifecycle)
        return self._finder.find(request)

    def index(self, request: IndexRequest) -> Indexed:
        return self._incremental.index(request)

    def dead_entries(self, request: DeadRequest) -> DeadEntries:
        return self._uncommitted.dead_entries(request)

    def carry(self, request: CarryRequest) -> Carried:
        return self._incremental.carry(request)

    def match(self, request: MatchRequest) -> Matches:
        return self._shielding.match(request)

    def shield(self, request: ShieldRequest) -> Sequence[Part]:
        return self._shielding.shield(request)

    def merge(self, request: MergeRequest) -> Sequence[Part]:
        return self._shielding.merge(request)

    def copy(self, request: CopyRequest) -> Copied:
        return self._incremental.copy(request)

    def lifecycle_ranges(self, request: RangesRequest) -> RangeFiles:
        return self._lifecycle.ranges(request)

    def rejudge(self, request: RejudgeRequest) -> Rejudged:
        return self._lifecycle.rejudge(request)

    def publish(self, request: PublishRequest) -> None:
        self._lifecycle.publish(request)

    def confirm(self, request: ConfirmRequest) -> Candidates:
        return self._finder.confirm(request)

    def verify(self, files: Sequence[Part], place: Place) -> Mapping[str, tuple[int, int]]:
        counts: dict[str, tuple[int, int]] = {}
        if files:
            lines = self._frames.run(self._frames.files(files), partial(parts.verify, place.url))
            for report in lines.reports():
                counts = add_kinds(counts, report["kinds"])
        return counts

    def intersect(
        self, planned: Sequence[Part], others: Sequence[Part], place: Place
    ) -> Sequence[Part]:
        if not planned or not others:
            return ()
        rows = self._frames.rows_of(place.url, planned, CANDIDATES)
        read = partial(parts.read_addresses, place.url)
        listed = self._frames.files(others).map(read, ADDRESSES)
        # By the whole address, never by a hash: this selects what is deleted.
        both = rows.join(listed, on="address", how="left_semi").select(*CANDIDATES.names)
        shuffled = sum(part.rows for part in (*planned, *others))
        write = partial(candidates.write_kinds, place)
        return self._frames.run(both, write, shuffled=shuffled).parts

    def exclude(self, request: ExcludeRequest) -> Excluded:
        if not request.candidates:
            return Excluded((), (), [0] * len(request.globs))
        if request.earlier:
            shuffled = sum(part.rows for part in (*request.candidates, *request.earlier))
            rows = self._with_paths(request)
            lines = self._frames.run(rows, partial(candidates.exclude, request), shuffled=shuffled)
        else:
            files = self._frames.files(request.candidates)
            lines = self._frames.run(files, partial(candidates.exclude_files, request))
        folder = request.excluded.prefix
        excluded = [part for part in lines.parts if part.address.startswith(folder)]
        included = [part for part in lines.parts if not part.address.startswith(folder)]
        matches = [report["matches"] for report in lines.reports()]
        return Excluded(included, excluded, [sum(counts) for counts in zip(*matches, strict=True)])

    def _with_paths(self, request: ExcludeRequest) -> DataFrame:
        """Candidates, each with a path that a glob matches where a list has one."""
        url = request.included.url
        rows = self._frames.rows_of(url, request.candidates, CANDIDATES)
        read = partial(candidates.find_paths, url, request.globs)
        known = (
            self._frames.files(request.earlier)
            .map(read, PATHS)
            .groupBy("address")
            .agg(F.min("path").alias(KNOWN_PATH))
        )
        return rows.join(known, on="address", how="left").select(*CANDIDATES.names, KNOWN_PATH)

    def sweep(self, request: SweepRequest) -> Swept:
        format, place = request.format, request.place
        files = [part for part in request.candidates if part.group == request.kind]
        if not files:
            return Swept()
        # From here on by the clocks of the machines, which are taken to agree by a minute.
        deadline = SystemClock().now() + request.time
        # A plan's files or a journal's: both have the columns that are needed.
        read = partial(taking.read_own, format, place.url)
        rows = sum(part.rows for part in files)
        tasks = max(1, min(self._frames.tasks, -(-rows // DELETED_BY_A_TASK)))
        if request.done:
            read_done = partial(taking.read_going, place.url)
            done = self._frames.files(request.done).map(read_done, GOING).select("address")
            going = self._frames.files(files).map(read, GOING)
            going = going.join(done, on="address", how="left_anti")
            if not format.sequential:
                going = going.repartition(tasks)
        elif format.sequential:
            going = self._frames.files(files).map(read, GOING)
        else:
            # As they were listed: neighbours are deleted faster together. And every file is read
            # and verified before the first object goes.
            before = taking.count_before(files)
            read = partial(taking.read_pieces, format, place.url, before, tasks)
            pieces = self._frames.files(files).map(read, taking.PIECES)
            going = pieces.repartitionById(tasks, "piece").drop("piece")
        take = partial(taking.delete_rows, format, request.deleter, deadline, place, request.kind)
        shuffled = rows + sum(part.rows for part in request.done)
        lines = self._frames.run(going, take, shuffled=shuffled)
        swept = Swept(parts=lines.parts)
        for report in lines.reports():
            swept.outcome.add(Outcome.decode(report["outcome"]))
            swept.finished = swept.finished and report["finished"]
        return swept

    def recall(self, request: RecallRequest) -> Sequence[Part]:
        if not request.intended and not request.journal:
            return ()
        sources = (
            (request.intended, taking.read_intended),
            (request.journal, taking.read_journaled),
            (request.notes, taking.read_noted),
        )
        read_rows = (
            self._frames.files(files).map(partial(read, request.source.url), RANKED)
            for files, read in sources
            if files
        )
        rows = reduce(lambda one, other: one.union(other), read_rows)
        best = F.min_by(F.struct("size", "kind", "reason", "identity"), "rank").alias("best")
        each = (
            rows.groupBy("address")
            .agg(best, F.max("listed").alias("listed"), F.max("path").alias("path"))
            .where("listed")
            .select("address", "best.size", "best.kind", "best.reason", "best.identity", "path")
        )
        write = partial(taking.write_recalled, request.aside, request.place)
        shuffled = sum(part.rows for files, _ in sources for part in files)
        return self._frames.run(each, write, shuffled=shuffled).parts

    def ended(self) -> bool:
        # An executor in the middle of a page goes on with it, cancelled or not, and nobody can
        # tell from here when it has stopped.
        return False

    def needed(self, request: NeededRequest) -> Needed:
        format, place = request.format, request.place
        if not request.containers.num_rows:
            return Needed()
        spread = self._frames.spread(request.containers)
        listed = spread.map(partial(containers.list_promised, format), LISTED_CONTAINERS)
        each = listed.groupBy("address").agg(
            F.min_by(F.struct("kind", "detail", "entries"), "detail").alias("best"),
            F.collect_set("aside").alias("asides"),
        )
        if request.known:
            each = each.join(
                live_addresses(self._frames, place.url, request.known),
                on="address",
                how="left_anti",
            )
        # Snapshots list hundreds of containers each, and most of them the same.
        count = 100 * request.containers.num_rows
        columns = ("address", "best.kind", "best.detail", "best.entries", "asides")
        rows = each.select(*columns).repartition(min(2 * self._frames.tasks, count))
        shuffled = count + sum(part.rows for part in request.known)
        write = partial(containers.write_needed, format, place)
        lines = self._frames.run(rows, write, shuffled=shuffled)
        return Needed(lines.parts, Unread.of(lines.reports()))

    def incomplete(self, request: IncompleteRequest) -> frozenset[str]:
        format, named, place = request.format, request.containers, request.place
        if not named.num_rows:
            return frozenset()
        listed = self._frames.spread(named).map(partial(containers.owned, format), OWNED)
        # Written down, for both of the joins below need them and reading takes long.
        written = self._frames.run(listed, partial(parts.write_rows, place.below("owned"))).parts
        owned = self._frames.rows_of(place.url, written, OWNED)
        count = sum(part.rows for part in written)
        each = owned.dropDuplicates(["address"]).select(*CONTAINERS.names)
        spread = each.repartition(max(1, min(2 * self._frames.tasks, count)))
        needs = map_rows(spread, partial(containers.needs, format), NEEDS)
        source = candidates.Source(format, request.objects)
        there = self._frames.files(request.objects.parts).map(source.folded, ADDRESSES)
        if request.not_back:
            read = partial(taking.read_not_back, place.url, request.aside)
            failed = self._frames.files(request.not_back).map(read, ADDRESSES)
            there = there.join(failed, on="address", how="left_anti")
        if request.expired:
            read_expired = partial(taking.read_expired, place.url)
            expired = self._frames.files(request.expired).map(read_expired, ADDRESSES)
            there = there.unionByName(expired)
        missing = needs.join(there, on="address", how="left_anti")
        broken = missing.select(F.col("owner").alias("address")).distinct()
        owners = owned.join(broken, on="address", how="left_semi").select("owner").distinct()
        shuffled = count + sum(
            part.rows for part in (*request.objects.parts, *request.not_back, *request.expired)
        )
        return frozenset(row["owner"] for row in self._frames.collect(owners, shuffled=shuffled))
