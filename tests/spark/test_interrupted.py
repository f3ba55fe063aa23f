"""A sweep on Spark that is interrupted: its job is cancelled, and its lock left to its tasks."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from reclaim.catalog import Catalog
from reclaim.engine.local.engine import LocalEngine
from reclaim.engine.spark.engine import SparkEngine
from reclaim.engine.spark.jobs import Jobs
from reclaim.engine.tasks.deleting import Deleter, Remove, Taken, Target
from reclaim.errors import Conflict
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.plan.planning import PlanOptions, make_plan
from reclaim.run.record.journal import Journal
from reclaim.run.sweep.removal import Delete
from reclaim.storage import Storage
from reclaim.storage.pace import InTime
from reclaim.stores.base import Store
from reclaim.stores.catalog import CatalogStore
from reclaim.stores.observation import Margins

PATIENCE = 60.0


@dataclass(frozen=True, slots=True)
class Hanging(Delete):
    """Deletes nothing before a file says so, and says itself when it begins."""

    folder: Path = Path()

    def deleter(self, store: Store, run_id: str, journal: Journal) -> Deleter:
        folder = str(self.folder)

        class Hang:
            """Travels by value, because executors do not know this module."""

            outcome = "deleted"

            def page(
                self, storage: Storage, targets: Sequence[Target], in_time: InTime
            ) -> Sequence[Taken]:
                (Path(folder) / "begun").touch()
                until = time.monotonic() + PATIENCE
                while not (Path(folder) / "go").exists() and time.monotonic() < until:
                    time.sleep(0.02)
                return Remove().page(storage, targets, in_time)

            def take_one(self, storage: Storage, target: Target, in_time: InTime) -> Taken:
                return self.page(storage, [target], in_time)[0]

        return Hang()


@contextmanager
def interrupted_once_begun(folder: Path) -> Iterator[None]:
    """Press Ctrl-C when the first task of what the block does has begun to delete."""
    main = threading.main_thread().ident
    assert main is not None

    def wait() -> None:
        until = time.monotonic() + PATIENCE
        while not (folder / "begun").exists() and time.monotonic() < until:
            time.sleep(0.02)
        signal.pthread_kill(main, signal.SIGINT)

    # A test runner in the background may ignore the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    waiting = threading.Thread(target=wait)
    waiting.start()
    try:
        yield
    finally:
        waiting.join()
        signal.signal(signal.SIGINT, before)


def test_an_interrupted_sweep(spark: SparkSession, tmp_path: Path) -> None:
    with Catalog.init(tmp_path / "catalog") as catalog:
        main = catalog.create_repository("sales").branch("main")
        main.put("a", b"kept")
        main.commit("kept")
        main.put("b", b"reset")
        main.reset()
    with Catalog.open(tmp_path / "catalog") as catalog:
        store = CatalogStore(catalog.workspace("sales"))
        options = PlanOptions(margins=Margins(objects=timedelta(0)), allowed_fraction=1.0)
        plan = make_plan(store, LocalEngine(), options)
        engine = SparkEngine(spark)
        with pytest.raises(KeyboardInterrupt) as caught, interrupted_once_begun(tmp_path):
            apply_plan(store, engine, plan.place, removal=Hanging(folder=tmp_path))
        [note] = caught.value.__notes__
        assert note.startswith(f"run {plan.document.run} may still be working on executors until")
        [run] = store.runs()
        assert (run.phase, run.error) == ("partial", "interrupted")
        with pytest.raises(Conflict, match="may still be working on executors until") as error:
            apply_plan(store, engine, plan.place)
        assert error.value.details["run"] == plan.document.run
        wait_until_cancelled(spark)
        assert engine.list(store.format, [], plan.place).parts == ()


def test_an_interruption_that_spark_answers_with_an_error(spark: SparkSession) -> None:
    """It is what is told: otherwise Ctrl-C would look like a failure of Spark."""

    def interrupted() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise Py4JError("Answer from Java side is empty")

    with pytest.raises(KeyboardInterrupt), Jobs(spark).run():
        interrupted()


def wait_until_cancelled(spark: SparkSession) -> None:
    """Nothing lets the task go on, so that its job is over only when it was cancelled."""
    tracker = spark.sparkContext.statusTracker()
    until = time.monotonic() + PATIENCE
    while tracker.getActiveJobsIds():
        assert time.monotonic() < until, "the job was not cancelled"
        time.sleep(0.02)
