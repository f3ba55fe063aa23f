"""The engine on Spark: the tasks of a run on executors, and the joins between them.

Only the DataFrame API that Spark Connect has as well. Tasks reach the storage through obstore, in
``mapInArrow``; they write what they find as parts and give back a line for each, so that nothing
of the size of the data comes to the driver.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from reclaim.clock import SystemClock
from reclaim.spark import schemas, work
from reclaim.spark.failures import Work, task, translated
from reclaim.stores.base import CONTAINERS, Format
from reclaim.tasks import judging
from reclaim.tasks.deleting import FAILED, Deleter, Outcome
from reclaim.tasks.engine import Containers, Found, Objects, Swept
from reclaim.tasks.judging import CANDIDATES, Rules, Verdict
from reclaim.tasks.parts import Part, Place
from reclaim.tasks.reading import LIVE, TOP


class SparkEngine:
    """Runs the tasks of a run on a Spark session that someone else made and will stop."""

    def __init__(self, spark: SparkSession, *, tasks: int = 4) -> None:
        """``tasks`` is how many a job is cut into; more than there are cores evens them out."""
        self._spark = spark
        self._tasks = tasks

    def list(self, format: Format, units: Sequence[str], place: Place) -> Objects:
        if not units:
            return Objects(place.url, ())
        rows = self._frame(pa.table({"unit": pa.array(units, pa.string())}))
        spread = rows.repartition(min(self._tasks, len(units)))
        lines = self._collect(spread, partial(work.list_units, format, place))
        return Objects(place.url, _parts(lines))

    def expand(
        self, format: Format, tops: pa.Table, place: Place, *, known: Sequence[Part] = ()
    ) -> Containers:
        if not tops.num_rows:
            return Containers((), 0, 0, 0)
        spread = self._frame(tops).repartition(min(self._tasks, tops.num_rows))
        read = Observation()
        top = (F.col("detail") == TOP) & (F.col("cause") == LIVE)
        listed = _map(spread, partial(work.expand, format), schemas.CONTAINERS).observe(
            read, F.count(F.when(top, 1)).alias("tops")
        )
        best = F.min_by(F.struct("kind", "detail", "entries", "cause"), "cause").alias("best")
        once = (
            listed.groupBy("address")
            .agg(best)
            .select("address", "best.kind", "best.detail", "best.entries", "best.cause")
        )
        if known:
            there = self._rows(place.url, known, schemas.CONTAINERS).where(F.col("cause") == LIVE)
            # By the whole address: a container that is taken for another would not be read.
            once = once.join(there.select("address"), on="address", how="left_anti")
        lines = self._collect(once.select(*CONTAINERS.names), partial(work.write_containers, place))
        told = [json.loads(line["told"]) for line in lines if line["told"]]
        return Containers(
            _parts(lines),
            tops=read.get["tops"] or 0,
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
    ) -> Found:
        seen = Observation()
        there = self._objects(format, objects).observe(
            seen, F.count(F.lit(1)).alias("objects"), F.sum("size").alias("size")
        )
        live, note = self._live(format, containers, held, place)
        survivors = there.withColumn("key", key("address")).join(live, on="key", how="left_anti")
        if containers.dead:
            dead = self._dead(format, containers, place)
            survivors = survivors.join(dead, on="address", how="left")
        else:
            nothing = {"path": "string", "kind": "string", "cause": "int"}
            survivors = survivors.withColumns(
                {name: F.lit(None).cast(type) for name, type in nothing.items()}
            )
        lines = self._collect(
            survivors.select(*judging.SURVIVORS.names),
            partial(work.judge, format, rules, place),
        )
        found = Found(parts=_parts(lines))
        for line in lines:
            if line["told"]:
                found.verdict.add(Verdict.decode(line["told"]))
        found.objects, found.size = seen.get["objects"] or 0, seen.get["size"] or 0
        note(found)
        return found

    def confirm(
        self,
        format: Format,
        candidates: Sequence[Part],
        revived: Containers,
        held: Sequence[str],
        closed: frozenset[str],
        done: Sequence[Part],
        place: Place,
    ) -> Found:
        rows = self._rows(place.url, candidates, schemas.CANDIDATES)
        live, note = self._live(format, revived, held, place)
        left = rows.withColumn("key", key("address")).join(live, on="key", how="left_anti")
        if done:
            over = self._rows(place.url, done, schemas.JOURNAL).where(F.col("outcome") != FAILED)
            left = left.join(over.select("address"), on="address", how="left_anti")
        lines = self._collect(
            left.select(*CANDIDATES.names), partial(work.keep_closed, closed, place)
        )
        found = Found(parts=_parts(lines))
        note(found)
        return found

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
        rows = self._rows(place.url, mine, schemas.CANDIDATES)
        if done:
            over = self._rows(place.url, done, schemas.JOURNAL)
            rows = rows.join(over.select("address"), on="address", how="left_anti")
        spread = rows.select("address", "size", "kind", "reason").repartition(self._tasks)
        lines = self._collect(
            spread, partial(work.delete_rows, format, deleter, deadline, place, kind)
        )
        swept = Swept(parts=_parts(lines))
        for line in lines:
            if line["told"]:
                told = json.loads(line["told"])
                swept.outcome.add(Outcome.decode(told["outcome"]))
                swept.finished = swept.finished and told["finished"]
        return swept

    def _live(
        self, format: Format, containers: Containers, held: Sequence[str], place: Place
    ) -> tuple[DataFrame, Callable[[Found], None]]:
        """The keys of everything that is needed, and what notes how much of it was read."""
        read, kept = Observation(), Observation()
        parts = containers.parts if containers.containers else ()
        rows = self._rows(place.url, parts, schemas.CONTAINERS).where(F.col("cause") == LIVE)
        spread = rows.repartition(self._tasks * 2) if parts else rows
        needed = _map(spread, partial(work.read_live, format), schemas.NEEDED).observe(
            read, F.count("entries").alias("containers"), F.sum("entries").alias("entries")
        )
        files = self._frame(pa.table({"file": pa.array(held, pa.string())}))
        others = _map(files, partial(work.read_held, place), schemas.ADDRESSES).observe(
            kept, F.count(F.lit(1)).alias("held")
        )
        keys = needed.select(key("address").alias("key")).union(
            others.select(key("address").alias("key"))
        )

        def note(found: Found) -> None:
            found.read.containers = read.get["containers"] or 0
            found.read.entries = read.get["entries"] or 0
            found.read.held = kept.get["held"] or 0

        return keys, note

    def _dead(self, format: Format, containers: Containers, place: Place) -> DataFrame:
        """What dead containers listed, each address once, with the least cause."""
        rows = self._rows(place.url, containers.parts, schemas.CONTAINERS)
        spread = rows.where(F.col("cause") != LIVE).repartition(self._tasks)
        listed = _map(spread, partial(work.read_dead, format), schemas.READ)
        best = F.min_by(F.struct("path", "kind", "cause"), "cause").alias("best")
        each = listed.groupBy("address").agg(best)
        return each.select("address", "best.path", "best.kind", "best.cause")

    def _objects(self, format: Format, objects: Objects) -> DataFrame:
        if objects.verified:
            return self._rows(objects.url, objects.parts, schemas.LISTED)
        files = self._files(objects.parts)
        return _map(files, partial(work.read_inventory, format, objects), schemas.LISTED)

    def _rows(self, url: str, parts: Sequence[Part], schema: str) -> DataFrame:
        """The rows of parts, each verified by its hash before any of it is used."""
        return _map(self._files(parts), partial(work.read_parts, url), schema)

    def _files(self, parts: Sequence[Part]) -> DataFrame:
        columns = {
            "address": pa.array([part.address for part in parts], pa.string()),
            "rows": pa.array([part.rows for part in parts], pa.int64()),
            "sha256": pa.array([part.sha256 for part in parts], pa.string()),
        }
        frame = self._frame(pa.table(columns))
        return frame.repartition(min(self._tasks * 2, len(parts))) if parts else frame

    def _frame(self, table: pa.Table) -> DataFrame:
        with translated():
            return self._spark.createDataFrame(table)

    def _collect(self, rows: DataFrame, run: Work) -> Sequence[Any]:
        """Run a job; what comes back is a few lines for each task."""
        with translated():
            return _map(rows, run, schemas.LINES).collect()


def key(column: str) -> Column:
    """What addresses are joined by. Two with one key can only keep each other."""
    return F.xxhash64(column)


def _map(rows: DataFrame, run: Work, schema: str) -> DataFrame:
    return rows.mapInArrow(task(run), schema)


def _parts(lines: Sequence[Any]) -> Sequence[Part]:
    return [
        Part(line["address"], line["rows"], line["sha256"], line["group"])
        for line in lines
        if line["address"]
    ]
