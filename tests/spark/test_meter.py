"""The meter of a session: what tasks tell on the way, and Spark's own counts of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from reclaim.engine.base import Tasks
from reclaim.engine.spark.frames import Frames
from reclaim.engine.spark.meter import SparkMeter
from reclaim.engine.tasks import tally
from reclaim.engine.tasks.tally import OBJECTS, Tallies, Tally
from reclaim.engine.work.lines import Tables, lines_of

PATIENCE = 120.0


@pytest.fixture
def meter(spark: SparkSession) -> Iterator[SparkMeter]:
    made = SparkMeter(spark)
    yield made
    made.close()
    assert not Path(made.folder).exists()


def test_a_job_on_the_way(spark: SparkSession, meter: SparkMeter, tmp_path: Path) -> None:
    """Its tasks tell what they have done before they end, and Spark how many have ended."""

    def work(folder: str, rows: Tables) -> Tables:
        """Travels by value, because executors do not know this module."""
        tally.WRITE_SECONDS = 0.0
        for table in rows:
            first = table.column("number")[0].as_py() == 0
            tally.count(OBJECTS, table.num_rows)
            until = time.monotonic() + PATIENCE
            while first and not (Path(folder) / "go").exists() and time.monotonic() < until:
                time.sleep(0.02)
        yield lines_of([], {})

    frames = Frames(spark, tasks=2, meter=meter)
    spread = frames.spread(pa.table({"number": list(range(4))}))
    seen: list[tuple[int, Tasks]] = []

    def wait() -> None:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            seen.append((meter.units().get(OBJECTS, 0), meter.tasks()))
            if seen[-1] == (4, Tasks(3, 4)):
                break
            time.sleep(0.02)
        (tmp_path / "go").touch()

    waiting = threading.Thread(target=wait)
    waiting.start()
    frames.run(spread, partial(work, str(tmp_path)))
    waiting.join()
    assert seen[-1] == (4, Tasks(3, 4))
    until = time.monotonic() + PATIENCE
    while meter.tasks() != Tasks(0, 0) and time.monotonic() < until:
        # Spark learns of the end of a job a little later than we do.
        time.sleep(0.02)
    assert meter.tasks() == Tasks(0, 0)


def test_tallies_add_up_and_are_never_half_read(tmp_path: Path) -> None:
    tallies = Tallies(str(tmp_path))
    assert tallies.read() == {}
    first, second = Tally(str(tmp_path)), Tally(str(tmp_path))
    first.add("objects", 2)
    first.write()
    second.add("objects", 3)
    second.add("containers", 1)
    assert tallies.read() == {"objects": 2}
    second.write()
    (tmp_path / "broken").write_text("{")
    assert tallies.read() == {"objects": 5, "containers": 1}
    assert Tallies(str(tmp_path / "gone")).read() == {}


def test_nobody_watches(tmp_path: Path) -> None:
    tally.count(OBJECTS, 5)
    assert list(tally.tallied(str(tmp_path / "gone"), iter([1]))) == [1]
