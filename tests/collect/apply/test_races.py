"""Other instances at work inside an apply: they fail, or what they need survives."""

from __future__ import annotations

import pytest

from reclaim.catalog import Repository
from reclaim.catalog.database.schema import CommitState
from reclaim.errors import Gone, ReclaimError, TransactionFailed
from tests.collect.helpers.changes import CHANGES, Change, a_branch, assert_gone
from tests.collect.helpers.world import At, Past, World, bury, commit_states, stepped, whole

pytestmark = pytest.mark.repeats(first=4)


class Racing:
    """An action of another instance at a step of an apply, and what became of it."""

    def __init__(self, world: World, past: Past, action: Change) -> None:
        self._repo = world.other()
        self._past = past
        self._action = action
        self.error: ReclaimError | None = None

    def __call__(self) -> None:
        try:
            self._action(self._repo, self._past)
        except (TransactionFailed, Gone) as error:
            self.error = error


def a_put(repo: Repository, past: Past) -> None:
    repo.branch("work").put("new", b"new")


def an_upload(repo: Repository, past: Past) -> None:
    branch = repo.branch("work")
    address = branch.get_physical_address("up")
    repo._workspace.storage.put(address.address, b"uploaded")
    branch.link_physical_address("up", address)


def a_move_and_a_commit(repo: Repository, past: Past) -> None:
    repo.branch("work").move("a", "z")
    repo.branch("work").commit("moved")


def a_deleted_branch(repo: Repository, past: Past) -> None:
    repo.delete_branch("work")


RACES: dict[str, Change] = {
    name: action
    for name, (action, _) in CHANGES.items()
    if name not in ("nothing", "a branch at the older")
} | {
    "a put": a_put,
    "an upload": an_upload,
    "a move and a commit": a_move_and_a_commit,
    "a deleted branch": a_deleted_branch,
}

POINTS: dict[str, tuple[str, int]] = {
    "before it begins": ("before begin", 1),
    "before the first look": ("before observe", 1),
    "before the marks": ("before condemn", 1),
    "after the marks": ("after condemn", 1),
    "after the last look": ("after observe", 2),
    "before the release": ("before release", 1),
    "while confirming": ("confirm", 1),
    "before the promotion": ("before promote", 1),
    "after the promotion": ("after promote", 1),
    "before the ranges go": ("sweep range", 1),
    "before the metaranges go": ("sweep metarange", 1),
    "before the rows go": ("before collect", 1),
    "at the end": ("after finish", 6),
}


DECIDING = ("before the first look", "after the marks", "after the last look", "while confirming")
MATRIX = [
    (name, point)
    for name in RACES
    for point in POINTS
    if point in DECIDING or name in ("a branch", "a lease", "a branch that goes again")
]


@pytest.mark.parametrize(("name", "point"), MATRIX)
def test_a_race_inside_apply(local: World, name: str, point: str) -> None:
    race(local, name, point)


@pytest.mark.parametrize("point", DECIDING[1:])
@pytest.mark.parametrize("name", ["a branch", "a lease", "a branch that goes again"])
def test_a_race_inside_apply_on_servers(world: World, name: str, point: str) -> None:
    race(world, name, point)


def race(world: World, name: str, point: str) -> None:
    """The other instance fails with a clear error, or everything that it needs survives."""
    past = bury(world)
    plan = world.plan()
    racing = Racing(world, past, RACES[name])
    step, nth = POINTS[point]
    at = At(step, racing, nth=nth)
    before = world.there()

    world.apply(plan, step=at, store=stepped(world.store(), at))

    assert at.done
    world.check()
    gone = before - world.there()
    assert gone <= set(world.candidates(plan))
    if racing.error is None and name in CHANGES:
        back = CHANGES[name][1]
        for commit in (getattr(past, which) for which in back):
            assert whole(world.other(), commit) == past.files[commit]
    assert CommitState.PROVISIONAL not in commit_states(world.repo).values()
    world.quiet()


def test_every_point_is_reached_and_some_races_are_lost(local: World) -> None:
    """The table above is not empty words: the order of an apply, step by step."""
    bury(local)
    seen: list[str] = []
    plan = local.plan()
    local.apply(plan, step=seen.append, store=stepped(local.store(), seen.append))
    steps = list(POINTS.values())
    at = [[n for n, s in enumerate(seen) if s == step][nth - 1] for step, nth in steps]
    assert at == sorted(at)
    assert seen.count("after observe") == 2


def test_a_race_that_comes_too_late_is_lost(local: World) -> None:
    past = bury(local)
    plan = local.plan()
    racing = Racing(local, past, a_branch)
    at = At("after condemn", racing)
    local.apply(plan, store=stepped(local.store(), at))
    assert isinstance(racing.error, Gone | TransactionFailed)
    assert_gone(local, past.second)
