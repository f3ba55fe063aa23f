"""Expressions that name a commit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import insert, select

from reclaim.catalog import Branch, Repository
from reclaim.catalog.database.schema import commits
from reclaim.errors import InvalidInput, NotFound
from tests.catalog.saving import put_and_commit


@pytest.fixture
def history(repo: Repository, main: Branch) -> dict[str, str]:
    """origin ← one ← two ← merge, with side (from one) as the merge's second parent."""
    ids = {"origin": repo.commit("main").id}
    ids["one"] = put_and_commit(main, b"1").id
    side = repo.create_branch("side")
    side.put("s", b"s")
    ids["side"] = side.commit("side").id
    ids["two"] = put_and_commit(main, b"2").id
    ids["merge"] = main.merge("side").id
    return ids


def test_expressions_walk_from_a_ref_to_its_ancestors(
    repo: Repository, history: dict[str, str]
) -> None:
    repo.create_tag("v1", "main")
    table = {
        "main": "merge",
        "v1": "merge",
        "main~0": "merge",
        "main^0": "merge",
        "main~": "two",
        "main^": "two",
        "main~1": "two",
        "main^1": "two",
        "main^2": "side",
        "main~2": "one",
        "main^^": "one",
        "main~~": "one",
        "main^2^": "one",
        "main^2~2": "origin",
        "main~3": "origin",
        "side~2": "origin",
        history["merge"] + "^2": "side",
        history["merge"][:6] + "~1": "two",
    }
    assert {text: repo.commit(text).id for text in table} == {
        text: history[name] for text, name in table.items()
    }


def test_expressions_beyond_the_history_are_not_found(
    repo: Repository, history: dict[str, str]
) -> None:
    for text in (
        "main~4",
        "main^3",
        "side^2",
        "main~99999999",
        "main^^^^",
        history["origin"] + "~",
    ):
        with pytest.raises(NotFound):
            repo.commit(text)


def test_what_is_no_expression_is_refused(repo: Repository) -> None:
    for text in ("", "~", "^1", "~1^2", "main~x", "main~1x", "main^-1", "main ~1"):
        with pytest.raises((InvalidInput, NotFound)):
            repo.commit(text)


def test_an_absurd_number_in_an_expression_is_refused(repo: Repository) -> None:
    for number in ("9" * 30, "9" * 5_000):
        for sign in "~^":
            with pytest.raises((InvalidInput, NotFound)):
                repo.commit(f"main{sign}{number}")


def test_the_beginning_of_an_id_must_be_long_enough_and_clear(
    repo: Repository, main: Branch
) -> None:
    first = put_and_commit(main, b"1")
    assert repo.commit(first.id[:6]) == first
    assert repo.commit(first.id) == first
    for text in (first.id[:5], first.id[:6].upper() + "X", first.id + "0"):
        with pytest.raises(NotFound):
            repo.commit(text)
    twin = replace(first, id=first.id[:10] + ("0" if first.id[10] != "0" else "1") * 22)
    with repo._workspace.database.write() as connection:
        row = connection.execute(select(commits).where(commits.c.id == first.id)).mappings().one()
        connection.execute(insert(commits).values({**row, "id": twin.id}))
    with pytest.raises(InvalidInput, match=f"several commits start with {first.id[:10]}"):
        repo.commit(first.id[:10])
    assert repo.commit(first.id[:11]) == first
    assert repo.commit(twin.id[:11]) == twin


def test_a_ref_goes_before_the_beginning_of_an_id(repo: Repository, main: Branch) -> None:
    first = put_and_commit(main, b"1")
    repo.create_branch(first.id[:8], "main~1")
    assert repo.commit(first.id[:8]) == repo.commit("main~1")
    assert repo.commit(first.id[:9]) == first
