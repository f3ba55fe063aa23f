"""The gauge of a stage: what it says, from a meter that a test sets."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from reclaim.engine.base import Tasks
from reclaim.progress.gauge import Gauge, span
from reclaim.run.record.stages import Stage


class SetMeter:
    """Tells what a test has set."""

    def __init__(self) -> None:
        self.counted: dict[str, int] = {}
        self.running = Tasks(0, 0)
        self.closed = False

    def units(self) -> Mapping[str, int]:
        return self.counted

    def tasks(self) -> Tasks:
        return self.running

    def close(self) -> None:
        self.closed = True


def test_a_count_a_rate_and_the_time_left() -> None:
    meter = SetMeter()
    meter.counted = {"objects": 500}
    gauge = Gauge(Stage("plan", "r1", "objects", 40_000), meter, now=100.0)
    meter.counted = {"objects": 12_500}
    reading = gauge.read(104.0)
    assert reading.sentence() == "12,000 of 40,000 objects, 3,000/s, 9 s left"
    assert reading.fields() == {
        "run": "r1",
        "stage": "plan",
        "seconds": 4.0,
        "done": 12_000,
        "total": 40_000,
        "unit": "objects",
        "rate": 3000.0,
        "left": 9,
    }


def test_no_time_left_without_a_total() -> None:
    meter = SetMeter()
    gauge = Gauge(Stage("list", "r1", "objects"), meter, now=0.0)
    meter.counted = {"objects": 9}
    assert gauge.read(2.0).sentence() == "9 objects, 4.5/s"
    assert gauge.read(0.5).sentence() == "9 objects"


def test_a_task_that_was_tried_again_does_not_exceed_the_total() -> None:
    meter = SetMeter()
    gauge = Gauge(Stage("sweep-data", "r1", "objects", 10), meter, now=0.0)
    meter.counted = {"objects": 15}
    assert gauge.read(5.0).sentence() == "10 of 10 objects, 2.0/s, 0 s left"


def test_tasks_where_they_tell_nothing_themselves() -> None:
    meter = SetMeter()
    gauge = Gauge(Stage("confirm", "r1", "objects", 10), meter, now=0.0)
    assert gauge.read(70.0).sentence() == "at work for 1 min 10 s"
    meter.running = Tasks(50, 200)
    assert gauge.read(100.0).sentence() == "50 of 200 tasks, 0.5/s, 5 min 0 s left"


def test_before_there_is_an_engine() -> None:
    assert Gauge(Stage("start Spark"), None, now=0.0).read(3.0).sentence() == "at work for 3 s"


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.2, "0 s"), (59.4, "59 s"), (61, "1 min 1 s"), (7_321, "2 h 2 min")]
)
def test_spans(seconds: float, said: str) -> None:
    assert span(seconds) == said
