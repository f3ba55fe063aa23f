"""The same jobs on this machine, under Spark Connect, and on a cluster with two workers."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from reclaim.catalog import Catalog
from reclaim.engine.local.engine import LocalEngine
from reclaim.engine.tasks.parts import Place, open_storage, read_part
from reclaim.engine.work import listing
from reclaim.run.plan.planning import PlanOptions, make_plan
from reclaim.stores.catalog import CatalogStore
from reclaim.stores.observation import Margins
from tests.support.cluster import standalone

ROOT = Path(__file__).resolve().parent.parent.parent
RECEIVE = "import pickle, sys; pickle.load(sys.stdin.buffer); print(*sys.modules)"
"""A worker that gets a task."""


@pytest.fixture
def location(tmp_path: Path) -> Path:
    """A catalog with something live and something dead of each kind."""
    place = tmp_path / "catalog"
    with Catalog.init(place) as catalog:
        repo = catalog.create_repository("sales")
        main = repo.branch("main")
        for number in range(20):
            main.put(f"a/{number}", b"first")
        main.commit("first")
        side = repo.create_branch("side")
        side.put("b", b"side")
        side.commit("side")
        repo.delete_branch("side")
        main.put("a/1", b"staged and reset")
        main.reset()
        main.put("a/2", b"staged")
    return place


def expected(location: Path, folder: Path) -> list[list[str]]:
    folder.mkdir()
    with Catalog.open(location) as catalog:
        store = CatalogStore(catalog.workspace("sales"))
        options = PlanOptions(
            margins=Margins(objects=timedelta(0)),
            allowed_fraction=1.0,
            place=Place(folder.as_uri(), ""),
        )
        plan = make_plan(store, LocalEngine(), options)
    storage = open_storage(plan.place.url)
    return sorted(
        [row["address"], row["kind"], row["reason"]]
        for file in plan.document.files
        for row in read_part(storage, file.part).to_pylist()
    )


def run(location: Path, kind: str, where: str) -> dict[str, Any]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SPARK", "PYSPARK"))
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.program", str(location), kind, where],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def check(location: Path, answer: dict[str, Any], rows: list[list[str]]) -> None:
    assert answer["rows"] == rows
    assert answer["applied"]["objects"] == len(rows) > 3
    with Catalog.open(location) as catalog:
        main = catalog.repository("sales").branch("main")
        assert {entry.path: main.get(entry.path) for entry in main.entries()} == {
            f"a/{number}": b"staged" if number == 2 else b"first" for number in range(20)
        }
        assert expected(location, location.parent / "afterwards") == []


def test_under_spark_connect(location: Path, tmp_path: Path) -> None:
    rows = expected(location, tmp_path / "plain")
    answer = run(location, "remote", "local[2]")
    assert answer["cores"] == 2
    assert "connect" in answer["session"]
    assert answer["tasks_told"] > 0
    assert "has ended, and may still be working on executors until" in answer["interrupted"]
    assert answer["uncommitted"] == [["full", 0], ["incremental", 0]]
    check(location, answer, rows)


def test_on_a_cluster_with_two_workers(location: Path, tmp_path: Path) -> None:
    rows = expected(location, tmp_path / "plain")
    with standalone(tmp_path / "cluster") as master:
        answer = run(location, "master", master)
    assert "connect" not in answer["session"]
    assert answer["cores"] == 2
    check(location, answer, rows)


def test_what_travels_to_executors_knows_no_database(location: Path) -> None:
    with Catalog.open(location) as catalog:
        store = CatalogStore(catalog.workspace("sales"))
        place = Place(*store.place("run"))
        sent = pickle.dumps(partial(listing.list_keys, store.format, place))
    assert b"catalog.db" not in sent
    assert b"sqlite" not in sent
    assert str(location / "objects").encode() in sent
    received = subprocess.run(
        [sys.executable, "-c", RECEIVE], input=sent, capture_output=True, check=True
    )
    loaded = received.stdout.decode().split()
    assert "reclaim.stores.catalog.format" in loaded
    assert not {"sqlalchemy", "sqlite3", "psycopg"} & set(loaded)
