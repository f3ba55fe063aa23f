"""What comes back without some of its parents keeps all that is whole below them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import update

from reclaim.catalog.database.schema import CommitState, commits
from reclaim.errors import InvalidInput, Partial
from reclaim.model import instant_text
from reclaim.policy import Policy, from_options
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.stores.observation import Margins
from tests.collect.helpers.older import heedless
from tests.collect.helpers.world import NAME, World, commit_states, whole
from tests.collect.quarantine.test_promises import aside_of
from tests.support import expiring
from tests.support.expiring import take_back

WINDOW = timedelta(days=10)
KEEPS_ALL = Policy()


def set_aside(
    world: World, policy: Policy = KEEPS_ALL, *, delete_expired_tags: bool = False
) -> str:
    plan = world.plan(policy, allowed_fraction=1.0, delete_expired_tags=delete_expired_tags)
    return world.apply(plan, removal=MoveToQuarantine(WINDOW)).run


def line(world: World, length: int, branch: str) -> list[str]:
    """Commits of a branch, the oldest first, each with something that no other has."""
    side = world.repo.branch(branch)
    ids = []
    for number in range(length):
        side.put(f"f{number % 2}", f"{branch} {number}".encode())
        ids.append(side.commit(str(number)).id)
        world.clock.advance(hours=1)
    return ids


@pytest.fixture
def dead(local: World) -> list[str]:
    """A dead line of five commits, the oldest first, on top of main."""
    local.repo.branch("main").put("k", b"k")
    local.repo.branch("main").commit("k")
    local.repo.create_branch("side", "main")
    ids = line(local, 5, "side")
    local.repo.delete_branch("side")
    local.age()
    return ids


def metaranges(world: World, ids: Iterable[str]) -> dict[str, str]:
    return {one: world.repo.commit(one).metarange for one in ids}


def lose(world: World, run: str, addresses: Iterable[str]) -> Callable[[str], None]:
    """Take objects out of a quarantine; what is returned puts one of them back."""
    root = Path(world.backend.location)
    files = {one: root / "objects" / aside_of(world, run, one) for one in addresses}
    elsewhere = {one: file.rename(root / file.name) for one, file in files.items()}

    def put_back(address: str) -> None:
        files[address].parent.mkdir(parents=True, exist_ok=True)
        elsewhere.pop(address).rename(files[address])

    return put_back


def history(world: World, ref: str) -> list[str]:
    return [commit.id for commit in world.other().log(ref)]


def parents(world: World, commit: str) -> list[str]:
    return list(world.other().commit(commit).parents)


def undo_a_part(world: World, run: str) -> Partial:
    with pytest.raises(Partial) as caught:
        world.undo(run)
    return caught.value


def end(world: World) -> None:
    """The window is over, and everything goes that nothing reaches."""
    world.clock.advance(days=11)
    world.purge()
    world.quiet()


# A parent that is broken.


def test_the_history_goes_on_below_a_broken_commit(local: World, dead: list[str]) -> None:
    """One lost object in the middle; who names the tip keeps the rest for good."""
    below = history(local, "main")
    tree = metaranges(local, dead)
    run = set_aside(local)
    lose(local, run, [tree[dead[2]]])
    told = undo_a_part(local, run)
    kept = [*reversed(dead[3:]), *reversed(dead[:2]), *below]
    assert history(local, dead[4]) == kept
    assert local.other().commit(dead[3]).marked
    assert (
        f"the parents of commit {dead[3]}: {dead[2]} is not restored yet; its history "
        f"goes on at {dead[1]} until then"
    ) in told.details["waits"]
    local.repo.create_tag("named", dead[4])
    end(local)
    assert history(local, "named") == kept
    for commit in kept:
        whole(local.other(), commit)


def test_what_only_a_lease_holds_is_named(local: World, dead: list[str]) -> None:
    tree = metaranges(local, dead)
    run = set_aside(local)
    ends = local.clock.now() + WINDOW
    lose(local, run, [tree[dead[2]]])
    told = undo_a_part(local, run)
    [(lease, _)] = local.repo.leases()
    assert lease.snapshot == dead[4]
    assert told.details["held"] == [
        {"snapshot": dead[4], "lease": lease.id, "until": instant_text(ends)}
    ]
    assert f"no branch or tag reaches {dead[4]}: leases hold it until {ends:%F %T} UTC" in str(
        told.hint
    )
    local.repo.create_tag("named", dead[4])
    assert undo_a_part(local, run).details["held"] == []


def test_a_history_that_rules_edited_goes_on_at_what_is_back(local: World) -> None:
    """The parent that the edit replaced is broken; main keeps what is below it."""
    ids = line(local, 5, "main")
    log = history(local, "main")
    tree = metaranges(local, ids)
    local.age()
    run = set_aside(local, from_options(keep_last=1))
    put_back = lose(local, run, [tree[ids[3]]])
    undo_a_part(local, run)
    kept = [one for one in log if one != ids[3]]
    assert history(local, "main") == kept
    assert local.other().commit(ids[4]).marked
    put_back(tree[ids[3]])
    assert local.undo(run).left == ()
    assert history(local, "main") == log
    assert not local.other().commit(ids[4]).marked


def test_nothing_leaves_the_history_because_a_parent_is_gone(local: World) -> None:
    """A run of an older version took what a lease had held; nobody knows what was below it."""
    ids = line(local, 4, "main")
    log = history(local, "main")
    local.age()
    local.repo.take_lease(ids[2], holder="a reader", length=timedelta(hours=2))
    run = set_aside(local, from_options(keep_last=1))
    assert history(local, "main") == [ids[3], log[-1]]
    local.clock.advance(hours=3)
    with heedless():
        local.apply(local.plan(allowed_fraction=1.0))
    assert commit_states(local.repo)[ids[2]] == CommitState.COLLECTED
    with local.repo._workspace.database.write() as connection:
        connection.execute(update(commits).where(commits.c.id == ids[2]).values(parents="[]"))
    undone = local.undo(run)
    gone = f"the parents of commit {ids[3]}: {ids[2]} is gone; its history goes on at {log[-1]}"
    assert undone.left == (gone,)
    assert history(local, "main") == [ids[3], log[-1]]


# Several parents.


@pytest.fixture
def merged(local: World) -> tuple[str, str, str, str]:
    """Two dead commits, the dead merge of them, and the commit below."""
    repo = local.repo
    main = repo.branch("main")
    for path in "abcdef":
        main.put(path, path.encode())
    base = main.commit("base").id
    repo.create_branch("other", "main")
    side = repo.create_branch("side", "main")
    side.delete("b")
    first = side.commit("deletes b").id
    local.clock.advance(days=3)
    other = repo.branch("other")
    other.delete("a")
    second = other.commit("deletes a").id
    local.clock.advance(minutes=1)
    merge = side.merge("other").id
    repo.delete_branch("side")
    repo.delete_branch("other")
    return first, second, merge, base


def test_parents_come_back_one_by_one(local: World, merged: tuple[str, str, str, str]) -> None:
    first, second, merge, base = merged
    tree = metaranges(local, (first, second))
    local.age()
    run = set_aside(local)
    put_back = lose(local, run, tree.values())
    undo_a_part(local, run)
    assert parents(local, merge) == [base]
    put_back(tree[first])
    undo_a_part(local, run)
    assert parents(local, merge) == [first]
    assert local.other().commit(merge).marked
    local.repo.create_tag("named", merge)
    put_back(tree[second])
    assert local.undo(run).left == ()
    assert parents(local, merge) == [first, second]
    assert not local.other().commit(merge).marked


def test_a_parent_that_came_back_later_stays_with_its_child(
    local: World, merged: tuple[str, str, str, str]
) -> None:
    """The other one never does, and the window ends."""
    first, second, merge, _ = merged
    tree = metaranges(local, (first, second))
    local.age()
    run = set_aside(local)
    put_back = lose(local, run, tree.values())
    undo_a_part(local, run)
    put_back(tree[first])
    undo_a_part(local, run)
    local.repo.create_tag("named", merge)
    end(local)
    assert parents(local, "named") == [first]
    assert commit_states(local.repo)[second] == CommitState.COLLECTED
    whole(local.other(), first)


def lose_first(world: World, first: str) -> None:
    """A run with a short window takes the older commit, and only condemns what is young."""
    world.margins = Margins(objects=timedelta(hours=24))
    world.clock.advance(hours=3)
    plan = world.plan(allowed_fraction=1.0)
    world.apply(plan, removal=MoveToQuarantine(timedelta(hours=1)))
    world.clock.advance(hours=2)
    world.purge()
    assert commit_states(world.repo)[first] == CommitState.COLLECTED
    world.age()


def test_a_commit_stays_marked_until_its_true_parents_are_back(
    local: World, merged: tuple[str, str, str, str]
) -> None:
    """One is gone for good, one is broken for a time: that one alone is not what it changed."""
    first, second, merge, base = merged
    tree = metaranges(local, [second])
    lose_first(local, first)
    run = set_aside(local)
    gone = f"the parents of commit {merge}: {first} is gone; its history goes on at "
    put_back = lose(local, run, tree.values())
    told = undo_a_part(local, run)
    assert told.details["left"] == [gone + base]
    assert any(f"{second} is not restored yet" in sentence for sentence in told.details["waits"])
    put_back(tree[second])
    undone = local.undo(run)
    # In the place of the first parent, its own: the line of first parents goes on there.
    assert undone.left == (f"{gone}{base}, {second}",)
    assert parents(local, merge) == [base, second]
    assert local.other().commit(merge).marked
    with local.opened() as catalog:
        branch = catalog.repository(NAME).create_branch("again", merge)
        with pytest.raises(InvalidInput, match="replaced"):
            branch.revert(merge)


# Other runs.


def test_a_commit_that_another_run_has_meanwhile(local: World) -> None:
    """One run edited it, the next has it in quarantine: it comes back above what is whole."""
    below = history(local, "main")
    local.repo.create_branch("side", "main")
    ids = line(local, 4, "side")
    tree = metaranges(local, ids)
    local.age()
    older = set_aside(local, from_options(keep_last=1))
    local.repo.delete_branch("side")
    local.age()
    newer = set_aside(local)
    lose(local, older, [tree[ids[2]]])
    undo_a_part(local, older)
    local.undo(newer)
    assert history(local, ids[3]) == [ids[3], ids[1], ids[0], *below]


def expire(world: World, policy: Policy) -> str:
    run = expiring.expire(world.other(), policy)
    assert run is not None
    return run.id


def test_an_expiration_below_what_is_lost_can_be_undone(local: World) -> None:
    """The undo of the later run is never finished; no ref reaches what it brought back."""
    below = history(local, "main")
    local.repo.create_branch("side", "main")
    ids = line(local, 6, "side")
    tree = metaranges(local, ids)
    expiration = expire(local, from_options(keep_last=3))
    assert parents(local, ids[3]) == [below[0]]
    local.repo.delete_branch("side")
    local.age()
    run = set_aside(local)
    lose(local, run, [tree[ids[4]]])
    undo_a_part(local, run)
    assert take_back(local.repo, expiration) == [f"the history above {ids[3]}: no ref reaches it"]
    assert history(local, ids[5]) == [ids[5], *reversed(ids[:4]), *below]
    undo_a_part(local, run)
    assert history(local, ids[5]) == [ids[5], *reversed(ids[:4]), *below]


def test_an_expiration_of_a_commit_that_an_undo_edited_can_be_undone(local: World) -> None:
    """Both gave it other parents; the true ones of the expiration are there."""
    below = history(local, "main")
    local.repo.create_branch("side", "main")
    ids = line(local, 4, "side")
    tree = metaranges(local, ids)
    local.repo.create_tag("held", ids[1])
    expiration = expire(local, from_options(keep_last=1))
    assert parents(local, ids[3]) == [ids[1]]
    local.repo.delete_tag("held")
    local.repo.delete_branch("side")
    local.age()
    run = set_aside(local)
    put_back = lose(local, run, [tree[ids[1]]])
    undo_a_part(local, run)
    assert parents(local, ids[3]) == [below[0]]
    take_back(local.repo, expiration)
    assert parents(local, ids[3]) == [ids[2]]
    assert not local.other().commit(ids[3]).marked
    # The lost one has its true parents again, and is passed over to them.
    undo_a_part(local, run)
    assert history(local, ids[3]) == [ids[3], ids[2], ids[0], *below]
    put_back(tree[ids[1]])
    assert local.undo(run).left == (f"the parents of commit {ids[3]}",)
    assert history(local, ids[3]) == [*reversed(ids), *below]


def test_a_ref_that_somebody_deleted_since_stays_deleted(local: World) -> None:
    """The first undo had brought it back."""
    ids = line(local, 3, "main")
    tree = metaranges(local, ids)
    local.repo.create_tag("old", ids[1])
    local.age()
    line(local, 1, "main")
    run = set_aside(local, from_options(older_than="1d"), delete_expired_tags=True)
    assert local.other().tags() == []
    lose(local, run, [tree[ids[0]]])
    undo_a_part(local, run)
    assert [tag.commit for tag in local.other().tags()] == [ids[1]]
    local.repo.delete_tag("old")
    undo_a_part(local, run)
    assert local.other().tags() == []


def test_what_hangs_on_an_edited_commit_that_no_ref_reaches_is_held(local: World) -> None:
    """The commit that the run edited stands, and nobody reaches it any more."""
    repo = local.repo
    repo.branch("main").put("k", b"k")
    repo.branch("main").commit("k")
    side = repo.create_branch("side", "main")
    for number in range(4):
        local.clock.advance(hours=1)
        side.put(f"f{number}", b"f")
        side.commit(str(number))
    local.age()
    plan = local.plan(from_options(keep_last=1), allowed_fraction=1.0)
    run = local.apply(plan, removal=MoveToQuarantine()).run
    repo.delete_branch("side")
    undone = local.undo(run)
    assert undone.snapshots > 1
    assert len(undone.held) == 1
