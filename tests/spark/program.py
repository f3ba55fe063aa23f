"""A plan and an apply on the Spark that is named, as a program of its own.

A process can have one kind of session only, so each kind gets a process.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from typing import Any

from reclaim.catalog import Catalog
from reclaim.run.apply import apply_plan
from reclaim.run.plan import PlanOptions, make_plan
from reclaim.spark.engine import SparkEngine
from reclaim.spark.session import build_session
from reclaim.stores.base import Margins
from reclaim.stores.catalog import CatalogStore
from reclaim.tasks.parts import open_storage, read_part


def main(location: str, kind: str, where: str) -> dict[str, Any]:
    given = {"remote": where} if kind == "remote" else {"master": where}
    settings = {"spark.executor.memory": "512m"} if kind == "master" else {}
    session = build_session(settings=settings, **given)
    engine = SparkEngine(session)
    with Catalog.open(location) as catalog:
        store = CatalogStore(catalog.collecting("sales"))
        margins = Margins(objects=timedelta(0))
        plan = make_plan(store, engine, PlanOptions(margins=margins, allowed_fraction=1.0))
        storage = open_storage(plan.place.url)
        rows = [
            [row["address"], row["kind"], row["reason"]]
            for file in plan.document.files
            for row in read_part(storage, file.part).to_pylist()
        ]
        applied = apply_plan(store, engine, plan.place).summary()
    session.stop()
    return {"rows": sorted(rows), "applied": applied, "session": type(session).__module__}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
