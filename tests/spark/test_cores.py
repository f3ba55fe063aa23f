"""How many tasks a job is cut into."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from reclaim.engine.spark.cores import TASKS_PER_CORE, _ask, count_cores, count_tasks
from reclaim.engine.spark.frames import ROWS_OF_A_TASK, SENT_WITH_TASKS, Frames
from reclaim.engine.spark.session import PARTITIONS, TASKS_VARIABLE, build_session
from reclaim.engine.work.lines import lines_of
from reclaim.errors import InvalidInput


class Master:
    """The settings of a session elsewhere, which is not to be asked."""

    def __init__(self, master: str) -> None:
        self._master = master
        self.conf = self

    def get(self, _name: str, _default: str) -> str:
        return self._master


@pytest.mark.parametrize(
    ("master", "cores"), [("local", 1), ("local[3]", 3), ("local[48,4]", 48), ("local[1]", 1)]
)
def test_a_local_master_tells_its_cores(master: str, cores: int) -> None:
    assert count_cores(Master(master)) == cores  # type: ignore[arg-type]


def test_a_cluster_is_asked(spark: SparkSession) -> None:
    assert count_cores(spark) == _ask(spark) == 2
    assert count_tasks(spark) == 2 * TASKS_PER_CORE


def test_the_environment_overrides_it(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TASKS_VARIABLE, "30")
    assert Frames(spark).tasks == 30
    assert Frames(spark, tasks=3).tasks == 3
    monkeypatch.setenv(TASKS_VARIABLE, "many")
    with pytest.raises(InvalidInput, match=TASKS_VARIABLE):
        build_session(master="local[2]")


@pytest.mark.parametrize("rows", [1, 5, 8, 9, 1000])
@pytest.mark.parametrize("large", [False, True])
def test_no_more_tasks_than_there_is_work(spark: SparkSession, rows: int, large: bool) -> None:
    text = "x" * (SENT_WITH_TASKS // rows + 1 if large else 1)
    spread = Frames(spark, tasks=4).spread(pa.table({"text": [text] * rows}))
    assert (spread.shares is None) == large
    if spread.shares is not None:
        assert len(spread.shares) == min(8, rows)
        sizes = [share.num_rows for share in spread.shares]
        assert sum(sizes) == rows
        assert max(sizes) - min(sizes) <= 1


def test_what_is_shuffled_follows_from_its_rows(spark: SparkSession) -> None:
    frames = Frames(spark, tasks=4)
    work = frames.spread(pa.table({"text": ["a"]}))
    for rows, partitions in ((0, 1), (ROWS_OF_A_TASK + 1, 2), (10**9, 8)):
        frames.run(work, lambda tables: (lines_of(()) for _ in tables), shuffled=rows)
        assert spark.conf.get(PARTITIONS) == str(partitions)
