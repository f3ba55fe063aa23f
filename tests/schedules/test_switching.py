"""Databases and storages under a scheduler: each of their calls is a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import permutations, product
from typing import Any

import pytest
from sqlalchemy import Connection, delete, insert, select

from reclaim.catalog.database.schema import catalog_info
from tests.schedules.exploring import scheduler
from tests.schedules.past import Pasts
from tests.support.scheduler import Scheduler, Task
from tests.support.state_graph import StateGraph
from tests.support.switching import SwitchingDatabase


def test_a_commit_writes_its_ranges_in_steps(pasts: Pasts) -> None:
    trace = scheduler(pasts.of(["commit"]), ["commit"]).run()
    written = [step.name for step in trace.steps if step.name.startswith("put ")]
    containers = [name for name in written if "/_reclaim/meta/" in name]
    ranges = 1
    assert len(containers) == ranges + 1


def test_a_plan_is_read_in_a_step_by_who_opens_its_folder(pasts: Pasts) -> None:
    trace = scheduler(pasts.of(["undo"]), ["undo"]).run()
    assert any(step.name == "get plan.json" for step in trace.steps)
    read = {name for step in trace.steps for name in step.footprint.reads}
    assert any(name.startswith("/repos/") and name.endswith("/plan.json") for name in read)


def test_to_flush_is_a_step(pasts: Pasts) -> None:
    trace = scheduler(pasts.of(["put"]), ["put"]).run()
    names = [step.name.partition(" ")[0] for step in trace.steps]
    assert names.index("flush") == names.index("put") + 1


@pytest.mark.parametrize("names", list(permutations(("reads", "writes"))))
def test_a_read_within_a_read_leaves_the_snapshot_of_the_outer_one(
    pasts: Pasts, names: tuple[str, str]
) -> None:
    past = pasts.of(["put"])

    def value(connection: Connection, key: str) -> Any:
        found = select(catalog_info.c.value).where(catalog_info.c.key == key)
        return connection.execute(found).scalar()

    def reads(database: SwitchingDatabase) -> None:
        with database.read() as outer:
            value(outer, "other")
            with database.read() as inner:
                y = value(inner, "y")
            x = value(outer, "x")
        with database.write() as connection:
            connection.execute(insert(catalog_info).values(key="end", value=f"{x} {y}"))

    def writes(database: SwitchingDatabase) -> None:
        with database.write() as connection:
            connection.execute(insert(catalog_info).values(key="x", value="1"))
        with database.write() as connection:
            connection.execute(delete(catalog_info).where(catalog_info.c.key == "x"))
            connection.execute(insert(catalog_info).values(key="y", value="1"))

    def prepare(tasks: Sequence[Task]) -> Sequence[Callable[[], Any]]:
        past.restore()
        works = []
        for task in tasks:
            database = past.databases[task.number]
            database.switch = task
            works.append(partial(reads if task.name == "reads" else writes, database))
        return works

    def end() -> str:
        with past.databases[0].read() as connection:
            return str(value(connection, "end"))

    graph = StateGraph(Scheduler(names, prepare, state_of=past.fingerprint))
    found = {end() for trace in graph if not trace.stopped}
    tasks = Scheduler(names, prepare, state_of=past.fingerprint)
    every = set()
    for schedule in product((0, 1), repeat=5):
        tasks.run(schedule)
        every.add(end())
    assert found == every
    assert "1 1" in every
