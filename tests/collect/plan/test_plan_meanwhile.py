"""A plan that reads while a run takes commits of a branch that was just deleted."""

from __future__ import annotations

import pytest

from reclaim.errors import Corrupt, OutOfTime
from reclaim.run.plan.planning import ROUNDS
from tests.collect.helpers.world import At, World, whole


def branch_off(world: World, name: str) -> str:
    """A branch with an old commit of its own; returns the commit."""
    side = world.repo.create_branch(name, "main")
    side.put(name, name.encode())
    commit = side.commit(name).id
    world.age()
    return commit


def take(world: World, name: str) -> None:
    """Delete a branch, and collect what only that reached."""
    world.other().delete_branch(name)
    assert world.apply(world.plan(allowed_fraction=1.0)).summary()["objects"] > 0


def keep(world: World) -> str:
    main = world.repo.branch("main")
    main.put("a", b"a")
    return main.commit("kept").id


def test_what_a_run_took_meanwhile_is_no_damage(world: World) -> None:
    kept = keep(world)
    branch_off(world, "side")
    taking = At("expand", lambda: take(world, "side"))
    plan = world.plan(step=taking, allowed_fraction=1.0)
    assert taking.done
    assert (plan.document.candidates, plan.document.refs) == (0, 1)
    assert whole(world.other(), kept) == {"a": b"a"}
    world.quiet()


def test_damage_is_told_although_a_run_took_something_before(local: World) -> None:
    kept = keep(local)
    branch_off(local, "side")
    take(local, "side")
    metarange = local.repo.commit(kept).metarange
    [address] = [address for address in local.there() if metarange in address]
    local.storage.delete(address)
    with pytest.raises(Corrupt):
        local.plan(allowed_fraction=1.0)


def test_a_plan_is_not_begun_again_for_ever(local: World) -> None:
    keep(local)
    names = [f"side{number}" for number in range(ROUNDS)]
    for name in names:
        branch_off(local, name)

    rounds: list[At] = []

    def step(name: str) -> None:
        if name.startswith("list") and len(rounds) == ROUNDS - len(names):
            rounds.append(At("expand", lambda: take(local, names.pop())))
        rounds[-1](name)

    with pytest.raises(OutOfTime, match="during every attempt to read them"):
        local.plan(step=step, allowed_fraction=1.0)
    assert not names
    local.quiet()
