"""What happens between a plan and its apply: nothing referenced goes, and nothing dangles.

Each test applies a plan that was made before something changed, and then reads everything back
through other instances. Of the plan, what is still garbage goes and nothing else.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from reclaim.catalog import Repository, committing
from reclaim.catalog.schema import CommitState
from reclaim.errors import Gone, ReclaimError, TokenExpired, TransactionFailed
from reclaim.policy import from_options
from reclaim.run.apply import apply_plan
from reclaim.run.plan import Plan, PlanOptions, make_plan
from reclaim.storage import ObjectStorage, Storage
from reclaim.stores.base import Margins
from reclaim.tasks.parts import Place, read_part
from reclaim.testing import ClockedStorage
from reclaim.testing.engine import PlainEngine
from reclaim.urls import normalize
from tests.collect.world import (
    NAME,
    At,
    Files,
    Interrupting,
    Past,
    World,
    bury,
    commit_states,
    stepped,
    whole,
)

Change = Callable[[Repository, Past], object]


def no_change(repo: Repository, past: Past) -> None:
    pass


def new_commits(repo: Repository, past: Past) -> None:
    for number in range(3):
        repo.branch("main").put(f"b/{number}", b"new")
        repo.branch("main").commit("new")


def a_branch(repo: Repository, past: Past) -> None:
    repo.create_branch("back", past.second)


def a_branch_at_the_older(repo: Repository, past: Past) -> None:
    repo.create_branch("back", past.first)


def a_tag(repo: Repository, past: Past) -> None:
    repo.create_tag("v1", past.first)


def a_reset(repo: Repository, past: Past) -> None:
    repo.branch("work").reset_to(past.second)


def a_merge(repo: Repository, past: Past) -> None:
    repo.branch("main").merge(past.second)


def a_lease(repo: Repository, past: Past) -> None:
    repo.take_lease(past.first, holder="reader", length=timedelta(hours=2))


def copies(repo: Repository, past: Past) -> None:
    repo.branch("work").copy("x", "x", source_ref=past.second)
    repo.branch("work").copy("y", "z", source_ref=past.second)
    repo.branch("work").commit("copied")
    repo.branch("main").copy("a", "kept/a", source_ref=past.first)


def a_branch_with_a_commit(repo: Repository, past: Past) -> None:
    back = repo.create_branch("back", past.second)
    back.put("b/1", b"again")
    back.commit("again")


def a_branch_with_staged_changes(repo: Repository, past: Past) -> None:
    back = repo.create_branch("back", past.first)
    back.move("x", "moved")
    back.delete("a")


def a_branch_that_goes_again(repo: Repository, past: Past) -> None:
    a_branch_with_a_commit(repo, past)
    repo.delete_branch("back")


def an_empty_commit_that_goes_again(repo: Repository, past: Past) -> None:
    back = repo.create_branch("back", past.second)
    back.commit("the same again", allow_empty=True)
    repo.delete_branch("back")


CHANGES: dict[str, tuple[Change, tuple[str, ...]]] = {
    # What is done, and which dead commits come back by it.
    "nothing": (no_change, ()),
    "new commits": (new_commits, ()),
    "a branch": (a_branch, ("first", "second")),
    "a branch at the older": (a_branch_at_the_older, ("first",)),
    "a tag": (a_tag, ("first",)),
    "a reset": (a_reset, ("first", "second")),
    "a merge": (a_merge, ("first", "second")),
    "a lease": (a_lease, ("first",)),
    "copies": (copies, ()),
    "a branch with a commit": (a_branch_with_a_commit, ("first", "second")),
    "a branch with staged changes": (a_branch_with_staged_changes, ("first",)),
    "a branch that goes again": (a_branch_that_goes_again, ()),
    "an empty commit that goes again": (an_empty_commit_that_goes_again, ()),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_referenced_again_stays(world: World, name: str) -> None:
    past = bury(world)
    change, back = CHANGES[name]
    plan = world.plan()
    assert plan.document.candidates > 0
    change(world.other(), past)
    shown = show(world)
    before = world.there()

    applied = world.apply(plan)

    world.check_swept(plan, before)
    assert show(world) == shown
    for which in ("first", "second"):
        commit = getattr(past, which)
        if which in back:
            assert whole(world.other(), commit) == past.files[commit]
        else:
            assert_gone(world, commit)
    assert (applied.summary()["objects"] > 0) == (back != ("first", "second"))
    world.quiet()
    assert show(world) == shown


def show(world: World) -> dict[str, Files]:
    repo = world.other()
    return {ref.name: whole(repo, ref.name) for ref in (*repo.branches(), *repo.tags())}


def assert_gone(world: World, commit: str) -> None:
    """Nobody can name a commit that was collected, and its readers learn why."""
    repo = world.other()
    with pytest.raises(Gone, match="condemned by run"):
        repo.at(commit).get("a")
    for attempt in (
        lambda: repo.create_branch("again", commit),
        lambda: repo.create_tag("again", commit),
        lambda: repo.branch("clean").reset_to(commit),
        lambda: repo.branch("clean").merge(commit),
        lambda: repo.branch("work").copy("a", "copied", source_ref=commit),
        lambda: repo.take_lease(commit, holder="late", length=timedelta(hours=1)),
    ):
        with pytest.raises((Gone, TransactionFailed)):
            attempt()


def test_a_commit_on_a_dead_one_is_condemned_with_it(local: World) -> None:
    """A commit that the plan never saw, on a branch that came and went, cannot be used either."""
    past = bury(local)
    plan = local.plan()
    repo = local.other()
    back = repo.create_branch("back", past.second)
    back.put("b/1", b"again")
    unseen = back.commit("again").id
    repo.delete_branch("back")
    local.apply(plan)
    try:
        repo.create_branch("late", unseen)
    except (Gone, TransactionFailed):
        pass
    else:
        whole(local.other(), "late")
    assert_gone(local, unseen)
    local.quiet()


def test_a_lease_keeps_what_it_reaches(world: World) -> None:
    """A lease from before the plan; once it has lapsed the next run takes what it held."""
    past = bury(world)
    world.other().take_lease(past.second, holder="reader", length=timedelta(days=1))
    plan = world.plan()
    assert world.candidates(plan) == {}
    world.apply(plan)
    assert whole(world.other(), past.second) == past.files[past.second]
    world.quiet()
    assert_gone(world, past.second)


def test_a_tag_keeps_what_it_reaches(world: World) -> None:
    past = bury(world)
    world.other().create_tag("v1", past.second)
    plan = world.plan()
    assert world.candidates(plan) == {}
    world.apply(plan)
    assert whole(world.other(), "v1") == past.files[past.second]
    world.quiet()


def test_a_revert_makes_its_own_range(world: World) -> None:
    """A revert gives the rows of a range that the plan takes: it must not lean on that range."""
    catalog = world.opened()
    repo = catalog.repository(NAME)
    main = repo.branch("main")
    main.put("a", b"one")
    main.put("b", b"two")
    first = main.commit("first").id
    world.age()
    main.put("a", b"changed")
    second = main.commit("second").id
    catalog.close()
    world.clock.advance(days=1)
    plan = world.plan(from_options(older_than="2d"))
    dying = {row.address for row in ranges_of(world, first)} & set(world.candidates(plan))
    assert dying

    reverted = world.other().branch("main").revert(second).id
    before = world.there()
    world.apply(plan)

    world.check_swept(plan, before)
    assert whole(world.other(), reverted) == {"a": b"one", "b": b"two"}
    assert not dying & world.there()
    assert [commit.id for commit in world.other().log("main")][:2] == [reverted, second]
    assert_gone_commit(world, first)
    world.quiet()


def ranges_of(world: World, commit: str) -> list[Any]:
    repo = world.other()
    return list(repo._workspace.containers.tree(repo.commit(commit).metarange).ranges)


def assert_gone_commit(world: World, commit: str) -> None:
    with pytest.raises(Gone):
        world.other().commit(commit)


def test_a_plan_may_lie_elsewhere(local: World, tmp_path: Path) -> None:
    """A plan in another storage lists the same as one in the store."""
    bury(local)
    here = local.candidates(local.plan())
    assert here
    url = normalize(str(tmp_path / "plans"))
    storages = {url: ClockedStorage(ObjectStorage.open(url, create=True), local.clock)}

    def opener(asked: str) -> Storage:
        return storages.get(asked, local.storage)

    options = PlanOptions(place=Place(url, "mine/"))
    engine = PlainEngine(opener, clock=local.clock)
    before = local.there()
    plan = make_plan(local.store(), engine, options, opener=opener)
    assert local.there() == before
    rows = [read_part(storages[url], file.part).to_pylist() for file in plan.document.files]
    assert {row["address"] for part in rows for row in part} == set(here)
    apply_plan(local.store(), engine, plan.place, opener=opener)
    local.check()
    assert local.there() == local.needed()


# Inside an apply.


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
    "before the marks": ("before mark", 1),
    "after the marks": ("after mark", 1),
    "after the last look": ("after observe", 2),
    "before the release": ("before release", 1),
    "while confirming": ("confirm", 1),
    "before the promotion": ("before promote", 1),
    "after the promotion": ("after promote", 1),
    "before the ranges go": ("sweep range", 1),
    "before the metaranges go": ("sweep metarange", 1),
    "before the rows go": ("before collect", 1),
    "at the end": ("after finish", 1),
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
    at = At("after mark", racing)
    local.apply(plan, store=stepped(local.store(), at))
    assert isinstance(racing.error, Gone | TransactionFailed)
    assert_gone(local, past.second)


# Writers that are in the middle of something while a whole run goes by.


def impatient(world: World) -> None:
    """No margin stands between an object and its deletion: only what is exact protects it."""
    world.margins = Margins(timedelta(0), timedelta(0), timedelta(days=30))


@pytest.mark.parametrize("how", ["put", "copy"])
def test_bytes_in_flight_are_in_an_open_partition(world: World, how: str) -> None:
    """Uploaded and not yet staged, while a whole run goes by."""
    past = bury(world)
    impatient(world)

    def collect() -> None:
        world.clock.advance(minutes=5)
        world.apply(world.plan())

    repo = world.other(lambda storage: Interrupting(storage, "/branches/", collect))
    if how == "put":
        repo.branch("work").put("slow", b"old y")
    else:
        repo.branch("work").copy("y", "slow", source_ref=past.second)
    assert whole(world.other(), "work")["slow"] == b"old y"
    assert_gone(world, past.second)
    world.quiet()


def test_a_writer_that_stood_still_too_long_writes_again(world: World) -> None:
    """An overdue partition is closed for good, so its writer starts over in a new one."""
    bury(world)
    impatient(world)

    def collect() -> None:
        world.clock.advance(minutes=20)
        world.apply(world.plan())

    repo = world.other(lambda storage: Interrupting(storage, "/branches/", collect))
    repo.branch("work").put("slow", b"slow")
    assert whole(world.other(), "work")["slow"] == b"slow"
    world.quiet()


def test_a_sealed_change_is_held(world: World) -> None:
    """A commit that died after sealing: its changes are still on the branch."""
    bury(world)
    catalog = world.opened()
    branch = catalog.repository(NAME).branch("work")
    branch.put("sealed", b"sealed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(committing, "land", lambda *_: sys.exit(1))
        with pytest.raises(SystemExit):
            branch.commit("dies")
    catalog.close()
    world.age()
    plan = world.plan()
    world.apply(plan)
    assert whole(world.other(), "work")["sealed"] == b"sealed"
    world.quiet()
    world.other().branch("work").commit("lives")
    assert whole(world.other(), "work")["sealed"] == b"sealed"
    world.quiet()


def test_a_commit_in_flight_does_not_lean_on_a_dying_range(world: World) -> None:
    """It writes the same rows as a range that goes before it lands."""
    catalog = world.opened()
    repo = catalog.repository(NAME)
    main = repo.branch("main")
    main.put("a", b"one")
    first = main.commit("first").id
    world.age()
    main.move("a", "b")
    main.commit("second")
    main.move("b", "a")
    catalog.close()
    world.age()
    impatient(world)
    plan = world.plan(from_options(older_than="3d"))
    assert {info.address for info in ranges_of(world, first)} <= set(world.candidates(plan))

    other = world.other(
        lambda storage: Interrupting(storage, "/_reclaim/meta/", lambda: world.apply(plan))
    )
    landed = other.branch("main").commit("third").id

    assert_gone_commit(world, first)
    assert whole(world.other(), landed) == {"a": b"one"}
    world.quiet()


def test_a_reset_during_a_commit_wins(world: World) -> None:
    """What was reset may be collected, so the commit that has read it must not land."""
    bury(world)
    catalog = world.opened()
    catalog.repository(NAME).branch("work").put("new", b"new")
    catalog.close()
    world.age()
    impatient(world)

    def reset_and_collect() -> None:
        world.other().branch("work").reset()
        world.apply(world.plan())

    other = world.other(lambda storage: Interrupting(storage, "/_reclaim/meta/", reset_and_collect))
    with pytest.raises(TransactionFailed, match="were reset"):
        other.branch("work").commit("too late")
    world.check()
    assert "new" not in whole(world.other(), "work")
    world.quiet()


def test_an_upload_by_physical_address_is_held_until_its_token_expires(world: World) -> None:
    bury(world)
    impatient(world)
    catalog = world.opened()
    branch = catalog.repository(NAME).branch("work")
    kept = branch.get_physical_address("kept", valid=timedelta(days=3))
    late = branch.get_physical_address("late", valid=timedelta(hours=1))
    for address in (kept, late):
        world.storage.put(address.address, b"uploaded")
    catalog.close()
    world.age()
    plan = world.plan()
    world.apply(plan)
    assert kept.address in world.there()
    assert late.address not in world.there()
    with pytest.raises(TokenExpired):
        world.other().branch("work").link_physical_address("late", late)
    world.other().branch("work").link_physical_address("kept", kept)
    assert whole(world.other(), "work")["kept"] == b"uploaded"
    world.quiet()


def test_a_writer_at_work_while_a_plan_is_made(world: World) -> None:
    """The listing comes first: whatever is born later, and where, the database knows by then."""
    past = bury(world)
    impatient(world)

    def write(_step: str) -> None:
        if "main" not in done:
            done.append("main")
            catalog = world.opened()
            repo = catalog.repository(NAME)
            repo.branch("main").put("new", b"new")
            done.append(repo.branch("main").commit("new").id)
            done.append(repo.create_branch("back", past.first).name)
            catalog.close()
            world.clock.advance(minutes=1)

    done: list[str] = []
    plan = world.plan(step=write)
    assert not set(world.candidates(plan)) & world.needed()
    world.apply(plan)
    assert whole(world.other(), done[1])["new"] == b"new"
    assert whole(world.other(), "back") == past.files[past.first]
    world.quiet()


# Time that passes between two looks of an apply.


def test_a_partition_that_becomes_overdue_too_late_is_not_counted_as_closed(local: World) -> None:
    """Only a partition that is closed as a state fences its writer off."""
    bury(local)
    impatient(local)
    plans: list[Plan] = []

    def plan_and_apply() -> None:
        # The writer stands still, a plan counts its partition as closed; then it renews.
        local.clock.advance(minutes=20)
        plans.append(local.plan())
        writer._workspace.partitions.renew()
        local.clock.advance(minutes=15)
        at = At("after close_overdue", lambda: local.clock.advance(seconds=1))
        local.apply(plans[0], store=stepped(local.store(), at))

    writer = local.other(lambda storage: Interrupting(storage, "/branches/", plan_and_apply))
    writer.branch("work").put("slow", b"slow")
    assert whole(local.other(), "work")["slow"] == b"slow"
    local.quiet()


def test_a_token_that_expires_too_late_is_not_counted_as_expired(local: World) -> None:
    """An instance whose clock is a little behind may still link it."""
    bury(local)
    impatient(local)
    catalog = local.opened()
    branch = catalog.repository(NAME).branch("work")
    up = branch.get_physical_address("up", valid=timedelta(hours=1))
    local.storage.put(up.address, b"uploaded")
    catalog.close()
    started = local.clock.now()
    local.clock.advance(hours=1, seconds=1)
    plan = local.plan()
    assert up.address in local.candidates(plan)
    local.clock.set(started + timedelta(minutes=59, seconds=59))
    at = At("after close_overdue", lambda: local.clock.advance(seconds=2))
    local.apply(plan, store=stepped(local.store(), at))
    local.clock.advance(seconds=-2)
    local.other().branch("work").link_physical_address("up", up)
    assert whole(local.other(), "work")["up"] == b"uploaded"
