"""How long another writer waits while an apply of lifecycle rules claims a million addresses."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.collect import MILLION, engine
from bench.figure import Figure
from bench.lifecycle import History, _make, _plan, _store
from bench.objects import _write_files
from reclaim.catalog import Branch, Catalog
from reclaim.run.apply.apply_plan import apply_plan
from tests.support.servers import postgresql

ENTRIES = 1_800_000
"""Rules match 60 % of them."""
PAUSE_SECONDS = 0.02


@dataclass
class Writer:
    """Somebody who puts, copies and commits on another branch, and notes how long each takes."""

    branch: Branch
    longest: float = 0
    count: int = 0
    failed: list[BaseException] = field(default_factory=list)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        self.longest, self.count, over = 0, 0, threading.Event()
        thread = threading.Thread(target=self._write, args=(over,))
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()
        if self.failed:
            raise self.failed[0]

    def _write(self, over: threading.Event) -> None:
        try:
            while not over.wait(PAUSE_SECONDS):
                for write in self._writes():
                    start = time.perf_counter()
                    write()
                    self.longest = max(self.longest, time.perf_counter() - start)
                    self.count += 1
        except BaseException as error:
            self.failed.append(error)

    def _writes(self) -> Iterator[Callable[[], object]]:
        branch, path = self.branch, f"written/{self.count:08d}"
        yield lambda: branch.put(path, b"new")
        yield lambda: branch.copy(path, f"{path}-copied")
        if self.count % 20 == 0:
            yield lambda: branch.commit("written meanwhile")


def _wait(where: str, init: Callable[[Path], Catalog], runs: int) -> Figure:
    spark = engine()
    longest, notes = [], []
    for _ in range(runs):
        with tempfile.TemporaryDirectory() as name:
            made = _make(Path(name), ENTRIES, init)
            _put_files(made)
            writer = Writer(made.catalog.repository("bench").create_branch("work", "main"))
            with writer():
                time.sleep(5)
            alone = writer.longest
            plan = _plan(made, spark, made.days[-1][0], "plan")
            going = plan.document.candidates
            assert going >= MILLION, going
            with writer():
                apply_plan(_store(made), spark, plan.place)
            longest.append(writer.longest)
            notes.append(
                f"{going:,} addresses; {writer.count} writes, the longest {writer.longest:.2f} s; "
                f"without a run beside it {alone:.2f} s"
            )
            made.catalog.close()
    return Figure(
        f"longest write beside a million claims, seconds, {where}",
        longest,
        "at most 1",
        lambda seconds: seconds <= 1,
        notes,
    )


def _put_files(made: History) -> None:
    tree = made.catalog.repository("bench")._workspace.containers.tree(made.days[-1][1])
    for info in tree.ranges:
        _write_files(made.storage, tree.rows(info).column("address").combine_chunks())


def sqlite(runs: int = 2) -> Figure:
    return _wait("SQLite", lambda folder: Catalog.init(folder / "catalog"), runs)


def on_postgresql(runs: int = 2) -> Figure:
    with tempfile.TemporaryDirectory() as name, postgresql(Path(name) / "postgresql") as server:

        def init(folder: Path) -> Catalog:
            objects = str(folder / "catalog" / "objects")
            return Catalog.init(server.new_database(), storage=objects)

        return _wait("PostgreSQL", init, runs)


FIGURES = {"lifecycle-wait": sqlite, "lifecycle-wait-postgresql": on_postgresql}
