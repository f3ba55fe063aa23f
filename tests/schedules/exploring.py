"""Explorations of operations by their names, and what they found, for the golden file."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reclaim.testing import Scheduler
from reclaim.testing.exploring import Exploration
from reclaim.testing.scheduler import Task, Trace
from tests.planted.plant import VARIABLE as PLANTED
from tests.schedules.checks import Checks
from tests.schedules.operations import CLEANERS, EVERY_OPERATION, RUNS, Instance
from tests.schedules.past import Past
from tests.soak import SOAK

GOLDEN = Path(__file__).parent / "golden.json"
WRITES_GOLDEN = "RECLAIM_WRITE_GOLDEN"


def scheduler(past: Past, names: Sequence[str], *, warm: bool = True) -> Scheduler:
    """A scheduler of operations, each with an instance of its own in the same past."""
    cleaned = not CLEANERS & set(names)

    def prepare(tasks: Sequence[Task]) -> Sequence[Callable[[], Any]]:
        past.restore(cleaned=cleaned)
        return [_work(past, task, warm) for task in tasks]

    return Scheduler(names, prepare, on_death=lambda: past.clock.advance(minutes=31))


def _work(past: Past, task: Task, warm: bool) -> Callable[[], Any]:
    operation = EVERY_OPERATION[task.name]
    at = Instance(past, past.instance(task.number, task, warm=warm))
    return lambda: operation(at)


@dataclass(frozen=True)
class Explored:
    """What an exploration has tried and seen."""

    schedules: int
    preemptions: int
    """Every schedule with so many preemptions was tried; -1: not even those without any."""
    exhausted: bool
    ends: dict[str, int]
    """How the tasks ended → in how many ways the catalog looked then."""

    def record(self) -> dict[str, Any]:
        tried = {
            "schedules": self.schedules,
            "preemptions": "all" if self.exhausted else self.preemptions,
        }
        # A run deletes in the order of a set: how many orders there are differs a little.
        if any(f"{name}:" in ends for name in RUNS for ends in self.ends):
            return {"at least": min(self.schedules, 3)}
        return tried | {"ends": dict(sorted(self.ends.items()))}


def explore(exploration: Exploration, checks: Checks, *, named: bool = False) -> Explored:
    """Try schedules and check the end of each."""
    seen = _ends(exploration, checks, named=named)
    return Explored(seen[0], exploration.reached, exploration.exhausted, seen[1])


def tried(traces: Iterable[Trace], checks: Checks) -> Explored:
    """Check the ends of schedules that were chosen otherwise."""
    count, ends = _ends(traces, checks, named=False)
    return Explored(count, -1, False, ends)


def _ends(traces: Iterable[Trace], checks: Checks, *, named: bool) -> tuple[int, dict[str, int]]:
    shown: dict[str, set[str]] = defaultdict(set)
    count = 0
    for trace in traces:
        count += 1
        shown[trace.outcome].add(checks.check(trace, named=named))
    return count, {outcome: len(ends) for outcome, ends in shown.items()}


class Golden:
    """The golden file: what each exploration of ``make test`` tries and sees.

    ``RECLAIM_WRITE_GOLDEN=1`` writes it anew. A soak tries more, and a planted bug sees other
    things, so neither is compared.
    """

    def __init__(self) -> None:
        self.records: dict[str, Any] = json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {}

    def compare(self, name: str, explored: Explored) -> None:
        if os.environ.get(WRITES_GOLDEN):
            self.records[name] = explored.record()
            text = json.dumps(self.records, indent=1, sort_keys=True, ensure_ascii=False)
            GOLDEN.write_text(text + "\n")
        elif not SOAK and not os.environ.get(PLANTED):
            assert explored.record() == self.records.get(name)
