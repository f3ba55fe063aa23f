"""Explorations of operations by their names, and what they found, for the golden file."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.planted.plant import VARIABLE as PLANTED
from tests.schedules.checks import Checks
from tests.schedules.forgetting import remembered_by
from tests.schedules.operations import CLEANERS, EVERY_OPERATION, Instance
from tests.schedules.past import Past
from tests.support.exploring import Exploration
from tests.support.scheduler import Scheduler, Task, Trace
from tests.support.soak import SOAK
from tests.support.state_graph import StateGraph

OF_TESTS, OF_SOAKS = (Path(__file__).parent / name for name in ("golden.json", "golden_soak.json"))
WRITES_GOLDEN = "RECLAIM_WRITE_GOLDEN"
ALL = "all"


def scheduler(past: Past, names: Sequence[str], *, warm: bool = True) -> Scheduler:
    """A scheduler of operations, each with an instance of its own in the same past."""
    cleaned = not CLEANERS & set(names)

    def prepare(tasks: Sequence[Task]) -> Sequence[Callable[[], Any]]:
        past.restore(cleaned=cleaned)
        return [_work(past, task, warm) for task in tasks]

    return Scheduler(
        names,
        prepare,
        on_death=lambda: past.clock.advance(minutes=31),
        state_of=past.fingerprint,
    )


def _work(past: Past, task: Task, warm: bool) -> Callable[[], Any]:
    operation = EVERY_OPERATION[task.name]
    at = Instance(past, past.instance(task.number, task, warm=warm))
    task.lasting = lambda: remembered_by(at.catalog)
    return lambda: operation(at)


@dataclass(frozen=True)
class Explored:
    """What an exploration has tried and seen."""

    runs: int
    complete: str
    """What was tried of all orders: up to so many preemptions, or "all"."""
    ends: dict[str, int]
    """How the tasks ended → in how many states the catalog was then."""
    states: int | None = None
    """States that were reached on the way, if they were told apart."""

    @property
    def different(self) -> int:
        """Ends that can be told apart."""
        return sum(self.ends.values())

    def record(self) -> dict[str, Any]:
        states = {} if self.states is None else {"states": self.states}
        ends = dict(sorted(self.ends.items()))
        return {"runs": self.runs, "preemptions": self.complete, "ends": ends} | states


def explore_all(graph: StateGraph, past: Past, checks: Checks) -> Explored:
    """Try every order up to those that cannot differ, within the bound, and check each end."""
    ends = _ends((trace for trace in graph if not trace.stopped), past, checks)
    complete = "a sample"
    if graph.exhausted:
        complete = ALL if graph.preemptions is None else f"at most {graph.preemptions}"
    return Explored(graph.runs, complete, ends, len(graph.nodes))


def explore(exploration: Exploration, past: Past, checks: Checks) -> Explored:
    """Try schedules with few preemptions and check the end of each."""
    counted = _Counted(exploration)
    ends = _ends(counted, past, checks)
    complete = ALL if exploration.exhausted else f"at most {exploration.reached}, and a sample"
    return Explored(counted.count, complete, ends)


def tried(traces: Iterable[Trace], past: Past, checks: Checks) -> Explored:
    """Check the ends of schedules that were chosen otherwise."""
    counted = _Counted(traces)
    ends = _ends(counted, past, checks)
    return Explored(counted.count, "a sample", ends)


class _Counted:
    def __init__(self, traces: Iterable[Trace]) -> None:
        self._traces = traces
        self.count = 0

    def __iter__(self) -> Iterator[Trace]:
        for trace in self._traces:
            self.count += 1
            yield trace


def _ends(traces: Iterable[Trace], past: Past, checks: Checks) -> dict[str, int]:
    states: dict[str, set[bytes]] = defaultdict(set)
    for trace in traces:
        states[trace.outcome].add(checks.check(past, trace))
    return {outcome: len(ends) for outcome, ends in states.items()}


class Golden:
    """The golden files: what each exploration of ``make test`` tries and sees, and what a soak does
    of the pairs that ``make test`` does not try to the end.

    ``RECLAIM_WRITE_GOLDEN=1`` writes them anew. A planted bug sees other things, so that is not
    compared, nor is what a soak tries at random.
    """

    def __init__(self) -> None:
        self.of_tests: dict[str, Any] = json.loads(OF_TESTS.read_text())
        self.of_soaks: dict[str, Any] = json.loads(OF_SOAKS.read_text())

    def compare(self, name: str, explored: Explored) -> None:
        record = explored.record()
        if os.environ.get(WRITES_GOLDEN):
            self._write(name, record)
        elif not os.environ.get(PLANTED):
            known = (self.of_soaks if SOAK else self.of_tests).get(name)
            if known is not None or not SOAK:
                assert record == known, f"{name}: {record}; the golden file has {known}"

    def _write(self, name: str, record: dict[str, Any]) -> None:
        if SOAK and (record["preemptions"] != ALL or self.of_tests.get(name) == record):
            return
        records, file = (self.of_soaks, OF_SOAKS) if SOAK else (self.of_tests, OF_TESTS)
        records[name] = record
        text = json.dumps(records, indent=1, sort_keys=True, ensure_ascii=False)
        file.write_text(text + "\n")
