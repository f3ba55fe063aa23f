"""Condemned commits: nothing may name them and nobody may read them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reclaim.catalog import Branch, Repository
from reclaim.catalog.database.schema import CommitState
from reclaim.errors import Gone, InvalidInput, ReclaimError
from tests.catalog import raw

pytestmark = pytest.mark.repeats(first=4)

USES: dict[str, Callable[[Repository, str], object]] = {
    "create a branch": lambda repo, dead: repo.create_branch("again", dead),
    "create a tag": lambda repo, dead: repo.create_tag("again", dead),
    "merge": lambda repo, dead: repo.branch("main").merge(dead),
    "reset": lambda repo, dead: repo.branch("main").reset_to(dead),
    "revert": lambda repo, dead: repo.branch("main").revert(dead),
    "copy from": lambda repo, dead: repo.branch("main").copy("a", "b", source_ref=dead),
    "read": lambda repo, dead: repo.at(dead).get("a"),
    "list": lambda repo, dead: repo.at(dead).list(),
    "log": lambda repo, dead: list(repo.log(dead)),
    "diff": lambda repo, dead: list(repo.diff("main", dead)),
    "look up": lambda repo, dead: repo.commit(dead),
    "look up by prefix": lambda repo, dead: repo.commit(dead[:10]),
}


@pytest.fixture
def dead(repo: Repository, main: Branch) -> str:
    other = repo.create_branch("other")
    other.put("a", b"x")
    commit = other.commit("one").id
    repo.delete_branch("other")
    main.put("a", b"x")
    main.commit("the same on main")
    return commit


@pytest.mark.parametrize("use", USES)
def test_a_dead_commit_can_be_used_until_it_is_condemned(
    repo: Repository, dead: str, use: str
) -> None:
    USES[use](repo, dead)


@pytest.mark.remote_values(state=[CommitState.CONDEMNED])
@pytest.mark.parametrize("state", [CommitState.PROVISIONAL, CommitState.CONDEMNED])
@pytest.mark.parametrize("use", USES)
def test_a_condemned_commit_is_refused(
    repo: Repository, dead: str, use: str, state: CommitState
) -> None:
    raw.condemn(repo, dead, state)
    head = repo.commit("main").id
    with pytest.raises(ReclaimError) as caught:
        USES[use](repo, dead)
    assert isinstance(caught.value, Gone)
    assert "run-7" in str(caught.value)
    assert caught.value.details["rule"] == "expired after 30 days"
    assert repo.commit("main").id == head
    assert [ref.name for ref in repo.branches()] == ["main"]
    assert repo.tags() == []


def test_a_condemned_commit_does_not_make_a_prefix_ambiguous(
    repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    from reclaim.catalog.refs import committing

    uids = iter(["abcdef01" + "0" * 24, "abcdef02" + "0" * 24])
    monkeypatch.setattr(committing, "new_uid", lambda: next(uids))
    first = main.commit("one", allow_empty=True)
    second = main.commit("two", allow_empty=True)
    with pytest.raises(InvalidInput, match="several commits"):
        repo.commit("abcdef")
    raw.condemn(repo, first.id)
    assert repo.commit("abcdef") == second
    raw.condemn(repo, second.id)
    with pytest.raises(InvalidInput, match="several commits"):
        repo.commit("abcdef")
