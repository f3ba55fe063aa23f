"""The engine on Spark: the tasks of a run on executors, and the joins between them.

Only the DataFrame API that Spark Connect has as well. Tasks reach the storage through obstore, in
``mapInArrow``; they write what they find as parts and give back a line for each, so that nothing
of the size of the data comes to the driver.

What is live is written down as keys, eight bytes for each address. Up to ``lookup`` of them are
loaded by every process that judges objects, so that the objects stay where they are; beyond that
Spark joins the two by key.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from reclaim.clock import SystemClock
from reclaim.engine.base import Containers, Found, Objects, Read, Swept, named_containers
from reclaim.engine.spark import schemas
from reclaim.engine.spark import work as tasks
from reclaim.engine.spark.failures import Work, task, translated
from reclaim.engine.spark.jobs import Jobs
from reclaim.engine.spark.keys import KeysOf, keys_of
from reclaim.engine.spark.session import PARTITIONS
from reclaim.engine.spark.work import Source
from reclaim.engine.tasks.deleting import Deleter, Outcome
from reclaim.engine.tasks.judging import CANDIDATES, SURVIVORS, Rules, Verdict, add_kinds
from reclaim.engine.tasks.parts import Part, Place, open_storage, read_part
from reclaim.engine.tasks.quarantine import Aside
from reclaim.engine.tasks.reading import LIVE
from reclaim.storage import KeyRange
from reclaim.storage.key_range import shares
from reclaim.stores.base import CONTAINERS, SNAPSHOTS, DecodesSnapshots, Format

LOOKUP = 32_000_000
"""A quarter of a gigabyte of keys in each process."""
HERE = 1_000_000
"""So many rows are compared where they are: some hundred megabytes, and about a second."""


class SparkEngine:
    """Runs the tasks of a run on a Spark session that someone else made and will stop."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        tasks: int | None = None,
        lookup: int = LOOKUP,
        here: int = HERE,
        keys_of: KeysOf = keys_of,
    ) -> None:
        """``tasks`` is how many a job is cut into; by default what the session was made for.

        More than there are cores evens them out.
        """
        self._spark = spark
        self._jobs = Jobs(spark)
        self._tasks = tasks or max(1, int(spark.conf.get(PARTITIONS, "8") or 8) // 2)
        self._lookup = lookup
        self._here = here
        self._keys_of = keys_of

    def list(self, format: Format, ranges: Sequence[KeyRange], place: Place) -> Objects:
        if not ranges:
            return Objects(place.url, ())
        frame, work = self._shared(ranges, partial(tasks.list_keys, format, place))
        return Objects(place.url, _parts(self._run(frame, work)))

    def survey(self, format: DecodesSnapshots, ranges: Sequence[KeyRange]) -> pa.Table:
        if not ranges:
            return SNAPSHOTS.empty_table()
        return self._snapshots(*self._shared(ranges, partial(tasks.survey, format)))

    def snapshots(self, format: DecodesSnapshots, addresses: Sequence[str]) -> pa.Table:
        if not addresses:
            return SNAPSHOTS.empty_table()
        rows = pa.table({"address": pa.array(addresses, pa.string())})
        spread = self._frame(rows, min(rows.num_rows, self._tasks))
        return self._snapshots(spread, partial(tasks.read_snapshots, format))

    def _snapshots(self, rows: DataFrame, read: Work) -> pa.Table:
        with self._jobs.run():
            found = _map(rows, partial(tasks.packed, read), schemas.PACKED)
            return tasks.unpacked(found.toArrow(), SNAPSHOTS)

    def _shared(self, ranges: Sequence[KeyRange], work: Work) -> tuple[DataFrame, Work]:
        """Key ranges dealt out evenly: a frame with the number of each share, and the work on it.

        Spark would deal out rows by chance, so that one task may get several large ones.
        """
        dealt = [tasks.ranges_table(share) for share in shares(ranges, self._tasks)]
        with translated():
            numbers = self._spark.range(0, len(dealt), 1, len(dealt))
        return numbers, partial(tasks.in_shares, dealt, work)

    def noncurrent(self, format: Format, folders: Sequence[str]) -> tuple[int, int]:
        if not folders:
            return 0, 0
        rows = self._frame(pa.table({"folder": pa.array(folders, pa.string())}), len(folders))
        told = _told(self._run(rows, partial(tasks.count_noncurrent, format)))
        return sum(one["objects"] for one in told), sum(one["size"] for one in told)

    def expand(
        self, format: Format, containers: pa.Table, place: Place, *, known: Sequence[Part] = ()
    ) -> Containers:
        if not containers.num_rows:
            return Containers((), 0, 0, 0)
        if named := named_containers(format, containers, place, open_storage(place.url)):
            return named
        spread = self._frame(containers, containers.num_rows)
        listed = _map(spread, partial(tasks.expand, format), schemas.CONTAINERS)
        best = F.min_by(F.struct("kind", "detail", "entries", "cause"), "cause").alias("best")
        once = (
            listed.groupBy("address")
            .agg(best)
            .select("address", "best.kind", "best.detail", "best.entries", "best.cause")
        )
        if known:
            there = self._rows(place.url, known, schemas.CONTAINERS).where(F.col("cause") == LIVE)
            # By the whole address: a container that is taken for another would not be read.
            each = there.select("address", F.lit(True).alias("known")).distinct()
            once = once.join(each, on="address", how="left")
        else:
            once = once.withColumn("known", F.lit(None).cast("boolean"))
        lines = self._run(
            once.select(*CONTAINERS.names, "known"), partial(tasks.write_containers, place)
        )
        told = _told(lines)
        return Containers(
            _parts(lines),
            of_snapshots=sum(one["of_snapshots"] for one in told),
            containers=sum(one["containers"] for one in told),
            entries=sum(one["entries"] for one in told),
            dead=sum(one["dead"] for one in told),
        )

    def find(
        self,
        format: Format,
        objects: Objects,
        containers: Containers,
        held: Sequence[str],
        rules: Rules,
        place: Place,
        work: Place,
    ) -> Found:
        source = Source(format, objects)
        judge = partial(tasks.judge, format, rules, place)
        if self._is_little(format, objects, containers):
            return self._find_here(source, containers, held, judge, work)
        live, read = self._keys(format, containers, held, (), work)
        found = Found(read=read)
        if containers.dead or self._many(live):
            lines = self._survivors(source, live, work)
            survivors = self._rows(place.url, _parts(lines), schemas.SURVIVORS)
            if containers.dead:
                dead = self._dead(format, containers, place)
                survivors = survivors.drop("path", "kind", "cause").join(
                    dead, on="address", how="left"
                )
            _count(found, lines)
            lines = self._run(survivors.select(*SURVIVORS.names), judge)
        else:
            look = partial(tasks.survivors, source, place.url, live, self._keys_of)
            lines = self._run(self._files(objects.parts), partial(tasks.tell_after, look, judge))
            _count(found, lines)
        found.parts = _parts(lines)
        for told in _told(lines):
            found.verdict.add(Verdict.decode(told["verdict"]))
        return found

    def _is_little(self, format: Format, objects: Objects, containers: Containers) -> bool:
        """Whether less time goes into the work than into the jobs that would spread it.

        Only where containers are taken by name: reading is for executors.
        """
        if format.reads:
            return False
        rows = sum(part.rows for part in (*objects.parts, *containers.parts))
        return rows <= self._here

    def _find_here(
        self,
        source: Source,
        containers: Containers,
        held: Sequence[str],
        judge: Work,
        work: Place,
    ) -> Found:
        """What ``find`` does, by the same tasks, in this process."""
        storage = open_storage(work.url)
        rows = [read_part(storage, part) for part in containers.parts]
        listed = pa.concat_tables([CONTAINERS.empty_table(), *rows])
        is_live = pc.equal(listed.column("cause"), LIVE)
        needed = pa.concat_tables([listed.filter(is_live), tasks.more_to_read(held, ())])
        write = partial(tasks.write_keys, source.format, work, self._keys_of)
        lines = _lines_here(write, needed)
        found = Found(read=_read(lines))
        look = partial(tasks.survivors, source, work.url, tuple(_parts(lines)), self._keys_of)
        dead = listed.filter(pc.invert(is_live)).select(["address", "kind", "cause"])
        explain = partial(tasks.explain, dead, judge)
        lines = _lines_here(
            partial(tasks.tell_after, look, explain), tasks.listed(source.objects.parts)
        )
        _count(found, lines)
        found.parts = _parts(lines)
        for told in _told(lines):
            found.verdict.add(Verdict.decode(told["verdict"]))
        return found

    def verify(self, parts: Sequence[Part], place: Place) -> Mapping[str, tuple[int, int]]:
        counts: dict[str, tuple[int, int]] = {}
        if parts:
            for told in _told(self._run(self._files(parts), partial(tasks.verify, place.url))):
                counts = add_kinds(counts, told["kinds"])
        return counts

    def intersect(
        self, candidates: Sequence[Part], others: Sequence[Part], place: Place
    ) -> Sequence[Part]:
        if not candidates or not others:
            return ()
        rows = self._rows(place.url, candidates, schemas.CANDIDATES)
        listed = _map(
            self._files(others), partial(tasks.read_addresses, place.url), "address string"
        )
        # By the whole address, never by a hash: this selects what is deleted.
        both = rows.join(listed, on="address", how="left_semi").select(*CANDIDATES.names)
        return _parts(self._run(both, partial(tasks.write_kinds, place)))

    def confirm(
        self,
        format: Format,
        candidates: Sequence[Part],
        revived: Containers,
        held: Sequence[str],
        closed: frozenset[str],
        done: Sequence[Part],
        place: Place,
        work: Place,
    ) -> Found:
        live, read = self._keys(format, revived, held, done, work)
        keep = partial(tasks.keep_closed, closed, place)
        if self._many(live):
            rows = _map(
                self._files(candidates),
                partial(tasks.with_keys, partial(tasks.read_parts, place.url), self._keys_of),
                f"{schemas.CANDIDATES}, key bigint",
            )
            left = rows.join(self._key_rows(live, place), on="key", how="left_anti")
            lines = self._run(left.select(*CANDIDATES.names), keep)
        else:
            drop = partial(tasks.unlisted, place.url, live, self._keys_of)
            lines = self._run(self._files(candidates), partial(tasks.after, drop, keep))
        return Found(parts=_parts(lines), read=read)

    def sweep(
        self,
        format: Format,
        candidates: Sequence[Part],
        kind: str,
        done: Sequence[Part],
        deleter: Deleter,
        time: timedelta,
        place: Place,
    ) -> Swept:
        mine = [part for part in candidates if part.group == kind]
        if not mine:
            return Swept()
        # From here on by the clocks of the machines, which are taken to agree by a minute.
        deadline = SystemClock().now() + time
        # A plan's files or a journal's: both have the columns that are needed.
        spread = _map(self._files(mine), partial(tasks.read_going, place.url), schemas.GOING)
        if done:
            over = _map(self._files(done), partial(tasks.read_going, place.url), schemas.GOING)
            spread = spread.join(over.select("address"), on="address", how="left_anti")
        if len(mine) < self._tasks and not format.sequential:
            # Otherwise as they were listed: neighbours are deleted faster together.
            spread = spread.repartition(self._tasks)
        lines = self._run(
            spread, partial(tasks.delete_rows, format, deleter, deadline, place, kind)
        )
        swept = Swept(parts=_parts(lines))
        for told in _told(lines):
            swept.outcome.add(Outcome.decode(told["outcome"]))
            swept.finished = swept.finished and told["finished"]
        return swept

    def recall(
        self,
        intended: Sequence[Part],
        journal: Sequence[Part],
        source: Place,
        aside: Aside | None,
        place: Place,
    ) -> Sequence[Part]:
        if not intended:
            return ()
        rows = _map(self._files(intended), partial(tasks.read_intended, source.url), schemas.RANKED)
        if journal:
            noted = partial(tasks.read_journaled, source.url)
            rows = rows.union(_map(self._files(journal), noted, schemas.RANKED))
        best = F.min_by(F.struct("size", "kind", "reason", "identity"), "rank").alias("best")
        each = (
            rows.groupBy("address")
            .agg(best)
            .select("address", "best.size", "best.kind", "best.reason", "best.identity")
        )
        return _parts(self._run(each, partial(tasks.write_recalled, aside, place)))

    def ended(self) -> bool:
        # An executor in the middle of a page goes on with it, cancelled or not, and nobody can
        # tell from here when it has stopped.
        return False

    def needed(self, format: Format, containers: pa.Table, place: Place) -> Sequence[Part]:
        if not containers.num_rows:
            return ()
        spread = self._frame(containers, containers.num_rows)
        return _parts(self._run(spread, partial(tasks.write_needed, format, place)))

    def incomplete(
        self,
        format: Format,
        containers: pa.Table,
        objects: Objects,
        place: Place,
        *,
        without: Collection[str] = (),
    ) -> frozenset[str]:
        if not containers.num_rows:
            return frozenset()
        spread = self._frame(containers, containers.num_rows)
        lines = _map(spread, partial(tasks.owned, format), schemas.OWNED)
        # Written down, for both of the joins below need them and reading takes long.
        parts = _parts(self._run(lines, partial(tasks.write_rows, place.below("owned"))))
        owned = self._rows(place.url, parts, schemas.OWNED)
        each = owned.dropDuplicates(["address"]).select(*CONTAINERS.names)
        needs = _map(each, partial(tasks.needs, format), schemas.NEEDS)
        read = partial(tasks.all_but, frozenset(without), Source(format, objects).folded)
        there = _map(self._files(objects.parts), read, "address string")
        missing = needs.join(there, on="address", how="left_anti")
        broken = missing.select(F.col("owner").alias("address")).distinct()
        with self._jobs.run():
            found = owned.join(broken, on="address", how="left_semi").select("owner").distinct()
            return frozenset(row["owner"] for row in found.collect())

    def _keys(
        self,
        format: Format,
        containers: Containers,
        held: Sequence[str],
        done: Sequence[Part],
        place: Place,
    ) -> tuple[tuple[Part, ...], Read]:
        """Write down the keys of all that is needed, or was done, and say how much was read."""
        rows = self._frame(tasks.more_to_read(held, done), len(held) + len(done))
        if containers.containers:
            needed = self._rows(place.url, containers.parts, schemas.CONTAINERS)
            live = needed.where(F.col("cause") == LIVE).repartition(self._tasks * 2)
            rows = live.select(*CONTAINERS.names).union(rows)
        lines = self._run(rows, partial(tasks.write_keys, format, place, self._keys_of))
        return tuple(_parts(lines)), _read(lines)

    def _survivors(self, source: Source, live: tuple[Part, ...], place: Place) -> Sequence[Any]:
        """Write down the objects whose keys are not live; what is told counts all of them."""
        files = self._files(source.objects.parts)
        write = partial(tasks.write_survivors, place)
        if not self._many(live):
            look = partial(tasks.survivors, source, place.url, live, self._keys_of)
            return self._run(files, partial(tasks.tell_after, look, write))
        read = partial(tasks.with_keys, source.read, self._keys_of)
        rows = _map(files, read, f"{schemas.LISTED}, key bigint")
        left = rows.join(self._key_rows(live, place), on="key", how="left_anti")
        lines = self._run(left.select("address", "size", "last_modified"), write)
        landmark = F.col("address").isin(list(source.objects.landmarks)).cast("long")
        totals = rows.agg(
            F.count("size").alias("objects"),
            F.sum("size").alias("size"),
            F.sum(landmark).alias("landmarks"),
        )
        with self._jobs.run():
            whole = totals.collect()[0]
        told = {name: whole[name] or 0 for name in ("objects", "size", "landmarks")}
        return [*lines, {"address": "", "told": json.dumps(told)}]

    def _key_rows(self, live: tuple[Part, ...], place: Place) -> DataFrame:
        return _map(self._files(live), partial(tasks.read_keys, place.url), "key bigint")

    def _many(self, live: tuple[Part, ...]) -> bool:
        return sum(part.rows for part in live) > self._lookup

    def _dead(self, format: Format, containers: Containers, place: Place) -> DataFrame:
        """What dead containers listed, each address once, with the least cause."""
        rows = self._rows(place.url, containers.parts, schemas.CONTAINERS)
        spread = rows.where(F.col("cause") != LIVE).repartition(self._tasks)
        listed = _map(spread, partial(tasks.read_dead, format), schemas.READ)
        # Of equal causes the first path: what a plan says must not depend on who was read first.
        best = F.min(F.struct("cause", "path", "kind")).alias("best")
        each = listed.groupBy("address").agg(best)
        return each.select("address", "best.path", "best.kind", "best.cause")

    def _rows(self, url: str, parts: Sequence[Part], schema: str) -> DataFrame:
        """The rows of parts, each verified by its hash before any of it is used."""
        return _map(self._files(parts), partial(tasks.read_parts, url), schema)

    def _files(self, parts: Sequence[Part]) -> DataFrame:
        return self._frame(tasks.listed(parts), len(parts))

    def _frame(self, table: pa.Table, rows: int) -> DataFrame:
        """Rows that stand for work, spread over tasks."""
        with translated():
            # A table without rows does not tell its types by itself under Connect.
            frame = self._spark.createDataFrame(table, schema=schemas.of(table.schema))
            return frame.repartition(min(self._tasks * 2, rows)) if rows > 1 else frame

    def _run(self, rows: DataFrame, run: Work) -> Sequence[Any]:
        """Run a job; what comes back is a few lines for each task."""
        with self._jobs.run():
            return _map(rows, run, schemas.LINES).collect()


def _map(rows: DataFrame, run: Work, schema: str) -> DataFrame:
    return rows.mapInArrow(task(run), schema)


def _parts(lines: Sequence[Any]) -> Sequence[Part]:
    return [
        Part(line["address"], line["rows"], line["sha256"], line["group"])
        for line in lines
        if line["address"]
    ]


def _told(lines: Sequence[Any]) -> Sequence[Any]:
    return [json.loads(line["told"]) for line in lines if line["told"]]


def _read(lines: Sequence[Any]) -> Read:
    read = Read()
    for told in _told(lines):
        read.containers += told["containers"]
        read.entries += told["entries"]
        read.held += told["held"]
    return read


def _lines_here(work: Work, rows: pa.Table) -> Sequence[Any]:
    """What a task gives back, without Spark."""
    return [line for table in work(iter([rows])) for line in table.to_pylist()]


def _count(found: Found, lines: Sequence[Any]) -> None:
    for told in _told(lines):
        found.objects += told.get("objects", 0)
        found.size += told.get("size", 0)
        found.landmarks += told.get("landmarks", 0)
