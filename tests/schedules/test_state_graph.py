"""All orders up to those that cannot differ: they end as all orders do, and are few."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import pytest

from tests.support.exploring import Exploration
from tests.support.footprints import Footprint
from tests.support.scheduler import Scheduler, Task
from tests.support.soak import MORE
from tests.support.state_graph import StateGraph

pytestmark = pytest.mark.repeats(first=4)

Program = Sequence[tuple[str, str]]
"""What a task does: read a name; write what it has read so far to a name, or do so if it is odd; or
read a name and end there if that is odd, as one does who finds a lock held."""


class Memory:
    """Numbers that tasks read and write, each of it a step."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}

    def state(self, _touched: Footprint | None) -> Hashable:
        return tuple(sorted(self.values.items()))

    def run(self, task: Task, program: Program) -> int:
        total = task.number + 1
        for kind, name in program:
            if kind == "read":
                task.reach(f"read {name}", Footprint(reads={name}))
                value = self.values.get(name, 0)
                task.see(value)
                total = total * 3 + value
            elif kind == "end if odd":
                task.reach(f"read {name}", Footprint(reads={name}))
                value = self.values.get(name, 0)
                task.see(value)
                if value % 2:
                    break
            elif kind == "write" or total % 2:
                task.reach(f"write {name}", Footprint(writes={name}))
                self.values[name] = total
        return total

    def scheduler(self, *programs: Program) -> Scheduler:
        def prepare(tasks: Sequence[Task]) -> Sequence[Callable[[], Any]]:
            self.values.clear()
            works = zip(tasks, programs, strict=True)
            return [partial(self.run, task, program) for task, program in works]

        names = [str(number) for number in range(len(programs))]
        return Scheduler(names, prepare, state_of=self.state)


def ends(memory: Memory, traces: Exploration | StateGraph) -> set[Hashable]:
    return {memory.state(None) for trace in traces if not trace.stopped}


@pytest.mark.parametrize("seed", range(30 * MORE))
def test_it_ends_as_all_orders_do(seed: int) -> None:
    chance = random.Random(seed)
    tasks = chance.choice((2, 2, 3))
    programs = [
        [
            ("read", "a"),
            *(
                (chance.choice(("read", "write", "write if odd")), chance.choice("abc"))
                for _ in range(chance.randint(0, 5 - tasks))
            ),
        ]
        for _ in range(tasks)
    ]
    memory = Memory()
    graph = StateGraph(memory.scheduler(*programs))
    every = Exploration(memory.scheduler(*programs))
    assert ends(memory, graph) == ends(memory, every)
    assert graph.exhausted
    bounded = StateGraph(memory.scheduler(*programs), preemptions=1)
    few = Exploration(memory.scheduler(*programs), preemptions=1)
    assert ends(memory, bounded) == ends(memory, few)


NOTICING = (821, 1_550, 2_725)
"""Seeds that notice when a rule is left out which others do not need."""


def all_ends(programs: Sequence[Program]) -> set[Hashable]:
    """The ends of all orders, found without a scheduler."""
    found: set[Hashable] = set()
    seen: set[Hashable] = set()
    begin = ((), tuple((0, number + 1) for number in range(len(programs))))
    pending: list[Any] = [begin]
    while pending:
        state = pending.pop()
        if state in seen:
            continue
        seen.add(state)
        values, tasks = state
        going = [at for at, (done, _) in enumerate(tasks) if done < len(programs[at])]
        if not going:
            found.add(values)
        for at in going:
            pending.append(_after_step(programs[at], values, tasks, at))
    return found


def _after_step(program: Program, values: Any, tasks: Any, at: int) -> Any:
    known = dict(values)
    done, total = tasks[at]
    kind, name = program[done]
    done += 1
    if kind == "read":
        total = total * 3 + known.get(name, 0)
    elif kind == "end if odd":
        done = len(program) if known.get(name, 0) % 2 else done
    elif kind == "write" or total % 2:
        known[name] = total
    return tuple(sorted(known.items())), (*tasks[:at], (done, total), *tasks[at + 1 :])


@pytest.mark.parametrize("seed", [*range(200 * MORE), *NOTICING])
def test_two_that_may_end_early_end_as_all_orders_do(seed: int) -> None:
    """Each may find that it need not go on: what it does alone is less than what it ever does."""
    chance = random.Random(seed)
    kinds = ("read", "write", "write if odd", "end if odd")
    programs = [
        [
            (chance.choice(kinds), chance.choice(("a", "b", "c", "d", f"own {task}")))
            for _ in range(chance.randint(4, 12))
        ]
        for task in range(2)
    ]
    memory = Memory()
    graph = StateGraph(memory.scheduler(*programs))
    assert ends(memory, graph) == all_ends(programs)
    assert graph.exhausted


def test_what_shares_nothing_is_run_once() -> None:
    memory = Memory()
    graph = StateGraph(memory.scheduler([("read", "a")] * 9, [("write", "b")] * 9))
    assert len(list(graph)) == 1
    assert graph.exhausted
    assert not graph.conflicting


def test_states_that_meet_go_on_together() -> None:
    """Of two that write the same to two places there are 10 orders, and few states."""
    memory = Memory()
    program = [("write", "a"), ("write", "b")] * 3
    graph = StateGraph(memory.scheduler(program, program))
    orders = 924
    assert len(list(graph)) < orders / 10
    assert graph.conflicting


def test_a_task_that_forgets_is_in_one_state() -> None:
    memory = Memory()

    def prepare(tasks: Sequence[Task]) -> Sequence[Callable[[], Any]]:
        memory.values.clear()

        def look(task: Task) -> None:
            for _ in range(5):
                with task.forgetting():
                    memory.run(task, [("read", "a")])

        def write() -> None:
            memory.run(tasks[1], [("write", "a"), ("write", "a"), ("write", "a")])

        return [partial(look, tasks[0]), write]

    graph = StateGraph(Scheduler(["look", "write"], prepare, state_of=memory.state))
    list(graph)
    remembering = StateGraph(memory.scheduler([("read", "a")] * 5, [("write", "a")] * 3))
    list(remembering)
    assert graph.exhausted
    assert len(graph.nodes) < len(remembering.nodes)


@pytest.mark.parametrize("extra", [0, 1, 2, 5])
@pytest.mark.parametrize("order", [("looks", "writes"), ("writes", "looks")])
def test_what_is_forgotten_may_take_more_steps(order: tuple[str, str], extra: int) -> None:
    """Who comes the long way is not thought to have done what is yet to come."""
    memory = Memory()
    values = memory.values

    def look(task: Task) -> None:
        with task.forgetting():
            task.reach("exchange z", Footprint(reads={"z", "y"}, writes={"z"}))
            long = values.get("z") == 2 and not values.get("y")
            task.see(long)
            values["z"] = 8 if long else 7
            for _ in range(extra if long else 0):
                task.reach("go on", Footprint(reads={"own"}))
        task.reach("read y", Footprint(reads={"y"}))
        y = values.get("y", 0)
        task.see(y)
        if y:
            task.reach("read z", Footprint(reads={"z"}))
            z = values["z"]
            task.see(z)
            task.reach("write b", Footprint(writes={"b"}))
            values["b"] = z

    def write(task: Task) -> None:
        for name, value in (("z", 2), ("y", 1), ("z", 5)):
            task.reach(f"write {name}", Footprint(writes={name}))
            values[name] = value

    def prepare(tasks: Sequence[Task]) -> Sequence[Callable[[], Any]]:
        values.clear()
        works = {"looks": look, "writes": write}
        return [partial(works[task.name], task) for task in tasks]

    graph, every = (
        kind(Scheduler(order, prepare, state_of=memory.state)) for kind in (StateGraph, Exploration)
    )
    assert ends(memory, graph) == ends(memory, every)
    assert graph.exhausted


def _compare(works: Sequence[Callable[[Task, dict[str, int]], None]]) -> None:
    memory = Memory()

    def prepare(tasks: Sequence[Task]) -> Sequence[Callable[[], Any]]:
        memory.values.clear()
        return [partial(work, task, memory.values) for work, task in zip(works, tasks, strict=True)]

    names = [str(number) for number in range(len(works))]
    graph, every = (
        kind(Scheduler(names, prepare, state_of=memory.state)) for kind in (StateGraph, Exploration)
    )
    assert ends(memory, graph) == ends(memory, every)
    assert graph.exhausted


def _read(task: Task, values: dict[str, int], name: str) -> int:
    task.reach(f"read {name}", Footprint(reads={name}))
    value = values.get(name, 0)
    task.see(value)
    return value


def _write(task: Task, values: dict[str, int], name: str, value: int) -> None:
    task.reach(f"write {name}", Footprint(writes={name}))
    values[name] = value


@pytest.mark.parametrize("fails", [False, True])
def test_after_an_error_nothing_is_forgotten_that_counts(fails: bool) -> None:
    def tidies(task: Task, values: dict[str, int]) -> None:
        with suppress(ValueError), task.forgetting(everything=True):
            _read(task, values, "own")
            if fails:
                raise ValueError
        with task.forgetting() as kept:
            a = _read(task, values, "a")
            kept.append(a)
        c = _read(task, values, "c")
        _write(task, values, "b", a + 10 * c)

    def writes(task: Task, values: dict[str, int]) -> None:
        for name, value in (("a", 1), ("a", 0), ("c", 1)):
            _write(task, values, name, value)

    _compare([tidies, writes])


def test_after_a_part_is_not_after_all_that_is_forgotten() -> None:
    def forgets(task: Task, values: dict[str, int]) -> None:
        with task.forgetting() as kept:
            with task.forgetting() as within:
                _write(task, values, "a", 1)
                within.append(0)
            if _read(task, values, "b"):
                return
            kept.append(0)
        _write(task, values, "b", 6)

    def writes(task: Task, values: dict[str, int]) -> None:
        _write(task, values, "b", 1)

    _compare([forgets, writes])


def test_what_is_seen_one_after_the_other_is_told_apart() -> None:
    """One and twenty-three is not twelve and three."""

    def looks(task: Task, values: dict[str, int]) -> None:
        task.reach("look", Footprint(reads={"a", "b"}))
        a, b = values.get("a", 1), values.get("b", 23)
        task.see(a)
        task.see(b)
        _write(task, values, "end", a * 1000 + _read(task, values, "c"))

    def writes(task: Task, values: dict[str, int]) -> None:
        task.reach("exchange", Footprint(writes={"a", "b"}))
        values.update(a=12, b=3)
        task.reach("exchange", Footprint(writes={"a", "b", "c"}))
        values.update(a=1, b=23, c=1)

    _compare([looks, writes])


def test_a_run_is_stopped_where_others_went_on() -> None:
    memory = Memory()
    traces = list(StateGraph(memory.scheduler([("read", "a")] * 3, [("write", "a")] * 3)))
    assert any(trace.stopped for trace in traces)
    assert not traces[0].stopped
