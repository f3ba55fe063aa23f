"""Runs on uncommitted data: an optimized one against a clean one of the same store; listing."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from sqlalchemy import insert, select

from bench.collect import MILLION, SOON, engine
from bench.delay import delayed
from bench.figure import Figure, Timer, processor_seconds, rate
from bench.objects import SIZE, Made, make
from reclaim.catalog.database.schema import branches as branch_rows
from reclaim.catalog.database.schema import staged_entries
from reclaim.engine.tasks.parts import Place
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.plan.planning import PlanOptions, WrittenPlan
from reclaim.run.record.checkpoints import Mode
from reclaim.run.uncommitted.planning import UncommittedOptions, plan_uncommitted
from reclaim.storage import KeyRange, ObjectStorage
from reclaim.stores.catalog import CatalogFormat, CatalogStore
from tests.support.servers import seaweedfs

PARTITIONS = 200
CHANGED = 0.01
FAR_AWAY = 0.02
"""Seconds to a server that is not on this machine."""
OBJECTS = "RECLAIM_BENCH_OBJECTS"
"""Another number of objects, to try a figure quickly."""


def optimized_run(count: int = MILLION, branches: int = 1, rounds: int = 3) -> Figure:
    """Seconds of an optimized plan ÷ those of a clean one, when 1 % has changed in between.

    Two thirds of the change are new objects in new partitions, half of them committed; one third
    was staged at the checkpoint, spread over all old partitions, and was reset since.
    """
    count = int(os.environ.get(OBJECTS, count))
    spark = engine()
    ratios: list[float] = []
    notes: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        first = Timer()
        with first("make"):
            made = make(
                Path(name),
                count,
                garbage=CHANGED / 3,
                files=True,
                partition=count // PARTITIONS,
                branches=branches,
            )
            _stage(made)
        with first("plan"):
            begun = _plan(made, spark, Mode.FULL)
        with first("apply"):
            apply_plan(_store(made), spark, begun.place)
        assert begun.document.candidates == 0
        main = made.catalog.repository("bench").branch("main")
        main.reset()
        new = round(count * CHANGED * 2 / 3)
        main.put_many((f"table/zz-new/{number}", b"x") for number in range(new // 2))
        main.commit("new")
        main.put_many((f"table/zz-garbage/{number}", b"x") for number in range(new // 2))
        main.reset()
        # What was written just now lies in closed partitions, as after a day.
        made.catalog._partitions.close()
        for _ in range(rounds):
            timer, work = Timer(), Timer(clock=processor_seconds)
            with work("clean"), timer("clean"):
                clean = _plan(made, spark, Mode.FULL)
            with work("optimized"), timer("optimized"):
                plan = _plan(made, spark, Mode.INCREMENTAL)
            looked, all_of_it = plan.document.uncommitted, clean.document.uncommitted
            assert looked is not None
            assert all_of_it is not None
            assert looked.mode == Mode.INCREMENTAL, looked.why
            assert plan.document.candidate_bytes == clean.document.candidate_bytes
            ratios.append(timer.seconds["optimized"] / timer.seconds["clean"])
            notes.append(
                f"optimized {timer.seconds['optimized']:.1f} s, clean "
                f"{timer.seconds['clean']:.1f} s; of processors {work.seconds['optimized']:.1f} s "
                f"and {work.seconds['clean']:.1f} s "
                f"({work.seconds['optimized'] / work.seconds['clean']:.3f}); "
                f"{looked.partitions_listed} of {all_of_it.partitions_listed} partitions listed "
                f"({looked.partitions_listed / all_of_it.partitions_listed:.1%}), "
                f"{looked.bytes_read} of {all_of_it.bytes_read} bytes read "
                f"({looked.bytes_read / all_of_it.bytes_read:.1%}), {looked.objects_listed} of "
                f"{all_of_it.objects_listed} objects listed, {looked.objects_looked_up} looked up"
            )
        notes.append(
            f"{count} objects on {branches} branches, made in {first.seconds['make']:.0f} s; the "
            f"first clean plan took {first.seconds['plan']:.1f} s, its apply, which writes "
            f"checkpoint and index, {first.seconds['apply']:.1f} s"
        )
        made.catalog.close()
    target = "at most 0.15 of the time, 5 % of the partitions and of the bytes"
    return Figure("optimized run", ratios, target, lambda ratio: ratio <= 0.15, notes)


def _store(made: Made) -> CatalogStore:
    return CatalogStore(made.catalog.workspace("bench"))


def _plan(made: Made, spark: Any, mode: Mode) -> WrittenPlan:
    place = made.folder / f"plan-{mode}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    options = PlanOptions(margins=SOON, place=Place(place.as_uri(), ""))
    return plan_uncommitted(_store(made), spark, options, UncommittedOptions(mode is Mode.FULL))


def _stage(made: Made) -> None:
    """Stage every object that no commit has."""
    with made.catalog._database.write() as connection:
        token = connection.execute(
            select(branch_rows.c.token).where(branch_rows.c.name == "main")
        ).scalar_one()
        rows = [
            {
                "token_id": token,
                "path": f"staged/{number}",
                "address": address,
                "owned": True,
                "size": SIZE,
                "created_at": 1,
                "checksum": "",
                "content_type": "",
                "metadata": "",
            }
            for number, address in enumerate(made.garbage)
        ]
        connection.execute(insert(staged_entries), rows)


def optimized_many_branches(count: int = MILLION) -> Figure:
    """The same with 100 branches."""
    return optimized_run(count, branches=100)


def list_partitions_far(runs: int = 7) -> Figure:
    """The same, 20 ms away: there one stream waits for each answer."""
    return list_partitions(runs, away=FAR_AWAY)


def list_partitions(
    runs: int = 7, partitions: int = 64, each: int = 1_000, away: float = 0.0
) -> Figure:
    """Seconds of one stream ÷ those of tasks that share partitions, on SeaweedFS."""
    ratios: list[float] = []
    notes: list[str] = []
    with (
        tempfile.TemporaryDirectory() as name,
        seaweedfs(Path(name) / "seaweedfs") as server,
        delayed(server.endpoint, away) if away else nullcontext() as proxy,
    ):
        url = server.new_bucket()
        format = CatalogFormat(url, "bench")
        folder = f"{format.prefix}branches/main"
        os.environ.update(server.environment)
        _fill(url, folder, partitions, each)
        endpoint = server.endpoint if proxy is None else proxy.endpoint
        os.environ["AWS_ENDPOINT_URL"] = endpoint
        spark = engine()
        # Workers of a session that another figure has started know of another server.
        spark._frames._spark.sparkContext.environment.update(
            server.environment | {"AWS_ENDPOINT_URL": endpoint}
        )
        ranges = list(format.key_ranges(ObjectStorage.open(url)))
        # The first job starts the workers of a session.
        spark.list(format, ranges, Place(Path(name).as_uri(), "first/"))
        for run in range(runs):
            timer = Timer()
            ours = Timer(clock=lambda: processor_seconds(without=server.pid))
            theirs = Timer(clock=lambda: processor_seconds(server.pid))
            out = [Place(Path(name).as_uri(), f"{run}-{at}/") for at in range(2)]
            with ours("one"), theirs("one"), timer("one"):
                whole = spark.list(format, [KeyRange(folder)], out[0])
            with ours("many"), theirs("many"), timer("many"):
                shared = spark.list(format, ranges, out[1])
            counts = [sum(part.rows for part in found.parts) for found in (whole, shared)]
            assert counts == [partitions * each] * 2, counts
            ratios.append(timer.seconds["one"] / timer.seconds["many"])
            notes.append(
                f"one stream {timer.seconds['one']:.2f} s "
                f"({rate(counts[0], timer.seconds['one'])}), {len(ranges)} key ranges "
                f"{timer.seconds['many']:.2f} s ({rate(counts[1], timer.seconds['many'])}); of "
                f"processors {ours.seconds['one']:.2f} s here and {theirs.seconds['one']:.2f} s of "
                f"the server for one, {ours.seconds['many']:.2f} s and "
                f"{theirs.seconds['many']:.2f} s for many"
            )
    target = "at least 2 times one stream"
    where = f", {away * 1000:.0f} ms away" if away else ""
    return Figure(f"listing by partition{where}", ratios, target, lambda ratio: ratio >= 2, notes)


def _fill(url: str, folder: str, partitions: int, each: int) -> None:
    storage = ObjectStorage.open(url)

    def names() -> Iterator[str]:
        for partition in range(partitions):
            for number in range(each):
                yield f"{folder}/{partition:014x}_bench/{number:032x}"

    with ThreadPoolExecutor(16) as pool:
        for _ in pool.map(lambda name: storage.put(name, b""), names()):
            pass


def optimized_large() -> Figure:
    """The figure of the seed: 10 million objects. Takes a quarter of an hour on a quiet machine."""
    return optimized_run(10 * MILLION, rounds=2)


def optimized_large_branches() -> Figure:
    """The same with 100 branches."""
    return optimized_run(10 * MILLION, branches=100, rounds=2)


LARGE: dict[str, Callable[[], Figure]] = {
    "uncommitted-10m": optimized_large,
    "uncommitted-branches-10m": optimized_large_branches,
}
"""Figures that are taken only when they are asked for by name."""

FIGURES: dict[str, Callable[[], Figure]] = {
    "uncommitted": optimized_run,
    "uncommitted-branches": optimized_many_branches,
    "list-partitions": list_partitions,
    "list-partitions-far": list_partitions_far,
}
