"""Every command says the same of a policy: how many commits expire, and what holds some of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from reclaim.catalog import Catalog
from reclaim.cli.views.describe import expired
from reclaim.history import Holder
from tests.cli.conftest import CommandLine

pytestmark = pytest.mark.usefixtures("plain")
SAID = (
    "6 commits lose their rule; 5 of them stay because branch dev (3 commits) and tag release "
    "(2 commits) hold them."
)
HELD = [
    {"kind": "branch", "ref": "dev", "run": None, "until": None, "commits": 3},
    {"kind": "tag", "ref": "release", "run": None, "until": None, "commits": 2},
]


@pytest.fixture
def rules(cli: CommandLine, catalog: Catalog) -> tuple[str, ...]:
    """Rules by which a tag and a branch are at expired commits, which both reach the oldest."""
    repo = catalog.repository("sales")
    main = repo.branch("main")
    ids = []
    for number in range(4):
        main.put("a", str(number).encode())
        ids.append(main.commit(f"commit {number}").id)
    repo.create_tag("release", ids[2])
    dev = repo.create_branch("dev", ids[0])
    for number in range(2):
        dev.put("b", str(number).encode())
        dev.commit(f"dev {number}")
    bound = datetime.now(UTC)
    main.put("a", b"new")
    main.commit("new")
    return ("--older-than", bound.isoformat())


def numbers(document: Any) -> Any:
    return document["expired"], document["held_by"]


def test_all_commands_count_alike(cli: CommandLine, rules: tuple[str, ...]) -> None:
    expire = cli.ok("plan", "sales", "--history-only", *rules, "--json").json
    assert numbers(expire) == (6, HELD)
    assert expire["history"]["released"] == expire["commits"]["going"] == 1
    plan = cli.ok("plan", "sales", *rules, "--json").json
    show = cli.ok("show", plan["plan"], "--json").json
    cli.ok("policy", "set", "sales", *rules)
    explain = cli.ok("policy", "explain", "sales", "--json").json
    gc = cli.ok("gc", "sales", "--json").json["stores"][0]
    assert [numbers(answer) for answer in (plan, show, explain, gc)] == [(6, HELD)] * 4


def test_people_read_the_same_sentence(cli: CommandLine, rules: tuple[str, ...]) -> None:
    cli.ok("policy", "set", "sales", *rules)
    plan = cli.ok("plan", "sales", "--json").json["plan"]
    said = [
        cli.ok("plan", "sales", "--history-only").out,
        cli.ok("plan", "sales").out,
        cli.ok("show", plan).out,
        cli.ok("policy", "explain", "sales").out,
    ]
    for text in said:
        assert SAID in text
    assert SAID.rstrip(".") in cli.ok("gc", "sales").out


def test_one_ref_is_explained_by_what_it_reaches(cli: CommandLine, rules: tuple[str, ...]) -> None:
    cli.ok("policy", "set", "sales", *rules)
    explained = cli.ok("policy", "explain", "sales", "release", "--json").json
    assert explained["expired"] == 3
    # The oldest counts for the branch, whose tip is newer.
    assert {one["ref"]: one["commits"] for one in explained["held_by"]} == {"dev": 1, "release": 2}


def test_an_undo_is_named(cli: CommandLine, rules: tuple[str, ...]) -> None:
    [done] = cli.ok("gc", "sales", "--history-only", *rules, "--json").json["stores"]
    run = done["run"]
    undone = cli.ok("undo", run).out
    assert "No run deletes the restored data before" in undone
    release = f"reclaim lease release sales --holder 'undo of run {run}'"
    assert f"To end this hold: {release}" in undone
    planned = cli.ok("plan", "sales", *rules).out
    assert f"the undo of run {run} (" in planned
    assert release in planned
    cli.ok("policy", "set", "sales", *rules)
    assert f"the undo of run {run} (" in cli.ok("gc", "sales").out
    cli.ok("lease", "release", "sales", "--holder", f"undo of run {run}")
    assert numbers(cli.ok("plan", "sales", *rules, "--json").json) == (6, HELD)


def test_the_smaller_holders_are_counted() -> None:
    holders = [Holder("tag", f"v{number}", 9 - number) for number in range(5)]
    assert expired(40, holders, "commit") == (
        "40 commits lose their rule; 35 of them stay because tag v0 (9 commits), tag v1 (8 "
        "commits), tag v2 (7 commits) and 2 more refs hold them."
    )
    assert expired(1, holders[:1], "layer").startswith("1 layer loses its rule; 9 of them")
    assert expired(0, (), "commit") == "0 commits lose their rule."
