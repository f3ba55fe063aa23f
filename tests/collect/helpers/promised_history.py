"""Runs and histories with commits that are promised to come back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from reclaim.policy import Policy, Rules
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine, Removal
from tests.collect.helpers.world import NAME, Files, World, whole
from tests.collect.quarantine.test_promises import aside_of

MOVE = MoveToQuarantine()
DAY = timedelta(days=1)
REMOVALS: dict[str, Removal] = {"deletes": DELETE, "moves": MoveToQuarantine(timedelta(hours=1))}
ONE = Policy(Rules(keep_last=1))


def apply_all(world: World, policy: Policy | None = None, removal: Removal = DELETE) -> str:
    """Plan and apply, whatever part of all that takes; returns the run."""
    plan = world.plan(policy or Policy(), allowed_fraction=1.0)
    return world.apply(plan, removal=removal).run


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


def history(world: World, ref: str) -> list[str]:
    return [commit.id for commit in world.other().log(ref)]


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
