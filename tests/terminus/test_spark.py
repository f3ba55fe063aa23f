"""The same on Spark: what the local engine decides, Spark decides."""

from __future__ import annotations

import os
import time
from pathlib import Path
from random import Random

from pyspark.sql import SparkSession

from reclaim.engine.local.engine import LocalEngine
from reclaim.engine.spark.engine import SparkEngine
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.plan.planning import make_plan
from reclaim.run.purge.purge import purge
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.run.undo.undo_run import undo_run
from reclaim.stores.terminus.store import TerminusStore
from tests.spark.conftest import spark
from tests.support.terminus import StoreWriter, populate
from tests.terminus.samples import Sample, read_store, unpack
from tests.terminus.world import needed

__all__ = ["spark"]


def old(folder: Path) -> None:
    when = time.time() - 3 * 86_400
    for path in folder.rglob("*"):
        os.utime(path, (when, when))


def test_a_real_store(spark: SparkSession, tmp_path: Path) -> None:
    sample: Sample = unpack("directory", tmp_path)
    old(sample.folder)
    store, engine = TerminusStore(sample.folder), SparkEngine(spark)
    plan = make_plan(store, engine)
    plain = make_plan(store, LocalEngine())
    for told in ("dead", "candidates", "candidate_bytes", "expected", "read"):
        assert getattr(plan.document, told) == getattr(plain.document, told), told
    run = apply_plan(store, engine, plan.place, removal=MoveToQuarantine()).run
    assert read_store(sample.folder).ids == sample.live
    assert undo_run(TerminusStore(sample.folder), engine, run).left == ()
    assert read_store(sample.folder).ids == sample.live | sample.dead


def test_a_random_store_to_the_end(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "store"
    writer = StoreWriter(folder, written_at=time.time() - 3 * 86_400)
    populate(writer, 600, Random(3))
    contents = read_store(folder)
    live = needed(contents.layers, set(contents.roots))
    gone = min(contents.ids - live)
    store, engine = TerminusStore(folder), SparkEngine(spark)
    plan = make_plan(store, engine)
    apply_plan(store, engine, plan.place, removal=MoveToQuarantine())
    assert read_store(folder).ids == live
    # One is taken up again before the rest goes for good.
    writer.label("again", gone)
    back = needed(contents.layers, {gone})
    done = purge(TerminusStore(folder), engine, older_than=MoveToQuarantine().keep * 0)
    assert done is not None
    assert read_store(folder).ids == live | back
