"""What a plan of lifecycle rules takes, on the plain engine."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reclaim.errors import InvalidInput
from reclaim.stores.observation import Margins
from tests.collect.helpers.world import World
from tests.lifecycle.ruled import Rules, expected, held, plan_rules, section

LOGS: Rules = {"logs": {"prefix": "logs/", "days": 3}}


@pytest.fixture
def old(local: World) -> World:
    """Logs of a week, one a day, and something else."""
    local.margins = Margins(objects=timedelta(0))
    with local.opened() as catalog:
        main = catalog.repository("sales").branch("main")
        for day in range(7):
            main.put(f"logs/{day}", f"log {day}".encode())
            main.put(f"data/{day}", f"data {day}".encode())
            main.commit(f"day {day}")
            local.clock.advance(days=1)
    return local


def paths(world: World, addresses: set[str]) -> set[str]:
    tree = world.other().at("main")
    return {entry.path for entry in tree.entries() if entry.address in addresses}


def test_what_is_old_under_the_prefix_goes(old: World) -> None:
    plan = plan_rules(old, LOGS)
    going = old.candidates(plan)
    assert paths(old, set(going)) == {f"logs/{day}" for day in range(5)}
    assert set(going.values()) == {"lifecycle rule logs"}
    assert set(going) == expected(old, LOGS)[0]
    assert section(plan).mode == "full"
    assert not held(old, plan)


def test_a_tag_holds_what_it_reaches(old: World) -> None:
    repo = old.other()
    repo.create_tag("v1", repo.log("main")[4].id)
    plan = plan_rules(old, LOGS)
    assert paths(old, set(old.candidates(plan))) == {"logs/3", "logs/4"}
    assert paths(old, set(held(old, plan))) == {"logs/0", "logs/1", "logs/2"}
    assert set(map(tuple, held(old, plan).values())) == {("the tag v1",)}


def test_a_copy_elsewhere_holds_an_address(old: World) -> None:
    with old.opened() as catalog:
        main = catalog.repository("sales").branch("main")
        main.copy("logs/1", "kept/1")
        main.commit("copy")
    old.clock.advance(hours=1)
    plan = plan_rules(old, LOGS)
    assert "logs/1" not in paths(old, set(old.candidates(plan)))
    assert list(held(old, plan).values()) == [["kept/1 on the branch main"]]


def test_rules_without_any_that_is_enabled_are_refused(local: World) -> None:
    with pytest.raises(InvalidInput, match="no enabled lifecycle rule"):
        plan_rules(local, {"logs": {"prefix": "logs/", "days": 3, "enabled": False}})


def test_applied_it_is_gone_and_a_second_run_finds_nothing(old: World) -> None:
    plan = plan_rules(old, LOGS)
    going = set(old.candidates(plan))
    old.apply(plan)
    assert not going & old.there()
    again = plan_rules(old, LOGS)
    assert section(again).mode == "incremental", section(again).why
    assert not old.candidates(again)
    assert section(again).ranges_read == 0
    full = plan_rules(old, LOGS, full=True)
    assert not old.candidates(full)
    assert section(full).gone == len(going)
