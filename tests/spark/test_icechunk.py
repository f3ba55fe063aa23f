"""Icechunk repositories on Spark: each step finds what the local engine finds, on both specs."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import icechunk
import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from reclaim.engine.local.engine import LocalEngine
from reclaim.engine.pipelines import expanding
from reclaim.engine.pipelines.live_keys import LOOKUP_LIMIT
from reclaim.engine.spark.engine import SparkEngine
from reclaim.engine.tasks.keys import Key, keys_of
from reclaim.engine.tasks.parts import open_storage, read_part
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.plan.planning import PlanOptions, WrittenPlan, make_plan
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.run.undo.undo_run import undo_run
from reclaim.stores.icechunk.store import IcechunkStore
from reclaim.stores.observation import Margins
from tests.icechunk.repositories import SPECS, WrittenRepository
from tests.icechunk.samples import extract
from tests.icechunk.world import DAY, build_randomly, bury
from tests.spark.paired import PairedEngine

icechunk.set_logs_filter("error")


@pytest.fixture(params=[1, 2], ids=["spec 1", "spec 2"])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> WrittenRepository:
    if request.param not in SPECS:
        return extract("random", tmp_path)
    made = WrittenRepository.create(tmp_path / "repository", request.param)
    build_randomly(made, Random(11))
    return made


OPTIONS = PlanOptions(margins=Margins(objects=DAY), allowed_fraction=1)


def paired(written: WrittenRepository, spark: SparkSession) -> PairedEngine:
    storage = open_storage(written.folder.parent.as_uri())
    return PairedEngine(LocalEngine(), SparkEngine(spark), storage)


def test_plan_and_apply_and_undo(written: WrittenRepository, spark: SparkSession) -> None:
    before = written.objects()
    store, engine = IcechunkStore(str(written.folder)), paired(written, spark)
    made = make_plan(store, engine, OPTIONS)
    done = apply_plan(store, engine, made.place, removal=MoveToQuarantine(timedelta(days=7)))
    going = {row["address"] for row in rows(made)}
    assert done.summary()["objects"] == len(going) > 0
    left = written.objects()
    assert {
        f"{written.folder.name}/{folder}/{name}"
        for folder, names in before.items()
        for name in names - left[folder]
    } == going
    undo_run(store, engine, done.run)
    assert written.objects() == before


@pytest.mark.parametrize("limit", [0, expanding.FEW_CONTAINERS])
def test_what_snapshots_list_wherever_it_is_put_together(
    limit: int, tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On executors, or on the driver; of dead snapshots one cannot be read."""
    monkeypatch.setattr(expanding, "FEW_CONTAINERS", limit)
    written = WrittenRepository.create(tmp_path / "repository", 1)
    damaged, _ = bury(written)
    (written.folder / "snapshots" / damaged).write_bytes(b"damaged")
    written.age()
    made = make_plan(IcechunkStore(str(written.folder)), paired(written, spark), OPTIONS)
    assert made.document.dead == 2
    assert len(rows(made)) > 4


def rows(made: WrittenPlan) -> list[dict[str, Any]]:
    storage = open_storage(made.place.url)
    found = [
        row for file in made.document.files for row in read_part(storage, file.part).to_pylist()
    ]
    return sorted(found, key=lambda row: str(row["address"]))


def seven_keys(addresses: pa.ChunkedArray) -> Key:
    seven: Key = keys_of(addresses) % np.uint64(7)
    return seven


def test_reasons_however_they_are_looked_up(tmp_path: Path, spark: SparkSession) -> None:
    """By key or by a join; and keys that match by chance change no more than a sentence."""
    written = extract("buried", tmp_path)
    (written.folder / "chunks" / ("0" * 20)).write_bytes(b"of no snapshot")
    written.age()
    store = IcechunkStore(str(written.folder))
    expected = rows(make_plan(store, LocalEngine(), OPTIONS))
    assert len({row["reason"] for row in expected}) == 2
    for limit in (LOOKUP_LIMIT, 0):
        found = rows(make_plan(store, SparkEngine(spark, lookup_limit=limit), OPTIONS))
        assert found == expected
    colliding = SparkEngine(spark, keys_of=seven_keys)
    by_address = {row["address"]: row for row in expected}
    for row in rows(make_plan(store, colliding, OPTIONS)):
        assert {**row, "reason": ""} == {**by_address[row["address"]], "reason": ""}
