"""The catalog's figures: staging, committing, resetting, listing, the export of roots."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import obstore
from obstore.store import S3Store
from sqlalchemy import update

from bench.figure import Figure, Timer, rate
from reclaim.catalog import Branch, Catalog, Import
from reclaim.catalog.content.entries import Entry
from reclaim.catalog.database.schema import staged_entries
from reclaim.catalog.staging import cleaner, ledger, uploads
from tests.support.servers import postgresql, seaweedfs

MILLION = 1_000_000


def imports(count: int, *, start: int = 0, version: int = 0) -> Iterator[Import]:
    """Objects in folders of a thousand, as a table with many files has them."""
    for number in range(start, start + count):
        path = f"table/day={number // 1000:05d}/part-{number:08d}.parquet"
        yield Import(path, f"s3://lake/v{version}/{path}", 1_000 + number % 777)


def fresh(folder: Path) -> Branch:
    catalog = Catalog.init(folder / f"catalog-{time.monotonic_ns()}")
    return catalog.create_repository("bench").branch("main")


def stage(runs: int = 5, count: int = 200_000) -> Figure:
    """Bulk staging against plain ``executemany`` of the same rows into a bare table."""
    ratios, notes = [], []
    with tempfile.TemporaryDirectory() as name:
        for run in range(runs):
            items = list(imports(count))
            rows = [
                (1, item.path, item.address, False, item.size, 1_767_225_600_000_000, "", "", "")
                for item in items
            ]
            timer = Timer()
            bare = sqlite3.connect(Path(name) / f"bare-{run}.db")
            bare.execute("PRAGMA journal_mode = WAL")
            bare.execute("CREATE TABLE rows (a, b, c, d, e, f, g, h, i)")
            with timer("bare"):
                bare.executemany("INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
                bare.commit()
            bare.close()
            main = fresh(Path(name))
            with timer("staged"):
                main.stage_many(items)
            ratios.append(timer.seconds["bare"] / timer.seconds["staged"])
            notes.append(
                f"staged {rate(count, timer.seconds['staged'])}, "
                f"bare table {rate(count, timer.seconds['bare'])}"
            )
    target = "at least 1/3 of the rate of a bare table"
    return Figure("bulk stage", ratios, target, lambda ratio: ratio >= 1 / 3, notes)


def commit(runs: int = 3, count: int = MILLION) -> Figure:
    """A commit of 1,000 changes in 10 prefixes against the first commit of a million entries."""
    ratios, notes = [], []
    with tempfile.TemporaryDirectory() as name:
        for _ in range(runs):
            main = fresh(Path(name))
            containers = main._workspace.containers
            main.stage_many(imports(count))
            timer = Timer()
            with timer("first"):
                first = main.commit("a million")
            _clean(main)
            for folder in range(10):
                start = folder * (count // 10)
                main.stage_many(imports(100, start=start, version=1))
            read = containers.ranges_read
            with timer("second"):
                second = main.commit("a thousand changes")
            before = {info.address for info in containers.tree(first.metarange).ranges}
            after = {info.address for info in containers.tree(second.metarange).ranges}
            ratios.append(timer.seconds["second"] / timer.seconds["first"])
            notes.append(
                f"first {timer.seconds['first']:.2f} s, second {timer.seconds['second']:.3f} s; "
                f"{len(after - before)} of {len(after)} ranges rewritten, "
                f"{containers.ranges_read - read} read"
            )
    target = "the second takes at most 1/20 of the first"
    return Figure("commit of a change", ratios, target, lambda ratio: ratio <= 1 / 20, notes)


def _clean(main: Branch) -> None:
    workspace = main._workspace
    cleaner.clean(workspace.database, workspace.clock, workspace.repo_uid)


def waiting(runs: int = 3, count: int = MILLION) -> Figure:
    """How long another writer's put is held up while a million entries are committed or reset."""
    longest, notes = [], []
    with tempfile.TemporaryDirectory() as name:
        for _ in range(runs):
            main = fresh(Path(name))
            waits: dict[str, float] = {}
            for what in ("commit", "reset"):
                main.stage_many(imports(count, version=len(waits)))
                waits[what] = _longest_put(main, what)
            longest.append(max(waits.values()))
            notes.append(", ".join(f"{what}: {wait:.3f} s" for what, wait in waits.items()))
    target = "at most 1 s"
    name = "longest put during commit and reset of a million, in seconds"
    return Figure(name, longest, target, lambda wait: wait <= 1, notes)


def _longest_put(main: Branch, what: str) -> float:
    """Put once more and again until the work is done; the longest of these."""
    location = Path(main._workspace.database.name).parent
    done = threading.Event()

    def work() -> None:
        if what == "commit":
            main.commit("a million")
        else:
            main.reset()
        done.set()

    with Catalog.open(location) as catalog:
        repo = catalog.repository("bench")
        side = repo.create_branch(f"side-{what}").put
        side("warm", b"")
        thread = threading.Thread(target=work)
        thread.start()
        longest = 0.0
        while not done.is_set():
            start = time.perf_counter()
            side("object", b"x")
            longest = max(longest, time.perf_counter() - start)
        thread.join()
        repo.clean()
    return longest


def listing(runs: int = 3, count: int = 240_000) -> Figure:
    """Listing staged entries against listing as many keys on a real S3 server."""
    ratios, notes = [], []
    with tempfile.TemporaryDirectory() as name, seaweedfs(Path(name) / "s3") as server:
        store = server.store(server.new_bucket().removeprefix("s3://"))
        _fill(store, count)
        main = fresh(Path(name))
        main.stage_many(imports(count))
        for _ in range(runs):
            timer = Timer()
            with timer("s3"):
                found = sum(len(page) for page in obstore.list(store, "table"))
            with timer("staged"):
                listed = sum(1 for _ in main.entries("table/"))
            if not found == listed == count:
                raise AssertionError(f"{found} keys and {listed} entries, not {count}")
            ratios.append(timer.seconds["s3"] / timer.seconds["staged"])
            notes.append(
                f"staged {rate(count, timer.seconds['staged'])}, "
                f"S3 {rate(count, timer.seconds['s3'])}"
            )
    target = "at least 3 times as fast as S3"
    return Figure("listing of staged entries", ratios, target, lambda ratio: ratio >= 3, notes)


def _fill(store: S3Store, count: int) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda item: obstore.put(store, item.path, b""), imports(count)))


def cold(count: int = MILLION) -> Figure:
    """Ranges read to list a prefix of 1,000 out of a million committed entries."""
    with tempfile.TemporaryDirectory() as name:
        main = fresh(Path(name))
        main.stage_many(imports(count))
        commit = main.commit("a million")
        total = len(main._workspace.containers.tree(commit.metarange).ranges)
        reads = []
        for folder in (0, 123, 500, 999):
            with Catalog.open(Path(main._workspace.database.name).parent) as catalog:
                repo = catalog.repository("bench")
                listed = len(repo.at("main").list(f"table/day={folder:05d}/").entries)
                if listed != 1_000:
                    raise AssertionError(f"{listed} entries, not 1,000")
                reads.append(float(repo._workspace.containers.ranges_read))
    target = "only the ranges that hold the prefix (a thousand entries lie in a few)"
    notes = [f"{total} ranges in all"]
    return Figure("ranges read by a cold listing", reads, target, lambda read: read <= 4, notes)


def roots(small: int = MILLION, large: int = 10 * MILLION) -> Figure:
    """Peak memory of the export of roots at one million and at ten million staged rows."""
    peaks: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as name:
        main = fresh(Path(name))
        location = Path(main._workspace.database.name).parent
        staged = 0
        for count in (small, large):
            main.stage_many(imports(count - staged, start=staged))
            staged = count
            # Only addresses of the repository's own are exported.
            with main._workspace.database.write() as connection:
                connection.execute(update(staged_entries).values(owned=True))
            command = [sys.executable, "-m", "bench.peak", str(location)]
            output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            peak, exported = output.split()
            if int(exported) != count:
                raise AssertionError(f"{exported} addresses, not {count}")
            peaks[count] = float(peak)
    difference = abs(peaks[large] - peaks[small])
    notes = [f"{count:,} rows: {peak:.0f} MB" for count, peak in peaks.items()]
    target = "the same within 50 MB"
    name = "peak memory of the export of roots, difference in MB"
    return Figure(name, [difference], target, lambda found: found <= 50, notes)


def ls(runs: int = 5) -> Figure:
    """``reclaim ls`` against a Python that loads what it cannot do without."""
    ratios, notes = [], []
    needs = "import obstore, pyarrow, sqlalchemy, typer"
    with tempfile.TemporaryDirectory() as name:
        with Catalog.init(Path(name) / "catalog") as catalog:
            main = catalog.create_repository("bench").branch("main")
            main.put("a", b"x")
            main.commit("one object")
        reclaim = str(Path(sys.executable).parent / "reclaim")
        for _ in range(runs):
            timer = Timer()
            with timer("python"):
                subprocess.run([sys.executable, "-c", needs], check=True)
            with timer("ls"):
                command = [reclaim, "ls", "bench/main", "--catalog", f"{name}/catalog"]
                subprocess.run(command, check=True, capture_output=True)
            ratios.append(timer.seconds["ls"] / timer.seconds["python"])
            notes.append(f"ls {timer.seconds['ls']:.2f} s, Python {timer.seconds['python']:.2f} s")
    target = "at most 4 times as long as loading its libraries"
    return Figure("ls of one object", ratios, target, lambda ratio: ratio <= 4, notes)


def _staged_with_ledger(where: str, main: Callable[[int], Branch], runs: int = 7) -> Figure:
    """Rows of fresh objects, as puts stage them, with and without the writes to the ledger."""
    ratios, notes = [], []
    for run in range(runs):
        timer = Timer()
        # One after the other, and each of the two first in turn.
        for name in ("with", "without") if run % 2 else ("without", "with"):
            branch = main(run)
            workspace = branch._workspace
            with workspace.partitions.use(workspace.repo_uid) as partition:
                entries = [
                    Entry(
                        f"table/day={number // 1000:05d}/part-{number:08d}.parquet",
                        partition.new_object("main"),
                        1_000 + number % 777,
                        workspace.clock.now(),
                        f"sha256:{number:064x}",
                        "",
                        {},
                    )
                    for number in range(STAGED)
                ]
                with timer(name), _ledger(on=name == "with"):
                    for start in range(0, STAGED, uploads.TOGETHER):
                        batch = entries[start : start + uploads.TOGETHER]
                        uploads.stage_fresh(workspace, "main", batch, partition)
        with_ledger, without = timer.seconds["with"], timer.seconds["without"]
        ratios.append(without / with_ledger)
        notes.append(f"with {rate(STAGED, with_ledger)}, without {rate(STAGED, without)}")
    return Figure(
        f"staging {STAGED:,} fresh objects with the ledger, {where}",
        ratios,
        "at least 0.8 of the rate without",
        lambda ratio: ratio >= 0.8,
        notes,
    )


STAGED = 20_000


@contextmanager
def _ledger(*, on: bool) -> Iterator[None]:
    enter = ledger.enter
    if not on:
        ledger.enter = lambda *_: None
    try:
        yield
    finally:
        ledger.enter = enter


def ledger_sqlite() -> Figure:
    with tempfile.TemporaryDirectory() as name:
        return _staged_with_ledger("SQLite", lambda _run: fresh(Path(name)))


def ledger_postgresql() -> Figure:
    with tempfile.TemporaryDirectory() as name, postgresql(Path(name) / "postgresql") as server:

        def main(run: int) -> Branch:
            objects = f"{name}/objects-{run}-{time.monotonic_ns()}"
            catalog = Catalog.init(server.new_database(), storage=objects)
            return catalog.create_repository("bench").branch("main")

        return _staged_with_ledger("PostgreSQL", main)


FIGURES: dict[str, Callable[[], Figure]] = {
    "ledger-sqlite": ledger_sqlite,
    "ledger-postgresql": ledger_postgresql,
    "stage": stage,
    "commit": commit,
    "waiting": waiting,
    "listing": listing,
    "cold": cold,
    "roots": roots,
    "ls": ls,
}
