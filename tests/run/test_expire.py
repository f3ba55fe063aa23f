"""Expire on a real catalog: the sample tree, conflicts, undo, and readers in the middle."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from reclaim.catalog import Branch, Repository
from reclaim.errors import Conflict, InvalidInput, MergeConflict, NotFound, Refused
from reclaim.policy import Policy, from_options
from reclaim.run.plan.decide import Decided
from reclaim.testing import FakeClock
from tests.catalog import raw
from tests.conftest import Backend
from tests.support.expiring import apply_expire, decide, expire, plan_expire, take_back
from tests.support.resting import Resting

START = datetime(2026, 1, 1, tzinfo=UTC)
TREE = {
    1: ("main", 0),
    2: ("main", 1),
    3: ("develop", 2),
    4: ("main", 2),
    5: ("main", 4),
    6: ("develop", 3),
    7: ("test", 6),
    8: ("qa", 7),
    9: ("test", 7),
    10: ("develop", 6),
    11: ("develop", 10),
    12: ("main", 5),
    13: ("main", 12),
    14: ("main", 13),
}
AFTER = {
    "main": [14, 13, 12, 0],
    "develop": [11, 10, 0],
    "test": [9, 0],
    "qa": [8, 0],
    "tag1": [3, 2, 1, 0],
    "tag2": [5, 4, 2, 1, 0],
}


def grow(repo: Repository, clock: FakeClock) -> dict[str, int]:
    """The sample tree: commit n is written on day n, and shows which one it is."""
    ids = {0: repo.commit("main").id}
    for number, (name, parent) in TREE.items():
        clock.set(START + timedelta(days=number))
        if name not in {ref.name for ref in repo.branches()}:
            repo.create_branch(name, ids[parent])
        branch = repo.branch(name)
        assert repo.commit(name).id == ids[parent]
        branch.put(f"file-{number}", str(number).encode())
        ids[number] = branch.commit(str(number)).id
        if number in (3, 5):
            repo.create_tag("tag1" if number == 3 else "tag2", name)
    return {commit: number for number, commit in ids.items()}


_grown: dict[str, tuple[Resting, dict[str, int]]] = {}
"""The sample tree, which is grown once a process on each back end."""


@pytest.fixture
def grown(backend: Backend) -> tuple[Repository, dict[str, int]]:
    if backend.name not in _grown:
        numbers = grow(backend.init().create_repository("sales"), backend.clock)
        _grown[backend.name] = (Resting(backend), numbers)
    resting, numbers = _grown[backend.name]
    return resting.restore(backend).repository("sales"), dict(numbers)


@pytest.fixture
def repo(grown: tuple[Repository, dict[str, int]]) -> Repository:
    """A repository with the sample tree."""
    return grown[0]


@pytest.fixture
def numbers(grown: tuple[Repository, dict[str, int]]) -> dict[str, int]:
    """The number of each commit of the sample tree."""
    return grown[1]


def shape(repo: Repository, numbers: dict[str, int]) -> dict[str, list[int]]:
    """The log of every ref, by the numbers of the commits."""
    names = [ref.name for ref in (*repo.branches(), *repo.tags())]
    return {name: [numbers[commit.id] for commit in repo.log(name)] for name in names}


SEVEN_DAYS = from_options(older_than="2026-01-09")


def run(repo: Repository, policy: Policy = SEVEN_DAYS, *refs: str, tags: bool = False) -> Decided:
    decided = decide(repo, policy, refs=refs, delete_expired_tags=tags).decided
    expire(repo, policy, refs=refs, delete_expired_tags=tags)
    return decided


def test_the_sample_tree_in_one_run(repo: Repository, numbers: dict[str, int]) -> None:
    plan = run(repo)
    assert shape(repo, numbers) == AFTER
    assert {numbers[found] for found in plan.released()} == {6, 7}
    assert [ref.name for ref in plan.edit.expired_tips] == ["tag1", "tag2"]
    marked = {numbers[c.id] for name in AFTER for c in repo.log(name) if c.marked}
    assert marked == {12, 10, 9, 8}
    for number in (14, 9, 8, 3, 5):
        commit = next(c for c, n in numbers.items() if n == number)
        assert repo.at(commit).get(f"file-{number}") == str(number).encode()


@pytest.mark.parametrize(
    "order",
    [
        ("main", "develop", "test", "qa", "tag1", "tag2"),
        *itertools.islice(
            itertools.permutations(["main", "develop", "test", "qa", "tag1", "tag2"]), 100, 720, 150
        ),
    ],
)
def test_the_sample_tree_ref_by_ref(
    repo: Repository, numbers: dict[str, int], order: tuple[str, ...]
) -> None:
    for name in order:
        before = shape(repo, numbers)
        run(repo, SEVEN_DAYS, name)
        after = shape(repo, numbers)
        assert after[name] == AFTER[name]
        for other in set(AFTER) - {name}:
            assert after[other] in (before[other], AFTER[other])
    assert shape(repo, numbers) == AFTER


def test_expired_tags_go_on_request(repo: Repository, numbers: dict[str, int]) -> None:
    plan = run(repo, tags=True)
    assert repo.tags() == []
    assert {numbers[found] for found in plan.released()} == {1, 2, 3, 4, 5, 6, 7}


def test_a_plan_changes_nothing_and_a_second_run_finds_nothing(
    repo: Repository, numbers: dict[str, int]
) -> None:
    before = shape(repo, numbers)
    plan_expire(repo, SEVEN_DAYS)
    assert shape(repo, numbers) == before
    assert repo.runs() == []
    run(repo)
    again = plan_expire(repo, SEVEN_DAYS)
    assert not again.document.edits_history
    assert apply_expire(repo, again) is None
    # As of any plan, also of one that had nothing to do.
    assert sorted(bool(recorded.edit.counts) for recorded in repo.runs()) == [False, True]


def test_every_decision_has_a_reason(repo: Repository) -> None:
    decisions = list(decide(repo, SEVEN_DAYS).decided.reached())
    assert len(decisions) == 15
    assert all(decision.reasons for decision in decisions)


def test_undo_takes_it_back(repo: Repository, numbers: dict[str, int]) -> None:
    before = shape(repo, numbers)
    run(repo, tags=True)
    [recorded] = repo.runs()
    assert take_back(repo, recorded.id) == []
    assert shape(repo, numbers) == before
    assert not any(commit.marked for name in AFTER for commit in repo.log(name))
    assert repo.runs()[0].phase == "undone"
    with pytest.raises(Conflict, match="undone already"):
        take_back(repo, recorded.id)
    with pytest.raises(NotFound):
        take_back(repo, "nothing")


def test_undo_leaves_what_has_changed_since(repo: Repository, clock: FakeClock) -> None:
    run(repo, from_options(older_than="2026-01-09", keep_merge_bases=True), tags=True)
    [first] = repo.runs()
    repo.create_branch("tag1", "main")
    clock.advance(days=1)
    run(repo)
    second = repo.runs()[0]
    # It edited the same commits, and can be undone itself.
    with pytest.raises(Refused, match=second.id):
        take_back(repo, first.id)
    take_back(repo, second.id)
    assert "the tag tag1" in take_back(repo, first.id)
    assert [ref.name for ref in repo.tags()] == ["tag2"]


def test_undo_is_refused_once_something_is_being_collected(
    repo: Repository, numbers: dict[str, int]
) -> None:
    run(repo)
    after = shape(repo, numbers)
    raw.condemn(repo, next(commit for commit, number in numbers.items() if number == 6))
    with pytest.raises(Refused, match="cannot be undone"):
        take_back(repo, repo.runs()[0].id)
    assert shape(repo, numbers) == after


def test_two_expirations_at_once(
    backend: Backend, repo: Repository, numbers: dict[str, int]
) -> None:
    other = backend.open().repository("sales")
    mine = plan_expire(repo, SEVEN_DAYS)
    theirs = plan_expire(other, from_options(older_than="2026-01-09", keep_merge_bases=True))
    same = plan_expire(other, SEVEN_DAYS)
    apply_expire(repo, mine)
    # Of what it let go, only 1 is still there.
    apply_expire(other, theirs)
    both = AFTER | {"tag1": [3, 2, 0], "tag2": [5, 4, 2, 0]}
    assert shape(repo, numbers) == both
    assert apply_expire(other, same) is None
    assert shape(repo, numbers) == both


def test_new_commits_and_refs_do_not_disturb_an_edit(
    repo: Repository, numbers: dict[str, int], clock: FakeClock
) -> None:
    plan = plan_expire(repo, SEVEN_DAYS)
    clock.advance(days=1)
    repo.branch("main").put("later", b"x")
    later = repo.branch("main").commit("later").id
    repo.create_branch("revived", next(c for c, n in numbers.items() if n == 7))
    apply_expire(repo, plan)
    numbers[later] = 15
    new = {"main": [15, 14, 13, 12, 0], "revived": [7, 6, 3, 2, 1, 0]}
    assert shape(repo, numbers) == AFTER | new


@pytest.mark.parametrize("how", ["moved", "staged", "pending"])
def test_a_branch_in_use_is_not_deleted(repo: Repository, how: str) -> None:
    qa = repo.branch("qa")
    all_old = from_options(older_than="2026-01-11")
    plan = plan_expire(repo, all_old, delete_expired_branches=True)
    assert "qa" in plan.document.deleted_refs
    if how == "pending":
        qa.get_physical_address("upload")
    else:
        qa.put("new", b"x")
    if how == "moved":
        qa.commit("new")
    run = apply_expire(repo, plan)
    assert run is not None
    assert "qa" not in run.edit.counts.deleted_refs
    assert "qa" in [ref.name for ref in repo.branches()]
    if how != "moved":
        again = plan_expire(repo, all_old, delete_expired_branches=True)
        assert "qa" not in again.document.deleted_refs


def test_deleted_branches_come_back(repo: Repository, numbers: dict[str, int]) -> None:
    before = shape(repo, numbers)
    plan = plan_expire(repo, from_options(older_than="2026-01-11"), delete_expired_branches=True)
    apply_expire(repo, plan)
    assert plan.document.deleted_refs == ["qa", "test"]
    take_back(repo, repo.runs()[0].id)
    assert shape(repo, numbers) == before


def test_a_reader_of_pages_gets_one_history_or_a_conflict(
    repo: Repository, numbers: dict[str, int]
) -> None:
    whole, after = [], ""
    while True:
        page, after = repo.log_page("main", after=after, limit=2)
        whole += [numbers[commit.id] for commit in page]
        if not after:
            break
    assert whole == [14, 13, 12, 5, 4, 2, 1, 0]
    _, after = repo.log_page("main", limit=3)
    repo.branch("main").put("later", b"x")
    repo.branch("main").commit("a new tip does not matter")
    assert [numbers[c.id] for c in repo.log_page("main", after=after, limit=2)[0]] == [5, 4]
    run(repo)
    with pytest.raises(Conflict, match="edited since"):
        repo.log_page("main", after=after)
    with pytest.raises(InvalidInput):
        repo.log_page("main", after="7")


def test_a_merge_over_a_touched_base_is_careful(repo: Repository, clock: FakeClock) -> None:
    plan = run(repo)
    assert {base.branch for base in plan.edit.touched_bases} == {"develop", "qa", "test"}
    clock.advance(days=1)
    with pytest.raises(MergeConflict):
        repo.branch("main").merge("develop")


def test_merge_bases_can_be_kept(repo: Repository, numbers: dict[str, int]) -> None:
    plan = run(repo, from_options(older_than="2026-01-09", keep_merge_bases=True))
    assert {numbers[found] for found in plan.edit.kept_bases} == {2}
    assert 2 in shape(repo, numbers)["develop"]


def test_no_rule_is_refused(repo: Repository) -> None:
    with pytest.raises(InvalidInput, match="no rule"):
        plan_expire(repo, Policy())
    with pytest.raises(NotFound, match="no branch or tag"):
        plan_expire(repo, SEVEN_DAYS, refs=["nothing"])


def test_contents_ids_and_times_stay(repo: Repository, main: Branch) -> None:
    before = {c.id: (c.written_at, c.metarange, c.message) for c in repo.log("main")}
    run(repo)
    for commit in repo.log("main"):
        assert before[commit.id] == (commit.written_at, commit.metarange, commit.message)
