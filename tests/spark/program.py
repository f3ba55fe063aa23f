"""A plan and an apply on the Spark that is named, as a program of its own.

A process can have one kind of session only, so each kind gets a process.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import SparkSession
from sqlalchemy import delete

from reclaim.catalog import Catalog
from reclaim.catalog.database.schema import locks
from reclaim.engine.spark.cores import count_cores
from reclaim.engine.spark.engine import SparkEngine
from reclaim.engine.spark.meter import SparkMeter
from reclaim.engine.spark.session import build_session
from reclaim.engine.tasks.parts import open_storage, read_part
from reclaim.errors import Conflict
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.plan.planning import PlanOptions, WrittenPlan, make_plan
from reclaim.run.uncommitted.planning import plan_uncommitted
from reclaim.stores.catalog import CatalogStore
from reclaim.stores.observation import Margins
from tests.spark.test_interrupted import Hanging, interrupted_once_begun


def main(location: str, kind: str, where: str) -> dict[str, Any]:
    given: dict[str, Any] = {"remote": where} if kind == "remote" else {"master": where}
    settings = {"spark.executor.memory": "512m"} if kind == "master" else {}
    session = build_session(settings=settings, **given)
    meter = HearingMeter(session)
    engine = SparkEngine(session, metered=lambda _: meter)
    with Catalog.open(location) as catalog:
        store = CatalogStore(catalog.workspace("sales"))
        margins = Margins(objects=timedelta(0))
        plan = make_plan(store, engine, PlanOptions(margins=margins, allowed_fraction=1.0))
        storage = open_storage(plan.place.url)
        rows = [
            [row["address"], row["kind"], row["reason"]]
            for file in plan.document.files
            for row in read_part(storage, file.part).to_pylist()
        ]
        told = interrupted(store, engine, plan) if kind == "remote" else ""
        applied = apply_plan(store, engine, plan.place).summary()
        uncommitted = run_uncommitted(store, session) if kind == "remote" else []
    cores = count_cores(session)
    session.stop()
    made = type(session).__module__
    return {
        "rows": sorted(rows),
        "applied": applied,
        "session": made,
        "interrupted": told,
        "uncommitted": uncommitted,
        "cores": cores,
        "tasks_told": meter.most,
    }


def run_uncommitted(store: CatalogStore, session: SparkSession) -> list[tuple[str, int]]:
    """Runs on uncommitted data, with every job that there is: mode, and objects of the store."""
    engine = SparkEngine(session, driver_row_limit=0)
    told = []
    for _ in range(2):
        options = PlanOptions(margins=Margins(objects=timedelta(0)), allowed_fraction=1.0)
        plan = plan_uncommitted(store, engine, options)
        assert plan.document.uncommitted is not None
        told.append((plan.document.uncommitted.mode, plan.document.candidates))
        if len(told) == 1:
            apply_plan(store, engine, plan.place)
    return told


class HearingMeter(SparkMeter):
    """Remembers the most tasks that a Connect server told of at once."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        self.most = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        with super().watching():
            try:
                yield
            finally:
                self.most = max(self.most, self.tasks().total)


def interrupted(store: CatalogStore, engine: SparkEngine, plan: WrittenPlan) -> str:
    """Apply, and press Ctrl-C when a task has begun; what the next apply is told."""
    told = ""
    with TemporaryDirectory() as folder:
        with suppress(KeyboardInterrupt), interrupted_once_begun(Path(folder)):
            apply_plan(store, engine, plan.place, removal=Hanging(folder=Path(folder)))
        try:
            apply_plan(store, engine, plan.place)
        except Conflict as error:
            told = error.message
        # As if the time of the tasks were over.
        (Path(folder) / "go").touch()
        with store._workspace.database.write() as connection:
            connection.execute(delete(locks))
    return told


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
