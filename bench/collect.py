"""The collector's figures: plan and apply, after the Spark session is up."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

from bench.figure import Figure, Timer
from bench.memory import Memory
from bench.objects import SIZE, Made, make
from reclaim.catalog import Catalog
from reclaim.engine.tasks.inventory import find_inventory
from reclaim.engine.tasks.parts import Place
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.plan.planning import PlanOptions, WrittenPlan, make_plan
from reclaim.storage import ObjectStorage
from reclaim.stores.catalog import CatalogStore
from reclaim.stores.observation import Margins

MILLION = 1_000_000
SOON = Margins(objects=timedelta(0))


def engine() -> Any:
    from reclaim.engine.spark.engine import SparkEngine
    from reclaim.engine.spark.session import build_session

    session = build_session()
    # Up means that its Python workers are, too.
    session.range(8).repartition(8).mapInArrow(_imported, "id bigint").count()
    return SparkEngine(session)


def _imported(batches: Any) -> Any:

    yield from batches


def _plan(made: Made, spark: Any, *, inventory: bool = False, out: str = "plan") -> WrittenPlan:
    place = made.folder / out
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    store = CatalogStore(made.catalog.workspace("bench"))
    objects = None
    if inventory:
        storage = ObjectStorage.open(made.folder.as_uri())
        objects = find_inventory(storage, made.inventory.name, store.format)
    options = PlanOptions(margins=SOON, place=Place(place.as_uri(), ""), inventory=objects)
    return make_plan(store, spark, options)


def plan_inventory(runs: int = 3, count: int = 10 * MILLION) -> Figure:
    """A plan from an inventory against DuckDB's anti-join on strings over the same files."""
    import duckdb

    spark = engine()
    ratios, notes = [], []
    with tempfile.TemporaryDirectory() as name:
        made = make(Path(name), count, garbage=0.1)
        for _ in range(runs):
            timer = Timer()
            with timer("duckdb"):
                database = duckdb.connect()
                database.execute(f"SET threads = {os.cpu_count()}")
                database.execute(
                    "COPY (SELECT key, size, last_modified FROM read_parquet($listing) o ANTI JOIN "
                    "(SELECT address FROM read_parquet($ranges)) l ON o.key = l.address) "
                    f"TO '{name}/duck.parquet' (FORMAT parquet, COMPRESSION zstd)",
                    {
                        "listing": str(made.inventory / "*.parquet"),
                        "ranges": [str(file) for file in made.ranges],
                    },
                )
                database.close()
            with Memory() as memory, timer("plan"):
                plan = _plan(made, spark, inventory=True)
            assert plan.document.candidates == count - made.live, plan.document.candidates
            ratios.append(timer.seconds["plan"] / timer.seconds["duckdb"])
            notes.append(
                f"plan {timer.seconds['plan']:.1f} s, DuckDB {timer.seconds['duckdb']:.1f} s; "
                f"peak of driver and workers {memory.gibibytes:.1f} GiB"
            )
            assert memory.gibibytes < 6, memory.gibibytes
        made.catalog.close()
    target = "at most 4 times DuckDB, below 6 GiB"
    return Figure("plan of 10 M objects", ratios, target, lambda ratio: ratio <= 4, notes)


def plan_files(runs: int = 3, count: int = MILLION) -> Figure:
    """A plan of real files against deltalake's dry vacuum of a table of the same shape."""
    return _files(runs, count)[0]


def apply_files(runs: int = 3, count: int = MILLION) -> Figure:
    """Plan and apply of real files against deltalake's vacuum."""
    return _files(runs, count)[1]


@cache
def _files(runs: int, count: int) -> tuple[Figure, Figure]:
    from deltalake import DeltaTable

    spark = engine()
    planned, applied, notes = [], [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as name:
            made = make(Path(name), count, garbage=0.3, files=True)
            table = _delta_table(made, Path(name) / "delta")
            timer = Timer()
            with timer("dry"):
                delta = DeltaTable(table)
                gone = delta.vacuum(0, dry_run=True, enforce_retention_duration=False, full=True)
            with timer("plan"):
                plan = _plan(made, spark)
            assert len(gone) == plan.document.candidates == count - made.live
            with timer("vacuum"):
                DeltaTable(table).vacuum(
                    0, dry_run=False, enforce_retention_duration=False, full=True
                )
            with timer("apply"):
                store = CatalogStore(made.catalog.workspace("bench"))
                done = apply_plan(store, spark, plan.place)
            assert done.summary()["objects"] == len(gone)
            made.catalog.close()
            took = timer.seconds
            planned.append(took["plan"] / took["dry"])
            applied.append((took["plan"] + took["apply"]) / took["vacuum"])
            notes.append(
                f"plan {took['plan']:.1f} s, dry vacuum {took['dry']:.1f} s, "
                f"apply {took['apply']:.1f} s, vacuum {took['vacuum']:.1f} s"
            )
    return (
        Figure("plan of 1 M files", planned, "at most 2 dry vacuums", lambda r: r <= 2, notes),
        Figure("plan and apply", applied, "at most 1.3 vacuums", lambda r: r <= 1.3, notes),
    )


def _delta_table(made: Made, folder: Path) -> str:
    """A Delta table with as many files in as many folders, of which the log names the live ones."""
    import pyarrow.parquet as pq

    live = set()
    for file in made.ranges:
        live.update(pq.read_table(file, columns=["address"]).column("address").to_pylist())
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    schema = json.dumps(
        {
            "type": "struct",
            "fields": [{"name": "a", "type": "long", "nullable": True, "metadata": {}}],
        }
    )
    head = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": "00000000-0000-0000-0000-000000000000",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": schema,
                "partitionColumns": [],
                "configuration": {},
                "createdTime": 1,
            }
        },
    ]
    root = made.storage / "repos" / made.catalog.repository("bench").uid / "branches" / "main"
    with (log / f"{0:020d}.json").open("w") as out:
        for action in head:
            out.write(json.dumps(action) + "\n")
        for partition in sorted(root.iterdir()):
            target = folder / partition.name
            target.mkdir()
            for found in os.scandir(partition):
                shutil.copy2(found.path, target / found.name)
                if str(Path(found.path).relative_to(made.storage)) in live:
                    add = {
                        "path": f"{partition.name}/{found.name}",
                        "partitionValues": {},
                        "size": SIZE,
                        "modificationTime": 1,
                        "dataChange": True,
                    }
                    out.write(json.dumps({"add": add}) + "\n")
    return str(folder)


def plan_shared(runs: int = 3, count: int = 1_000_000) -> Figure:
    """A plan over 10, 100 and 1,000 commits that share their ranges."""
    spark = engine()
    ratios, notes = [], []
    with tempfile.TemporaryDirectory() as name:
        made = make(Path(name), count, garbage=0.1)
        main = made.catalog.repository("bench").branch("main")
        times: dict[int, list[float]] = {}
        ranges = {}
        done = 0
        _plan(made, spark, inventory=True)
        for commits in (10, 100, 1_000):
            while done < commits:
                main.put(f"table/day={done % 900:05d}/extra-{done}", b"x")
                main.commit(f"change {done}")
                done += 1
            for _ in range(runs):
                start = time.perf_counter()
                plan = _plan(made, spark, inventory=True)
                times.setdefault(commits, []).append(time.perf_counter() - start)
            ranges[commits] = plan.document.expected.containers - commits
        for commits, seconds in times.items():
            notes.append(
                f"{commits} commits, {ranges[commits]} distinct ranges: "
                f"{statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})"
            )
        growth = ranges[1_000] / ranges[10]
        ratios = [many / few / growth for many, few in zip(times[1_000], times[10], strict=True)]
        made.catalog.close()
    target = "time grows no faster than the distinct ranges (1.2)"
    return Figure("plan of shared ranges", ratios, target, lambda ratio: ratio <= 1.2, notes)


def plan_small(runs: int = 3, count: int = 1_000) -> Figure:
    """``reclaim plan`` on 1,000 objects against starting an empty session; seconds more."""
    more, notes = [], []
    empty = (
        "from reclaim.engine.spark.session import build_session; build_session().range(1).count()"
    )
    with tempfile.TemporaryDirectory() as name:
        location = Path(name) / "catalog"
        with Catalog.init(location) as catalog:
            main = catalog.create_repository("small").branch("main")
            main.put_many((f"data/{number}", b"x") for number in range(count))
            main.commit("all of it")
        reclaim = str(Path(sys.executable).parent / "reclaim")
        for run in range(runs):
            timer = Timer()
            with timer("empty"):
                subprocess.run([sys.executable, "-c", empty], check=True, capture_output=True)
            with timer("plan"):
                place = ["--catalog", str(location), "--out", f"{name}/plan-{run}"]
                subprocess.run(
                    [reclaim, "plan", "small", "--json", *place], check=True, capture_output=True
                )
            more.append(timer.seconds["plan"] - timer.seconds["empty"])
            notes.append(
                f"plan {timer.seconds['plan']:.1f} s, empty session {timer.seconds['empty']:.1f} s"
            )
    target = "at most 8 s more than an empty session"
    return Figure("seconds more for a small plan", more, target, lambda more: more <= 8, notes)


FIGURES = {
    "plan-inventory": plan_inventory,
    "plan-files": plan_files,
    "apply-files": apply_files,
    "plan-shared": plan_shared,
    "plan-small": plan_small,
}
