"""What is read is counted where it is read, and compared with what was counted elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from sqlalchemy import Connection

from reclaim.catalog.collection.edit import history_edit
from reclaim.catalog.collection.edit.history_edit import HistoryRead
from reclaim.catalog.collection.roots import observing
from reclaim.catalog.workspace import Workspace
from reclaim.errors import IncompleteRead
from reclaim.policy import Policy, Rules
from tests.collect.helpers.refusing import refused
from tests.collect.helpers.world import Past, World, bury, commit_states
from tests.support.expiring import plan_expire

Read = Callable[..., HistoryRead]


def losing(lost: str) -> Read:
    """The reader of the history, with a mistake: it loses a commit and what names it."""
    read = history_edit.history

    def history(
        connection: Connection, workspace: Workspace, default_branch: str, *, messages: bool = False
    ) -> HistoryRead:
        whole = read(connection, workspace, default_branch, messages=messages)
        return replace(
            whole,
            snapshots=tuple(one for one in whole.snapshots if one.id != lost),
            refs=tuple(ref for ref in whole.refs if ref.snapshot != lost),
        )

    return history


@pytest.fixture
def tagged(local: World) -> tuple[Past, str]:
    """A past, and a commit that a tag alone holds."""
    past = bury(local)
    repo = local.other()
    repo.create_tag("release", past.second)
    local.age()
    return past, past.second


def test_commits_are_counted_by_the_database(local: World, tagged: tuple[Past, str]) -> None:
    plan = local.plan()
    standing = list(commit_states(local.repo).values()).count("live")
    assert plan.document.expected.snapshots == plan.document.read.snapshots == standing


def test_a_plan_that_misses_a_commit(
    local: World, tagged: tuple[Past, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_edit, "history", losing(tagged[1]))
    with refused(local, IncompleteRead, 6):
        local.plan()


def test_an_apply_that_misses_a_commit(
    local: World, tagged: tuple[Past, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = local.plan()
    monkeypatch.setattr(history_edit, "history", losing(tagged[1]))
    with refused(local, IncompleteRead, 6):
        local.apply(plan)


def test_an_expiration_that_misses_a_commit(
    local: World, tagged: tuple[Past, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history_edit, "history", losing(tagged[1]))
    with pytest.raises(IncompleteRead):
        plan_expire(local.other(), Policy(default=Rules(keep_last=1)))


def test_a_commit_whose_containers_are_missed(
    local: World, tagged: tuple[Past, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    observe = observing.observe

    def losing_metaranges(*given: object, **named: object) -> observing.Roots:
        roots = observe(*given, **named)  # type: ignore[arg-type]
        kept = {one: at for one, at in roots.metaranges.items() if one != tagged[1]}
        return replace(roots, metaranges=kept)

    monkeypatch.setattr(observing, "observe", losing_metaranges)
    with refused(local, IncompleteRead, 6):
        local.plan()
