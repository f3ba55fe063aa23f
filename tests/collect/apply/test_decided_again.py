"""An apply with rules decides again: what changed since the plan has its rules asked, too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest

from reclaim.errors import Conflict, OutOfTime, StorageUnavailable
from reclaim.model import RefKind
from reclaim.policy import Match, Policy, Rules, from_options
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine, Removal
from tests.collect.helpers.world import At, Files, World, stepped, whole
from tests.collect.history.test_edit_then_stop import kill
from tests.support import expiring
from tests.support.expiring import apply_expire, plan_expire, take_back

LAST_TWO: Policy = from_options(keep_last=2)
WEEKLY: Policy = from_options(keep_weekly=10)
TAGS_KEEP_ALL = Policy(Rules(keep_last=1), ((Match("v*", RefKind.TAG), Rules()),))
AGED = MoveToQuarantine(timedelta(days=30))


@dataclass(frozen=True)
class Line:
    """Commits of main, the oldest first, and what each shows; the first is the root."""

    ids: dict[str, str]
    files: dict[str, Files]

    def log(self, world: World, ref: str = "main") -> str:
        """A log by the letters of the commits."""
        letters = {one: letter for letter, one in self.ids.items()}
        return "".join(letters.get(commit.id, "?") for commit in world.other().log(ref))

    def check(self, world: World, letters: str) -> None:
        for letter in letters:
            assert whole(world.other(), self.ids[letter]) == self.files[letter]


@pytest.fixture
def line(local: World) -> Line:
    """Root, a and b in weeks of their own, c and d in the third; all of them old enough to go."""
    main = local.repo.branch("main")
    ids = {"r": local.repo.commit("main").id}
    for letter, hours in (("a", 8 * 24), ("b", 8 * 24), ("c", 1), ("d", 33)):
        main.put(f"file {letter}", letter.encode())
        ids[letter] = main.commit(letter).id
        local.clock.advance(hours=hours)
    return Line(ids, {letter: whole(local.repo, one) for letter, one in ids.items()})


def plan(world: World, policy: Policy, *, branches: bool = False) -> WrittenPlan:
    return world.plan(policy, allowed_fraction=1.0, delete_expired_branches=branches)


def expire(world: World, policy: Policy) -> str:
    run = expiring.expire(world.repo, policy)
    assert run is not None
    return run.id


@pytest.mark.parametrize("removal", [DELETE, AGED], ids=["deletes", "sets aside"])
def test_an_expiration_below_it_was_undone(local: World, line: Line, removal: Removal) -> None:
    below = expire(local, LAST_TWO)
    assert line.log(local) == "dcr"
    planned = plan(local, WEEKLY)
    take_back(local.repo, below)
    assert line.log(local) == "dcbar"
    local.apply(planned, removal=removal)
    assert line.log(local) == "dbar"
    line.check(local, "dbar")
    local.check()


def test_a_quarantine_below_it_was_undone(local: World, line: Line) -> None:
    below = local.apply(plan(local, LAST_TWO), removal=AGED).run
    assert line.log(local) == "dcr"
    planned = plan(local, WEEKLY)
    local.undo(below)
    local.clock.advance(hours=25)
    local.apply(planned)
    assert line.log(local) == "dbar"
    for _ in range(2):
        local.age()
        local.apply(plan(local, from_options(older_than="1000d")))
    line.check(local, "dbar")


def in_between(world: World, planned: WrittenPlan, work: Callable[[], object]) -> None:
    """Apply a plan that fails once it has edited history, with something done before."""

    def fail() -> None:
        work()
        raise StorageUnavailable("down")

    at = At("after edit_history", fail)
    with pytest.raises(StorageUnavailable):
        world.apply(planned, store=stepped(world.store(), at))
    assert at.done


def test_nobody_decides_on_an_edit_that_may_be_taken_back(local: World, line: Line) -> None:
    """Not a plan, not an expiration, and not one that was planned before."""
    earlier = plan_expire(local.other(), WEEKLY)
    planned = plan(local, LAST_TWO)
    run = planned.document.run
    tries: list[Callable[[], object]] = [
        lambda: plan(local, WEEKLY),
        lambda: plan_expire(local.other(), WEEKLY),
    ]

    def try_all() -> None:
        assert line.log(local) == "dcr"
        for attempt in tries:
            with pytest.raises(Conflict, match=f"run {run} has edited the history") as caught:
                attempt()
            assert f"reclaim undo {run}" in (caught.value.hint or "")
        with pytest.raises(Conflict, match=f"run {run} is working"):
            apply_expire(local.other(), earlier)
        # What nothing reaches can be planned all the same: an apply looks again.
        local.plan(allowed_fraction=1.0)

    in_between(local, planned, try_all)
    assert line.log(local) == "dcbar"
    assert apply_expire(local.other(), earlier) is not None
    assert line.log(local) == "dbar"


def test_the_edit_of_a_run_that_was_killed(local: World, line: Line) -> None:
    """It is not decided on before it was taken back."""
    killed = plan(local, LAST_TWO)
    kill(local, killed, "after edit_history", AGED)
    local.clock.advance(minutes=11)
    with pytest.raises(Conflict, match="may still revert the edit"):
        plan(local, WEEKLY)
    local.store().clean()
    local.apply(plan(local, WEEKLY))
    assert line.log(local) == "dbar"
    line.check(local, "dbar")


def test_a_plan_from_before_an_edit_that_is_rolled_back(local: World, line: Line) -> None:
    planned = plan(local, WEEKLY)
    kill(local, plan(local, LAST_TWO), "after condemn", AGED)
    local.clock.advance(minutes=11)
    local.apply(planned)
    assert line.log(local) == "dbar"
    line.check(local, "dbar")


@pytest.mark.parametrize("when", ["before the apply", "before edit_history"])
def test_a_tag_that_was_made_since_holds_its_history(local: World, line: Line, when: str) -> None:
    planned = plan(local, TAGS_KEEP_ALL)
    at = At(when, lambda: local.repo.create_tag("v1", "main"))
    at("before the apply")
    local.apply(planned, store=stepped(local.store(), at))
    assert at.done
    assert line.log(local, "v1") == line.log(local) == "dcbar"
    line.check(local, "dcbar")


def test_so_does_one_that_was_made_after_an_apply_was_killed(local: World, line: Line) -> None:
    planned = plan(local, TAGS_KEEP_ALL)
    kill(local, planned, "after condemn")
    local.clock.advance(minutes=11)
    assert line.log(local) == "dr"
    local.repo.create_tag("v1", "main")
    local.apply(planned)
    assert line.log(local, "v1") == "dcbar"
    line.check(local, "dcbar")


def test_a_tag_holds_its_history_in_an_expiration(local: World, line: Line) -> None:
    planned = plan_expire(local.repo, TAGS_KEEP_ALL)
    local.repo.create_tag("v1", "main")
    assert apply_expire(local.repo, planned) is None
    assert line.log(local) == "dcbar"


@pytest.mark.parametrize("when", ["before the apply", "before edit_history"])
def test_new_commits_do_not_disturb(world: World, when: str) -> None:
    main = world.repo.branch("main")
    for number in range(4):
        main.put("a", f"{number}".encode())
        main.commit(str(number))
        world.clock.advance(hours=1)
    world.age()
    planned = plan(world, LAST_TWO)
    reads = []

    def commit() -> None:
        for number in range(2):
            main.put("a", f"new {number}".encode())
            main.commit("new")

    def step(name: str) -> None:
        reads.extend([name] if name == "before read_history" else [])
        at(name)

    at = At(when, commit)
    at("before the apply")
    world.apply(planned, store=stepped(world.store(), step))
    assert at.done
    assert len(reads) == 1
    messages = [commit.message for commit in world.other().log("main")]
    assert messages[:-1] == ["new", "new", "3", "2"]
    world.check()


def test_what_the_plan_kept_in_a_history_stays_in_it(local: World, line: Line) -> None:
    """Also where a ref reaches it by now whose rules do not keep it."""
    tags_expire = ((Match("x", RefKind.TAG), from_options(older_than="1h").default),)
    planned = plan(local, Policy(Rules(keep_last=2), tags_expire))
    local.repo.create_tag("x", line.ids["c"])
    main = local.repo.branch("main")
    for number in range(2):
        main.put("new", f"{number}".encode())
        main.commit("new")
    local.apply(planned)
    assert line.log(local) == "??dcr"
    line.check(local, "dcr")


def test_a_history_that_never_stands_still(local: World, line: Line) -> None:
    planned = plan(local, TAGS_KEEP_ALL)
    made: list[str] = []

    def step(name: str) -> None:
        if name == "before edit_history":
            made.append(f"x{len(made)}")
            local.repo.create_tag(made[-1], "main")

    with pytest.raises(OutOfTime, match="changed faster"):
        local.apply(planned, store=stepped(local.store(), step))
    assert line.log(local) == "dcbar"


def test_what_the_plan_left_in_reach_stays_in_reach(local: World, line: Line) -> None:
    """A branch at an expired commit stays with it; a commit on top does not change that."""
    local.repo.create_branch("side", line.ids["b"])
    planned = plan(local, from_options(older_than="3d"))
    side = local.repo.branch("side")
    side.put("new", b"new")
    side.commit("new")
    local.apply(planned)
    assert line.log(local, "side") == "?bar"
    line.check(local, "dcbar")


def test_a_branch_that_moved_is_not_deleted(local: World, line: Line) -> None:
    local.repo.create_branch("side", line.ids["b"])
    planned = plan(local, from_options(older_than="3d"), branches=True)
    assert planned.document.deleted_refs == ["side"]
    local.repo.delete_branch("side")
    local.repo.create_branch("side", line.ids["a"])
    local.apply(planned)
    assert line.log(local, "side") == "ar"
    line.check(local, "dcar")
