"""Runs of lifecycle rules: a first one against DuckDB, and a second one, a day later, against the
first."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from sqlalchemy import insert, update

from bench.collect import MILLION, SOON, engine
from bench.figure import Figure, Timer
from bench.objects import _HEX, SIZE, _partition, _strings, _write_range
from reclaim.catalog import Catalog
from reclaim.catalog.content.ranges import ENTRIES, TARGET_ROWS, RangeInfo, encode_metarange
from reclaim.catalog.database.schema import PartitionState, commits, partitions
from reclaim.clock import to_micros
from reclaim.engine.tasks.parts import Place
from reclaim.policy.lifecycle import StoredLifecycle, date_rules, encode_lifecycle, read_lifecycle
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.lifecycle import planning
from reclaim.run.lifecycle.planning import LifecycleOptions, plan_lifecycle
from reclaim.run.plan.planning import PlanOptions, WrittenPlan
from reclaim.stores.catalog import CatalogStore

COMMITS = 500
FOLDERS = ("data", "logs", "tmp")
RULES = """
data: {prefix: data/, days: 450}
logs: {prefix: logs/, days: 100, branch_days: {main: 120}}
tmp: {prefix: tmp/, days: 30}
"""


@dataclass(frozen=True)
class History:
    """A repository with a commit for each day, each of which adds some files to three folders."""

    catalog: Catalog
    folder: Path
    days: list[tuple[date, str]]
    """Each day with the metarange of its commit."""

    @property
    def storage(self) -> Path:
        return self.folder / "catalog" / "objects"


def first_run(count: int = 5 * MILLION) -> Figure:
    """Seconds of a first run ÷ those of DuckDB for the same grouping and matching."""
    return _figures(count)[0]


def second_run(count: int = 5 * MILLION) -> Figure:
    """Bytes that a run reads, a day and 1 % of change later, ÷ those that the first one read."""
    return _figures(count)[1]


@cache
def _figures(count: int, runs: int = 3) -> tuple[Figure, Figure]:
    spark = engine()
    timer = Timer()
    ratios, notes = [], []
    with tempfile.TemporaryDirectory() as name:
        made = _make(Path(name), count)
        for run in range(runs):
            with timer("duckdb"):
                matched = _duckdb(made)
            # A plan that is not applied leaves nothing that the next one could use.
            with timer("first"):
                first = _plan(made, spark, made.days[-1][0], f"first-{run}")
            ratios.append(timer.seconds["first"] / timer.seconds["duckdb"])
            notes.append(
                f"first {timer.seconds['first']:.1f} s, DuckDB {timer.seconds['duckdb']:.1f} s"
            )
        with timer("apply"):
            apply_plan(_store(made), spark, first.place)
        _change(made, count)
        day = made.days[-1][0] + timedelta(days=1)
        with timer("second"):
            second = _plan(made, spark, day, "second")
        one, two = first.document.lifecycle, second.document.lifecycle
        assert one is not None
        assert two is not None
        assert two.mode == "incremental", two.why
        # The objects themselves are not there: all that goes counts as gone.
        assert one.gone == matched, (one.gone, matched)
        full = _plan(made, spark, day, "full", full=True).document.lifecycle
        assert full is not None
        assert full.gone - one.gone <= two.gone <= full.gone
        made.catalog.close()
    took = timer.seconds
    notes += [
        f"apply {took['apply']:.1f} s, second {took['second']:.1f} s",
        f"first read {one.bytes_read:,} bytes, second {two.bytes_read:,} "
        f"({two.metaranges_read} metaranges, {two.ranges_read} ranges); {matched:,} matched",
    ]
    return (
        Figure(
            "first lifecycle run",
            ratios,
            "at most 3 times DuckDB",
            lambda ratio: ratio <= 3,
            notes,
        ),
        Figure(
            "second lifecycle run, bytes",
            [two.bytes_read / one.bytes_read],
            "at most 0.1",
            lambda ratio: ratio <= 0.1,
            notes,
        ),
    )


def _store(made: History) -> CatalogStore:
    return CatalogStore(made.catalog.workspace("bench"))


def _plan(made: History, spark: Any, day: date, out: str, *, full: bool = False) -> WrittenPlan:
    place = made.folder / out
    place.mkdir()
    options = PlanOptions(margins=SOON, place=Place(place.as_uri(), ""), allowed_fraction=1.0)
    asked = LifecycleOptions(read_lifecycle(RULES), full=full)
    # As of the day of the last commit, whatever day it is.
    dated = date_rules(asked.policy, day)
    with patch.object(planning, "date_rules", lambda _policy, _today: dated):
        return plan_lifecycle(_store(made), spark, asked, options)


def _make(
    folder: Path,
    count: int,
    init: Callable[[Path], Catalog] = lambda folder: Catalog.init(folder / "catalog"),
) -> History:
    catalog = init(folder)
    catalog.create_repository("bench")
    made = History(catalog, folder, [])
    random = np.random.default_rng(11)
    start = date(2024, 1, 1)
    infos: dict[str, list[RangeInfo]] = {name: [] for name in FOLDERS}
    _open_partitions(made, range(COMMITS))
    for number in range(COMMITS):
        _add(made, infos, number, start + timedelta(days=number), count // COMMITS, random)
    text = RULES
    stored = StoredLifecycle(read_lifecycle(text), text, datetime.now(UTC), "bench")
    _store(made).store_lifecycle(encode_lifecycle(stored))
    return made


def _open_partitions(made: History, numbers: range) -> None:
    uid = made.catalog.repository("bench").uid
    with made.catalog._database.write() as connection:
        connection.execute(
            insert(partitions),
            [
                {
                    "repo_uid": uid,
                    "id": _partition(at),
                    "instance": "bench",
                    "state": PartitionState.CLOSED,
                    "opened_at": 0,
                    "renewed_at": 0,
                    "closed_at": 1,
                }
                for at in numbers
            ],
        )


def _add(
    made: History,
    infos: dict[str, list[RangeInfo]],
    number: int,
    day: date,
    count: int,
    random: np.random.Generator,
) -> None:
    """A commit with files of one day in each folder; it shares all ranges of the one before."""
    repo = made.catalog.repository("bench")
    meta = f"repos/{repo.uid}/_reclaim/meta/{_partition(number)}"
    (made.storage / meta).mkdir(parents=True, exist_ok=True)
    for name in FOLDERS:
        rows = _rows(repo.uid, name, number, day, count // len(FOLDERS), random)
        for at in range(0, len(rows), TARGET_ROWS):
            piece = rows.slice(at, TARGET_ROWS).combine_chunks()
            infos[name].append(_write_range(made.storage, meta, piece))
    _commit(made, meta, [one for name in FOLDERS for one in infos[name]], number, day)


def _rows(
    uid: str, name: str, number: int, day: date, count: int, random: np.random.Generator
) -> pa.Table:
    folder = f"repos/{uid}/branches/main/{_partition(number)}/".encode()
    names = _HEX[random.integers(0, 256, (count, 16), dtype=np.uint8)].reshape(count, -1)
    prefix = np.broadcast_to(np.frombuffer(folder, np.uint8), (count, len(folder)))
    addresses = _strings(np.hstack([prefix, names]))
    paths = pa.array([f"{name}/day={number:05d}/part-{n:08d}" for n in range(count)])
    created = to_micros(datetime(day.year, day.month, day.day, 12, tzinfo=UTC))
    times = pa.array(created + np.arange(count)).cast(pa.timestamp("us", "UTC"))
    blank = pa.array([""]).take(pa.array(np.zeros(count, np.int64)))
    sizes = pa.array(np.full(count, SIZE, np.int64))
    return pa.table([paths, addresses, sizes, times, blank, blank, blank], schema=ENTRIES)


def _commit(made: History, meta: str, infos: Sequence[RangeInfo], number: int, day: date) -> None:
    digest, data = encode_metarange(infos)
    top = f"{meta}/{digest}-{hashlib.md5(digest.encode()).hexdigest()}"
    (made.storage / top).write_bytes(data)
    made.days.append((day, top))
    repo = made.catalog.repository("bench")
    head = repo.branch("main").commit(f"day {number}", allow_empty=True)
    with made.catalog._database.write() as connection:
        connection.execute(update(commits).where(commits.c.id == head.id).values(metarange=top))


def _change(made: History, count: int) -> None:
    """A day later: half a percent is new, and half a percent of what there was is replaced."""
    repo = made.catalog.repository("bench")
    random = np.random.default_rng(12)
    some = count // 200
    _open_partitions(made, range(COMMITS, COMMITS + 2))
    tree = repo._workspace.containers.tree(made.days[-1][1])
    infos: dict[str, list[RangeInfo]] = {name: [] for name in FOLDERS}
    for info in tree.ranges:
        infos[info.min_path.split("/")[0]].append(info)
    meta = f"repos/{repo.uid}/_reclaim/meta/{_partition(COMMITS + 1)}"
    (made.storage / meta).mkdir(parents=True, exist_ok=True)
    replaced = 0
    day = made.days[-1][0] + timedelta(days=1)
    for at in range(10, len(infos["data"])):
        if replaced >= some:
            break
        rows = tree.rows(infos["data"][at])
        fresh = _rows(repo.uid, "data", COMMITS + 1, day, len(rows), random)
        rows = fresh.set_column(0, ENTRIES.field(0), rows.column("path")).combine_chunks()
        infos["data"][at] = _write_range(made.storage, meta, rows)
        replaced += len(rows)
    _add(made, infos, COMMITS, day, some, random)


def _duckdb(made: History) -> int:
    """The same grouping and matching: how many addresses go."""
    import duckdb

    database = duckdb.connect()
    database.execute(f"SET threads = {min(2, os.cpu_count() or 1)}")
    root = str(made.storage)
    metaranges = [f"{root}/{top}" for _, top in made.days]
    database.execute(
        "CREATE TABLE r AS SELECT address, bit_or(1::BIGINT) AS bits FROM read_parquet($m) "
        "GROUP BY address",
        {"m": metaranges},
    )
    listed = database.execute("SELECT $root || '/' || address FROM r", {"root": root}).fetchall()
    ranges = [name for (name,) in listed]
    last = made.days[-1][0]
    limits = {"data": 450, "logs": 120, "tmp": 30}
    matches = " OR ".join(
        f"(starts_with(path, '{name}/') AND day <= DATE '{last - timedelta(days=days)}')"
        for name, days in limits.items()
    )
    database.execute(
        "COPY (WITH pairs AS (SELECT e.path, e.address, bit_or(r.bits) AS bits, "
        "max(e.created_at)::DATE AS day FROM read_parquet($files, filename = true) e "
        "JOIN r ON e.filename = $root || '/' || r.address GROUP BY e.path, e.address), "
        f"judged AS (SELECT path, address, ({matches}) AS matched FROM pairs) "
        "SELECT address, list(path) AS paths FROM judged GROUP BY address "
        f"HAVING bool_and(matched)) TO '{made.folder}/duck.parquet' "
        "(FORMAT parquet, COMPRESSION zstd)",
        {"files": ranges, "root": root},
    )
    counted = database.execute(f"SELECT count(*) FROM '{made.folder}/duck.parquet'").fetchone()
    database.close()
    assert counted is not None
    found: int = counted[0]
    return found


FIGURES = {"lifecycle": first_run, "lifecycle-second": second_run}
