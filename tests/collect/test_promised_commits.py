"""Commits that a run can bring back stay whole for as long as it can, and come back."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, update

from reclaim.catalog.content import ranges as containers
from reclaim.catalog.database.schema import CommitState, commits, run_edits
from reclaim.engine.tasks.parts import read_part
from reclaim.errors import Conflict, Gone, IncompleteRead, Partial, StorageDenied, UnknownVersion
from reclaim.model import RunState
from reclaim.policy import Policy, Rules, from_options
from reclaim.run.gc import collect
from reclaim.run.plan import PlanOptions, find_candidates
from reclaim.run.removal import DELETE, MoveToQuarantine, Removal
from reclaim.storage import Storage
from reclaim.stores.observation import Margins
from reclaim.testing.faults import FaultyStorage
from tests.catalog import raw
from tests.collect.older import heedless
from tests.collect.test_promises import aside_of, dies_at, run_of
from tests.collect.world import (
    NAME,
    Files,
    Interrupting,
    World,
    bury,
    commit_states,
    opening,
    stepped,
    whole,
)
from tests.dying import Died

MOVE = MoveToQuarantine()
DAY = timedelta(days=1)
REMOVALS: dict[str, Removal] = {"deletes": DELETE, "moves": MoveToQuarantine(timedelta(hours=1))}


def apply_all(world: World, policy: Policy | None = None, removal: Removal = DELETE) -> str:
    """Plan and apply, whatever part of all that takes; returns the run."""
    plan = world.plan(policy or Policy(), allowed_fraction=1.0)
    return world.apply(plan, removal=removal).run


# What is left at home of commits that a run set aside.


@pytest.mark.parametrize("later", REMOVALS)
def test_what_was_too_young_to_be_set_aside_is_not_taken(local: World, later: str) -> None:
    """An undo has made the data of a commit new; the next run takes only its containers."""
    local.margins = Margins(objects=3 * DAY)
    with local.opened() as catalog:
        repo = catalog.repository(NAME)
        for path in "abc":
            repo.branch("main").put(path, path.encode())
        repo.branch("main").commit("keep")
        branch = repo.create_branch("side", "main")
        branch.put("z", b"only in x")
        local.clock.advance(days=2)
        commit = branch.commit("x").id
        repo.delete_branch("side")
    local.clock.advance(days=2)
    first = apply_all(local, removal=MOVE)
    local.undo(first)
    local.clock.advance(days=2)
    second = apply_all(local, removal=MOVE)
    assert commit_states(local.repo)[commit] == CommitState.QUARANTINED
    assert not any("/branches/" in address for address in local.aside())
    local.clock.advance(days=2)
    apply_all(local, removal=REMOVALS[later])
    local.clock.advance(hours=2)
    local.purge()
    assert local.undo(second).snapshots == 1
    assert whole(local.other(), commit)["z"] == b"only in x"


def test_what_was_in_an_open_partition_is_not_taken(local: World) -> None:
    """A process wrote data that others committed, and was killed in a commit of its own."""
    killing: list[Interrupting] = []

    def killed() -> None:
        raise Died

    def wrap(storage: Storage) -> Storage:
        killing.append(Interrupting(storage, "/meta/", lambda: None))
        return killing[-1]

    with local.opened() as catalog:
        repo = catalog.repository(NAME)
        for path in "abc":
            repo.branch("main").put(path, path.encode())
        repo.branch("main").commit("keep")
        for name in ("side", "other"):
            repo.create_branch(name, "main")
    writer = local.opened(wrap).repository(NAME)
    writer.branch("side").put("z", b"only in x")
    with local.opened() as catalog:
        commit = catalog.repository(NAME).branch("side").commit("x").id
    writer.branch("other").put("o", b"o")
    for one in killing:
        one._work = killed
    with pytest.raises(Died):
        writer.branch("other").commit("killed")
    with local.opened() as catalog:
        catalog.repository(NAME).delete_branch("side")
    local.age()
    run = apply_all(local, removal=MOVE)
    assert commit_states(local.repo)[commit] == CommitState.QUARANTINED
    with local.opened() as catalog:
        catalog.repository(NAME).branch("other").commit("finished by another")
    local.clock.advance(hours=1)
    for _ in range(2):
        apply_all(local)
    assert local.undo(run).snapshots == 1
    assert whole(local.other(), commit)["z"] == b"only in x"


def test_a_plan_without_a_record_goes_on_with_what_it_promised(local: World) -> None:
    """Its second apply plans again, and does not take its own promise for another's."""
    past = bury(local)
    options = PlanOptions(margins=local.margins, allowed_fraction=1.0)
    opener = opening(local.storage)
    plan = find_candidates(local.store(), local.engine(), options, opener=opener)
    stuck = max(address for address in local.candidates(plan) if "/branches/" in address)

    def denied(call: str, address: str) -> None:
        if call == "move" and stuck in address:
            raise StorageDenied(address)

    with pytest.raises(Partial):
        local.apply(plan, removal=MOVE, storage=FaultyStorage(local.storage, denied))
    local.apply(plan, removal=MOVE)
    assert stuck not in local.there()
    assert run_of(local, plan).state == RunState.DONE
    local.age()
    apply_all(local)
    assert local.undo(plan.document.run).snapshots == 2
    for commit, files in past.files.items():
        assert whole(local.other(), commit) == files


# Commits that an earlier run left condemned.


def left_condemned(world: World, removal: Removal) -> tuple[str, str]:
    """Two commits, of which a run condemned both and took data of the first alone."""
    with world.opened() as catalog:
        repo = catalog.repository(NAME)
        branch = repo.create_branch("late", "main")
        branch.put("y", b"needed by the first alone")
        world.clock.advance(hours=30)
        first = branch.commit("first").id
        branch.delete("y")
        branch.put("z", b"needed by the second")
        world.clock.advance(minutes=5)
        second = branch.commit("second").id
        repo.delete_branch("late")
    world.clock.advance(hours=1)
    apply_all(world, removal=removal)
    states = commit_states(world.repo)
    assert {states[one] for one in (first, second)} == {CommitState.CONDEMNED}
    return first, second


@pytest.mark.parametrize("how", ["deleted", "purged"])
def test_a_commit_that_is_broken_is_not_promised_and_its_child_is(world: World, how: str) -> None:
    bury(world)
    apply_all(world)
    first, second = left_condemned(world, DELETE if how == "deleted" else MoveToQuarantine(7 * DAY))
    world.clock.advance(days=7, hours=1)
    world.purge()
    run = apply_all(world, removal=MoveToQuarantine(7 * DAY))
    states = commit_states(world.repo)
    assert states[first] == CommitState.COLLECTED
    assert states[second] == CommitState.QUARANTINED
    undone = world.undo(run)
    assert undone.snapshots == 1
    assert any(second in sentence and first in sentence for sentence in undone.left)
    assert whole(world.other(), second)["z"] == b"needed by the second"
    assert [commit.id for commit in world.other().log(second)] == [second]
    with pytest.raises(Gone):
        world.other().commit(first)
    assert {one.id: one for one in world.repo.runs()}[run].state == RunState.UNDONE


def test_the_store_is_listed_for_them_before_the_roots_are_read(local: World) -> None:
    """From that read on there is a budget of time, which the listing of a large store breaks."""
    bury(local)
    apply_all(local)
    left_condemned(local, DELETE)
    local.age()
    steps: list[str] = []
    store = stepped(local.store(), steps.append)
    plan = local.plan(allowed_fraction=1.0)
    local.apply(plan, removal=MOVE, step=steps.append, store=store)
    read = steps.index("before observe")
    assert any(step.startswith("list ") for step in steps[:read])
    assert not any(step.startswith("list ") for step in steps[read:])


def test_commits_of_a_run_that_died_while_it_deleted_are_not_promised(local: World) -> None:
    past = bury(local)
    plan = local.plan()
    dies_at(local, "before collect", lambda **how: local.apply(plan, **how))
    with local.opened() as catalog:
        repo = catalog.repository(NAME)
        branch = repo.create_branch("new", "main")
        branch.put("n", b"n")
        commit = branch.commit("new").id
        repo.delete_branch("new")
    local.age()
    run = apply_all(local, removal=MOVE)
    states = commit_states(local.repo)
    assert {states[one] for one in (past.first, past.second)} == {CommitState.COLLECTED}
    assert local.undo(run).snapshots == 1
    assert whole(local.other(), commit)["n"] == b"n"


def test_whole_commits_of_a_run_that_died_come_back_with_the_run_that_takes_them(
    local: World,
) -> None:
    """Also if that run ends before it has settled anything."""
    past = bury(local)
    plan = local.plan()
    dies_at(local, "after promote", lambda **how: local.apply(plan, **how))
    second = local.plan(allowed_fraction=1.0)
    dies_at(local, "before set_aside", lambda **how: local.apply(second, removal=MOVE, **how))
    assert local.aside()
    assert local.undo(second.document.run).snapshots == 2
    for commit, files in past.files.items():
        assert whole(local.other(), commit) == files


# Parents.


def parent_and_child(world: World) -> tuple[str, str, dict[str, bytes]]:
    """A commit that main has passed, and a dead child of it that shares nothing with it."""
    with world.opened() as catalog:
        repo = catalog.repository(NAME)
        main = repo.branch("main")
        main.put("p", b"the parent's own")
        parent = main.commit("parent").id
        files = whole(repo, parent)
        world.clock.advance(hours=1)
        side = repo.create_branch("side", "main")
        side.delete("p")
        side.put("x", b"the child's own")
        child = side.commit("child").id
        main.delete("p")
        for number in range(2):
            world.clock.advance(hours=1)
            main.put("q", str(number).encode())
            main.commit(str(number))
        repo.delete_branch("side")
    world.age()
    return parent, child, files


ONE = Policy(Rules(keep_last=1))


@pytest.mark.parametrize("later", REMOVALS)
def test_the_parent_of_a_promised_commit_stays(world: World, later: str) -> None:
    parent, child, files = parent_and_child(world)
    run = apply_all(world, removal=MoveToQuarantine(30 * DAY))
    apply_all(world, ONE, REMOVALS[later])
    world.clock.advance(hours=2)
    world.purge()
    assert commit_states(world.repo)[parent] == CommitState.LIVE
    assert world.undo(run).snapshots == 1
    assert [commit.id for commit in world.other().log(child)][:2] == [child, parent]
    assert whole(world.other(), parent) == files
    # When the window is over, it goes like anything else.
    world.age()
    apply_all(world)
    assert commit_states(world.repo)[parent] == CommitState.COLLECTED


@pytest.mark.parametrize("later", REMOVALS)
def test_a_commit_comes_back_although_its_parent_is_gone(world: World, later: str) -> None:
    parent, child, _ = parent_and_child(world)
    run = apply_all(world, removal=MoveToQuarantine(30 * DAY))
    with heedless():
        apply_all(world, ONE, REMOVALS[later])
    world.clock.advance(hours=2)
    world.purge()
    undone = world.undo(run)
    assert undone.snapshots == 1
    assert any(child in sentence and parent in sentence for sentence in undone.left)
    assert whole(world.other(), child) == {"x": b"the child's own"}
    assert [commit.id for commit in world.other().log(child)] == [child]
    with pytest.raises(Gone):
        world.other().commit(parent)
    world.quiet()


def test_a_commit_waits_for_a_parent_that_another_run_has(local: World) -> None:
    parent, child, files = parent_and_child(local)
    first = apply_all(local, removal=MoveToQuarantine(30 * DAY))
    with heedless():
        second = apply_all(local, ONE, MOVE)
    with pytest.raises(Partial, match=f"commit {child}: its parent {parent} is not there"):
        local.undo(first)
    local.undo(second)
    assert local.undo(first).snapshots == 1
    assert [commit.id for commit in local.other().log(child)][:2] == [child, parent]
    assert whole(local.other(), parent) == files


def leased_history(world: World, leased: int) -> dict[str, Files]:
    """A line of commits, the newest first, of which a reader has one on lease, for two hours."""
    main = world.repo.branch("main")
    for number in range(4):
        main.put("a", str(number).encode())
        main.put(f"f{number}", str(number).encode())
        main.commit(str(number))
        world.clock.advance(hours=1)
    world.age()
    main.put("a", b"newest")
    main.commit("newest")
    files = {commit.id: whole(world.repo, commit.id) for commit in world.repo.log("main")}
    world.backend.close()
    world.repo = world.other()
    world.clock.advance(hours=30)
    commit = list(files)[leased]
    world.repo.take_lease(commit, holder="a reader", length=timedelta(hours=2))
    return files


@pytest.mark.parametrize("leased", [1, 3], ids=["parent", "ancestor"])
def test_what_an_edit_would_give_back_as_parents_stays(local: World, leased: int) -> None:
    """A lease spared it from the run that edited, and is over."""
    files = leased_history(local, leased)
    plan = local.plan(from_options(keep_last=1), allowed_fraction=1.0)
    run = local.apply(plan, removal=MoveToQuarantine(30 * DAY)).run
    local.clock.advance(hours=3)
    options = PlanOptions(margins=local.margins, allowed_fraction=1.0)
    collect(local.store(), local.engine(), options, opener=opening(local.storage))
    assert local.undo(run).left == ()
    for commit, shown in files.items():
        assert whole(local.other(), commit) == shown
    assert [commit.id for commit in local.other().log("main")] == list(files)


def test_what_a_deleted_tag_named_stays(local: World) -> None:
    """A lease spared the commit from the run that deleted its tag, and is over."""
    files = leased_history(local, 1)
    commit = list(files)[1]
    local.repo.create_tag("old", commit)
    plan = local.plan(from_options(older_than="3d"), allowed_fraction=1.0, delete_expired_tags=True)
    run = local.apply(plan, removal=MoveToQuarantine(30 * DAY)).run
    assert local.other().tags() == []
    # As if its tag alone had named it.
    with local.repo._workspace.database.write() as connection:
        connection.execute(delete(run_edits).where(run_edits.c.run_id == run))
    local.clock.advance(hours=3)
    apply_all(local)
    local.undo(run)
    assert [tag.commit for tag in local.other().tags()] == [commit]


@pytest.mark.parametrize("policy", [Policy(), ONE], ids=["no rules", "rules"])
def test_a_plan_says_that_a_run_needs_a_commit(local: World, policy: Policy) -> None:
    parent, _, _ = parent_and_child(local)
    apply_all(local, removal=MOVE)
    apply_all(local, ONE)
    plan = local.plan(policy, allowed_fraction=1.0)
    rows = read_part(local.storage, plan.document.snapshots.part).to_pylist()
    (reasons,) = (row["reasons"] for row in rows if row["id"] == parent)
    assert "a run that can be undone needs it" in reasons


# Commits that are broken in quarantine.


def line(world: World) -> tuple[list[str], str]:
    """Three dead commits, the oldest first, and the address of what only the oldest has."""
    with world.opened() as catalog:
        repo = catalog.repository(NAME)
        repo.branch("main").put("a", b"a")
        repo.branch("main").commit("keep")
        side = repo.create_branch("side", "main")
        side.put("only", b"only in the oldest")
        commits = [side.commit("0").id]
        [only] = [one.address for one in repo.at(commits[0]).entries() if one.path == "only"]
        side.delete("only")
        for number in (1, 2):
            world.clock.advance(hours=1)
            side.put("f", str(number).encode())
            commits.append(side.commit(str(number)).id)
        repo.delete_branch("side")
    world.age()
    return commits, only


def history(world: World, ref: str) -> list[str]:
    return [commit.id for commit in world.other().log(ref)]


def test_commits_come_back_although_the_oldest_lost_an_object(local: World) -> None:
    commits, only = line(local)
    below = history(local, "main")
    run = apply_all(local, removal=MOVE)
    local.storage.delete(aside_of(local, run, only))
    for _ in range(2):
        with pytest.raises(Partial, match=f"commit {commits[0]}: not all of its objects"):
            local.undo(run)
        states = commit_states(local.repo)
        assert [states[one] for one in commits] == ["quarantined", "live", "live"]
        assert history(local, commits[2]) == [commits[2], commits[1], *below]
    local.check()
    local.repo.create_tag("kept", commits[2])
    local.clock.advance(days=8)
    assert local.purge() is not None
    local.quiet()
    assert whole(local.other(), "kept") == {"a": b"a", "f": b"2"}


def test_who_came_back_without_a_parent_gets_it_when_it_is_back(local: World) -> None:
    commits, only = line(local)
    before = history(local, commits[2])
    run = apply_all(local, removal=MOVE)
    file = Path(local.backend.location) / "objects" / aside_of(local, run, only)
    elsewhere = file.rename(Path(local.backend.location) / "elsewhere")
    with pytest.raises(Partial):
        local.undo(run)
    file.parent.mkdir(parents=True, exist_ok=True)
    elsewhere.rename(file)
    assert local.undo(run).snapshots == 1
    assert commit_states(local.repo)[commits[0]] == CommitState.LIVE
    assert history(local, commits[2]) == before


def test_what_only_the_promise_held_is_leased(local: World) -> None:
    """An undo that cannot hang it up again leaves time to name it."""
    files = leased_history(local, 1)
    commit = list(files)[1]
    local.repo.create_tag("old", commit)
    plan = local.plan(from_options(older_than="3d"), allowed_fraction=1.0, delete_expired_tags=True)
    run = local.apply(plan, removal=MoveToQuarantine(30 * DAY)).run
    local.clock.advance(hours=3)
    with local.opened() as catalog:
        main = catalog.repository(NAME).branch("main")
        main.put("zz", b"1")
        main.commit("x")
        catalog.repository(NAME).create_tag("old", "main")
    apply_all(local, ONE)
    assert commit_states(local.repo)[commit] == CommitState.LIVE
    assert "the tag old" in local.undo(run).left
    local.clock.advance(minutes=5)
    apply_all(local)
    assert whole(local.other(), commit) == files[commit]


def test_a_promised_container_of_a_newer_version_stops_the_run(
    local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows what it lists, and so what the undo of its run needs."""
    past = bury(local)
    metarange = local.repo.commit(past.first).metarange
    apply_all(local, removal=MoveToQuarantine(30 * DAY))
    real = containers.decode_metarange

    def newer(data: bytes, address: str) -> Any:
        if address == metarange:
            raise UnknownVersion("a container of format 9")
        return real(data, address)

    monkeypatch.setattr(containers, "decode_metarange", newer)
    with pytest.raises(UnknownVersion, match="format 9"):
        local.plan()


def test_a_history_cut_twice_stays_marked(local: World) -> None:
    """One parent is gone for good and one for now: when that is back, the first still misses."""
    repo = local.repo
    local.repo.branch("main").put("a", b"a")
    repo.branch("main").commit("base")
    ids = {}
    for name in ("gone", "broken"):
        repo.create_branch(name, "main").put(name, name.encode())
        ids[name] = repo.branch(name).commit(name).id
    merged = repo.branch("gone").merge("broken").id
    metarange = repo.commit(ids["broken"]).metarange
    for name in ids:
        repo.delete_branch(name)
    local.age()
    run = local.apply(local.plan(allowed_fraction=1.0), removal=MoveToQuarantine()).run
    with repo._workspace.database.write() as connection:
        reduced = {"state": CommitState.COLLECTED, "run_id": "0" * 32}
        connection.execute(update(commits).where(commits.c.id == ids["gone"]).values(**reduced))
    [lost] = [one for one in raw.objects(repo) if one.endswith(metarange.rpartition("/")[2])]
    local.storage.delete(lost)
    with pytest.raises(Partial):
        local.undo(run)
    assert repo.commit(merged).marked
    [edit] = [row for row in raw.rows(repo, run_edits) if row.commit_id == merged]
    # By this a merge knows the parents that it was written with.
    assert edit.was_marked or json.loads(edit.old_parents) == [ids["gone"], ids["broken"]]


# Containers that cannot be read.


@dataclass
class Shared:
    """A commit in quarantine, and data that it shares with nothing that lives any more."""

    run: str
    commit: str
    data: str
    containers: dict[str, str]
    """The metarange of the commit, in quarantine, and its range, which stayed at home as well."""


def shared_data(world: World) -> Shared:
    """Data that a live commit had when the other one was set aside; it stayed at home for that."""
    with world.opened() as catalog:
        repo = catalog.repository(NAME)
        main = repo.branch("main")
        main.put("a", b"a")
        main.commit("first")
        world.clock.advance(hours=1)
        side = repo.create_branch("side", "main")
        side.put("d", b"shared")
        commit = side.commit("x").id
        world.clock.advance(hours=1)
        main.put("e", b"e")
        main.commit("second")
        main.merge("side")
        repo.delete_branch("side")
        tree = repo._workspace.containers.tree(repo.commit(commit).metarange)
        [data] = [entry.address for entry in tree.entries() if entry.path == "d"]
        [info] = tree.ranges
        metarange = repo.commit(commit).metarange
    world.age()
    run = apply_all(world, ONE, MoveToQuarantine(30 * DAY))
    assert data in world.there()
    with world.opened() as catalog:
        main = catalog.repository(NAME).branch("main")
        main.delete("d")
        main.commit("without it")
    world.age()
    containers = {"metarange": aside_of(world, run, metarange), "range": info.address}
    return Shared(run, commit, data, containers)


@pytest.mark.parametrize("kind", ["metarange", "range"])
@pytest.mark.parametrize("damaged", [False, True], ids=["away", "damaged"])
def test_a_promised_container_that_cannot_be_read_stops_others(
    local: World, kind: str, damaged: bool
) -> None:
    """For a night. What only it holds is at home, and nothing else tells that it is needed."""
    shared = shared_data(local)
    before = local.plan(ONE, allowed_fraction=1.0)
    kept = local.storage.get(shared.containers[kind])
    file = Path(local.backend.location) / "objects" / shared.containers[kind]
    times = file.stat()
    if damaged:
        file.write_bytes(kept[::-1])
    else:
        file.unlink()
    for attempt in (
        lambda: local.plan(ONE, allowed_fraction=1.0),
        lambda: local.apply(before, removal=DELETE),
    ):
        with pytest.raises(IncompleteRead, match=shared.run) as refused:
            attempt()
        assert f"--run {shared.run}" in (refused.value.hint or "")
        assert refused.value.details["unreadable"] == 1
    file.write_bytes(kept)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    apply_all(local, ONE)
    local.undo(shared.run)
    assert whole(local.other(), shared.commit)["d"] == b"shared"


def test_a_promised_container_that_is_lost_and_the_way_out(local: World) -> None:
    """What is whole comes back; then the run is purged, and no other with it."""
    shared = shared_data(local)
    bury(local)
    other = apply_all(local, removal=MoveToQuarantine(30 * DAY))
    local.storage.delete(shared.containers["metarange"])
    with pytest.raises(IncompleteRead):
        local.plan(allowed_fraction=1.0)
    with pytest.raises(Partial, match=f"commit {shared.commit}: not all of its objects"):
        local.undo(shared.run)
    purged = local.purge(run_id=shared.run)
    assert purged is not None
    assert purged.runs == [shared.run]
    local.plan(allowed_fraction=1.0)
    assert local.undo(other).snapshots == 2


def test_a_container_that_is_away_while_another_run_works(local: World) -> None:
    """It may be a purge that has deleted it just now: that is no damage."""
    shared = shared_data(local)
    local.storage.delete(shared.containers["metarange"])
    with local.store().lock("f" * 32), pytest.raises(Conflict, match="undone or purged"):
        local.plan(ONE, allowed_fraction=1.0)
