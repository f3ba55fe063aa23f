"""The figure of TerminusDB stores: a plan against reading the same files once."""

from __future__ import annotations

import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Any

from bench.figure import Figure, Timer
from reclaim.engine.tasks.parts import Place
from reclaim.run.plan.planning import PlanOptions, make_plan
from reclaim.stores.terminus.store import TerminusStore
from tests.support.terminus import StoreWriter, populate


def plan_layers(runs: int = 5, count: int = 100_000) -> Figure:
    """A plan of many layers against reading their files in one process, a thread for each core.

    The first plan of a session is one of them: Spark and Python do many things for the first time.
    """
    from bench.collect import engine

    spark = engine()
    ratios, notes = [], []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "store"
        writer = StoreWriter(folder, written_at=time.time() - 7 * 86_400)
        writer.server()
        populate(writer, count, Random(7))
        files = [one.path for shard in os.scandir(folder) if shard.is_dir() for one in _in(shard)]
        for run in range(runs):
            timer = Timer()
            with timer("read"):
                with ThreadPoolExecutor(os.cpu_count()) as pool:
                    size = sum(pool.map(_read, _shares(files, os.cpu_count() or 1)))
            store = TerminusStore(folder)
            with timer("plan"):
                place = Path(name) / f"plan-{run}"
                place.mkdir()
                options = PlanOptions(place=Place(place.as_uri(), ""))
                plan = make_plan(store, spark, options)
            ratios.append(timer.seconds["plan"] / timer.seconds["read"])
            notes.append(
                f"{'a later' if run else 'the first'} plan {timer.seconds['plan']:.1f} s, "
                f"reading {size / 2**20:.0f} MiB {timer.seconds['read']:.1f} s; "
                f"{plan.document.candidates} of {plan.document.objects} objects would go"
            )
    target = "at most twice the time of reading the files once"
    return Figure("plan of 100,000 layers", ratios, target, lambda ratio: ratio <= 2, notes)


def _in(shard: Any) -> list[Any]:
    return list(os.scandir(shard.path))


def _shares(files: list[str], count: int) -> list[list[str]]:
    return [files[start::count] for start in range(count)]


def _read(files: list[str]) -> int:
    size = 0
    for file in files:
        with open(file, "rb", buffering=0) as found:  # noqa: PTH123 - as quick as can be
            size += len(found.read())
    return size


FIGURES = {"plan-layers": plan_layers}
