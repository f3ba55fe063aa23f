"""Runs on uncommitted data, for tests."""

from __future__ import annotations

from typing import Any

from reclaim.catalog import Branch
from reclaim.run.apply.applied import Applied
from reclaim.run.plan.plan_document import Uncommitted
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.record.checkpoints import Checkpoint, Mode, find_checkpoint
from tests.collect.helpers.world import World


def notes(plan: WrittenPlan) -> Uncommitted:
    assert plan.document.uncommitted is not None
    return plan.document.uncommitted


def checkpoint_of(world: World) -> Checkpoint | str:
    """The newest checkpoint of a store, or why there is none that can be used."""
    return find_checkpoint(world.store().runs(), world.storage)


def run(world: World, mode: Mode = Mode.INCREMENTAL, **options: Any) -> tuple[WrittenPlan, Applied]:
    plan = world.uncommitted(mode, allowed_fraction=1.0, **options)
    return plan, world.apply(plan)


def optimized(world: World) -> set[str]:
    """An optimized run, which must be one; what it took. A clean one then finds nothing."""
    before = world.there()
    plan, _ = run(world, Mode.INCREMENTAL)
    assert notes(plan).mode == Mode.INCREMENTAL, notes(plan).why
    world.check()
    taken = before - world.there()
    assert taken == set(world.candidates(plan)) & before
    again = world.uncommitted(Mode.FULL, allowed_fraction=1.0)
    left = {one for one in world.candidates(again) if "/branches/" in one or "/meta/" in one}
    assert not left, f"an optimized run left {left}"
    return taken


def settle(world: World) -> None:
    """Close everything and let it grow old."""
    world.backend.close()
    world.age()
    world.repo = world.other()


def begin(world: World) -> Branch:
    """A repository with a commit, and the checkpoint of a clean run, all partitions final."""
    main = world.repo.branch("main")
    for path in ("a", "b", "c", "d"):
        main.put(path, path.encode())
    main.commit("first")
    settle(world)
    run(world, Mode.FULL)
    return world.repo.branch("main")


def head(world: World) -> str:
    return world.repo.commit("main").id


def address(branch: Branch, path: str) -> str:
    return next(entry.address for entry in branch.entries() if entry.path == path)
