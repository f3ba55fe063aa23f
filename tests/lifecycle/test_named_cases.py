"""Cases of lifecycle rules by name, decided by whatever run comes next and by the oracle."""

from __future__ import annotations

import pytest

from reclaim.errors import TooMuch
from tests.collect.helpers.world import NAME, World
from tests.lifecycle.logs import LOGS, OLD, week
from tests.lifecycle.ruled import Rules, expected, held, plan_rules, section


@pytest.fixture
def logs(local: World) -> World:
    return week(local)


def going(world: World, rules: Rules) -> set[str]:
    """The paths on main that go, by whatever run comes next; the oracle says the same."""
    found = set(world.candidates(plan_rules(world, rules)))
    assert found == expected(world, rules)[0]
    return {entry.path for entry in world.other().at("main").entries() if entry.address in found}


def test_the_example_of_deduplications(local: World) -> None:
    week(local)
    with local.opened() as catalog:
        main = catalog.repository(NAME).branch("main")
        for path, data in (("foo/bar/a", b"1"), ("foo/bar/b", b"4"), ("foo/tar/b", b"2")):
            main.put(path, data)
        main.commit("objects")
        main.copy("foo/bar/a", "foo/tar/a")
        main.copy("foo/tar/b", "foo/other/c")
        main.commit("copies")
    local.clock.advance(days=5)
    rules = {"bar": {"prefix": "foo/bar", "days": 2}, "tar": {"prefix": "foo/tar", "days": 2}}
    address = {e.path: e.address for e in local.other().at("main").entries()}
    plan = plan_rules(local, rules)
    assert set(local.candidates(plan)) == {address["foo/bar/a"], address["foo/bar/b"]}
    assert held(local, plan) == {address["foo/tar/b"]: ["foo/other/c on the branch main"]}


def test_a_branch_with_a_longer_rule_created_at_an_old_commit(logs: World) -> None:
    rules: Rules = {"logs": {"prefix": "logs/", "days": 3, "branch_days": {"archive": 100}}}
    assert going(logs, rules) == OLD
    logs.apply(plan_rules(logs, rules))
    logs.clock.advance(days=1)
    assert going(logs, rules) == {"logs/5"}
    repo = logs.other()
    repo.create_branch("archive", repo.log("main")[0].id)
    assert going(logs, rules) == set()
    plan = plan_rules(logs, rules)
    assert section(plan).mode == "incremental"
    assert list(held(logs, plan).values()) == [["logs/5 on the branch archive"]]
    repo.delete_branch("archive")
    logs.apply(plan)
    # It was held, so it is looked at again although nothing else tells of it.
    assert going(logs, rules) == {"logs/5"}


def test_a_branch_without_any_rule_holds(logs: World) -> None:
    repo = logs.other()
    repo.create_branch("free", repo.log("main")[4].id)
    rules: Rules = {"logs": {"prefix": "logs/", "branch_days": {"main": 3}}}
    assert going(logs, rules) == {"logs/3", "logs/4"}


def test_a_policy_made_stricter_looser_and_stricter_again(logs: World) -> None:
    def by(days: int) -> Rules:
        return {"logs": {"prefix": "logs/", "days": days}}

    logs.apply(plan_rules(logs, by(5)))
    assert going(logs, by(3)) == {"logs/3", "logs/4"}
    logs.apply(plan_rules(logs, by(4)))
    assert going(logs, by(6)) == set()
    logs.apply(plan_rules(logs, by(6)))
    assert going(logs, by(3)) == {"logs/4"}
    assert going(logs, by(2)) == {"logs/4", "logs/5"}


def test_a_rule_that_is_disabled_and_enabled(logs: World) -> None:
    off = {"logs": {"prefix": "logs/", "days": 3, "enabled": False}}
    data: Rules = {"data": {"prefix": "data/", "days": 6}}
    logs.apply(plan_rules(logs, {**off, **data}))
    assert going(logs, {**LOGS, **data}) == OLD
    logs.apply(plan_rules(logs, {**LOGS, **data}))
    assert going(logs, {**off, **data}) == set()
    logs.clock.advance(days=1)
    assert going(logs, {**LOGS, **data}) == {"logs/5", "data/2"}


def test_nested_prefixes_and_the_empty_one(logs: World) -> None:
    assert going(logs, {"all": {"prefix": "", "days": 6}}) == {
        f"{folder}/{day}" for folder in ("logs", "data") for day in range(2)
    }
    nested: Rules = {"all": {"prefix": "", "days": 6}, "some": {"prefix": "logs/1", "days": 50}}
    # Any rule that matches is enough: a longer one does not keep.
    assert going(logs, nested) == going(logs, {"all": {"prefix": "", "days": 6}})


def test_a_rule_for_a_branch_that_does_not_exist_takes_nothing(logs: World) -> None:
    assert going(logs, {"none": {"prefix": "", "branch_days": {"nowhere": 1}}}) == set()


def test_nearly_everything_needs_a_word_from_a_person(logs: World) -> None:
    with pytest.raises(TooMuch, match="90 %"):
        plan_rules(logs, {"all": {"prefix": "", "days": 1}}, allowed_fraction=0.9)


def test_a_day_later_little_is_read(logs: World) -> None:
    logs.apply(plan_rules(logs, LOGS))
    with logs.opened() as catalog:
        main = catalog.repository(NAME).branch("main")
        main.put("logs/new", b"new")
        main.commit("new")
    logs.clock.advance(days=1)
    plan, full = (plan_rules(logs, LOGS, full=full) for full in (False, True))
    assert section(plan).metaranges_read == 1
    assert section(plan).ranges_read < section(full).ranges_read / 2
    assert logs.candidates(plan) == logs.candidates(full)


def test_a_tag_does_not_make_it_read_the_index(logs: World) -> None:
    logs.apply(plan_rules(logs, LOGS))
    logs.other().create_tag("v1", "main")
    plan = plan_rules(logs, LOGS)
    assert section(plan).mode == "incremental"
    assert section(plan).ranges_read == 0
    assert not logs.candidates(plan)
