"""The scheduler itself: it finds races, repeats what it did, and leaves out only equal orders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from reclaim.errors import NotFound
from tests.support.exploring import Exploration, crashes
from tests.support.footprints import Footprint
from tests.support.scheduler import Died, Scheduler, Task, describe, parse


class Shelf:
    """A number that tasks read and write, each of it a step."""

    def __init__(self) -> None:
        self.values: dict[str, int] = {}

    def read(self, task: Task, name: str) -> int:
        task.reach(f"read {name}", Footprint(reads={name}))
        return self.values.get(name, 0)

    def write(self, task: Task, name: str, value: int) -> None:
        task.reach(f"write {name}", Footprint(writes={name}))
        self.values[name] = value

    def add(self, task: Task, name: str) -> None:
        self.write(task, name, self.read(task, name) + 1)


def adding(shelf: Shelf, *names: str) -> Scheduler:
    """One task for each name that adds one to the number of that name."""

    def prepare(tasks: Sequence[Task]) -> Sequence[Callable[[], Any]]:
        shelf.values.clear()
        return [partial(shelf.add, task, task.name) for task in tasks]

    return Scheduler(names, prepare)


def test_a_lost_update_is_found() -> None:
    shelf = Shelf()
    exploration = Exploration(adding(shelf, "a", "a"))
    sums = [shelf.values["a"] for _ in exploration]
    assert exploration.exhausted
    assert len(sums) == 6, "all orders of two steps and two"
    assert sorted(sums) == [1, 1, 1, 1, 2, 2]


def test_without_a_preemption_it_is_not() -> None:
    shelf = Shelf()
    exploration = Exploration(adding(shelf, "a", "a"), preemptions=0)
    assert [shelf.values["a"] for _ in exploration] == [2, 2]
    assert (exploration.reached, exploration.exhausted) == (0, False)


def test_tasks_that_share_nothing_are_not_interleaved() -> None:
    shelf = Shelf()
    exploration = Exploration(adding(shelf, "a", "b", "c"))
    assert len(list(exploration)) == 6, "who comes first, second and third"
    assert exploration.exhausted


def test_a_step_that_turns_up_late_is_reckoned_with() -> None:
    """One task reads more when another came first: only then is there a race."""
    shelf = Shelf()

    def prepare(tasks: Sequence[Task]) -> Sequence[Callable[[], Any]]:
        shelf.values.clear()
        first, second = tasks

        def look() -> None:
            if shelf.read(second, "flag"):
                shelf.add(second, "a")

        def raise_flag() -> None:
            shelf.write(first, "flag", 1)
            shelf.add(first, "a")

        return [raise_flag, look]

    exploration = Exploration(Scheduler(["raise", "look"], prepare))
    ends = {(len(trace.steps), shelf.values["a"]) for trace in exploration}
    assert ends == {(4, 1), (6, 2), (6, 1)}, "not seen, one after the other, and lost"
    assert exploration.exhausted


def test_a_schedule_is_repeated() -> None:
    shelf = Shelf()
    tasks = adding(shelf, "a", "a")
    for trace in Exploration(tasks):
        before = dict(shelf.values)
        again = tasks.run(parse(describe(trace.schedule)))
        assert again.schedule == trace.schedule
        assert shelf.values == before


def test_a_task_dies_at_each_step_and_does_nothing_after() -> None:
    shelf = Shelf()
    sums = [
        (isinstance(trace.results[0], Died), shelf.values["a"])
        for trace in crashes(adding(shelf, "a", "a"), 0)
    ]
    assert sums == [(True, 1), (True, 1), (False, 2)]


def test_an_error_of_ours_is_an_end_and_any_other_fails() -> None:
    def fails(error: Exception) -> Scheduler:
        def work() -> None:
            raise error

        return Scheduler(["one"], lambda _tasks: [work])

    assert fails(NotFound("gone")).run().outcome == "one: not_found"
    with pytest.raises(ZeroDivisionError):
        fails(ZeroDivisionError()).run()


def test_footprints_of_objects_and_listings() -> None:
    listing = Footprint(prefixes={"/repos/"})
    assert listing.conflicts(Footprint(writes={"/repos/a"}))
    assert not listing.conflicts(Footprint(reads={"/repos/a"}))
    assert not listing.conflicts(Footprint(writes={"/other"}))


def test_footprints_of_statements() -> None:
    footprint = Footprint()
    footprint.add_statement("UPDATE ledger SET state=? WHERE ledger.address IN (SELECT 1)")
    footprint.add_statement("SELECT staged_entries.path \nFROM staged_entries JOIN staging_tokens")
    assert footprint.writes == {"ledger"}
    assert footprint.reads == {"ledger", "staged_entries", "staging_tokens"}
    footprint.add_statement("INSERT OR IGNORE INTO claimed_addresses (address) SELECT ?")
    assert footprint.writes == {"ledger", "claimed_addresses"}


def test_a_sample_interrupts_each_task() -> None:
    shelf = Shelf()
    every = list(Exploration(adding(shelf, "a", "a"), preemptions=1))
    some = list(Exploration(adding(shelf, "a", "a"), preemptions=1, enough=2, sample=2))
    assert (len(every), len(some)) == (4, 4)
    few = list(Exploration(adding(shelf, "a", "a"), preemptions=1, enough=2, sample=1))
    assert len(few) == 3


def test_a_step_in_another_thread_is_an_error() -> None:
    """It would be in no order: nobody could switch before it."""

    def prepare(tasks: Sequence[Task]) -> Sequence[Callable[[], Any]]:
        def work() -> None:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(tasks[0].reach, "hidden", Footprint()).result()

        return [work]

    with pytest.raises(AssertionError, match="another thread: hidden"):
        Scheduler(["works"], prepare).run()


def test_a_step_within_a_transaction_that_keeps_nothing_is_an_error() -> None:
    def prepare(tasks: Sequence[Task]) -> Sequence[Callable[[], Any]]:
        def work() -> None:
            tasks[0].holds = 1
            tasks[0].reach("wait", Footprint())

        return [work]

    with pytest.raises(AssertionError, match="keeps nothing: wait"):
        Scheduler(["works"], prepare).run()
