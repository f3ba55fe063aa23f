"""Random histories with runs on uncommitted data in between, for either engine."""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from reclaim.run.record.checkpoints import Mode
from tests.collect.helpers.histories import MORE_KINDS, NOT_NOW, Deed, do
from tests.collect.helpers.world import NAME, World


@dataclass
class Seen:
    """How much the runs of some histories have done."""

    optimized: int = 0
    taken: int = 0


def live_and_run(
    world: World, choice: random.Random, seen: Seen, *, rounds: int, compare: bool = True
) -> None:
    """Several instances at work, runs in between, and a clean run at the end that finds nothing."""
    catalogs = [world.opened(), world.opened()]
    number = 0
    for turn in range(rounds):
        for deed in _deeds(choice, 7):
            number += 1
            repo = catalogs[choice.randrange(2)].repository(NAME)
            with suppress(*NOT_NOW):
                do(world, repo, deed, f"{turn}-{number}")
        if choice.random() < 0.6:
            # One of them goes on, with its partition open.
            catalogs.pop(0).close()
            catalogs.append(world.opened())
        world.clock.advance(hours=choice.choice([1, 30, 60]))
        run(world, Mode.INCREMENTAL, seen, compare=compare)
    # Whatever else happened, there is something to take at the end.
    last = catalogs[0].repository(NAME).branch("main")
    last.put("last", b"never committed")
    last.reset()
    for catalog in catalogs:
        catalog.close()
    world.age()
    run(world, Mode.INCREMENTAL, seen, compare=compare)
    clean = world.uncommitted(Mode.FULL, allowed_fraction=1.0)
    left = [one for one in world.candidates(clean) if "/_reclaim/runs/" not in one]
    left = [one for one in left if "/checkpoints/" not in one]
    assert not left, f"a clean run after an optimized one finds {left}"


def run(world: World, mode: Mode, seen: Seen, *, compare: bool = True) -> None:
    """A run, which takes what a clean one would, if these are to be compared."""
    before, needed = world.there(), world.needed()
    plan = world.uncommitted(mode, allowed_fraction=1.0)
    notes = plan.document.uncommitted
    assert notes is not None
    assert not set(world.candidates(plan)) & needed
    if notes.mode == Mode.INCREMENTAL and compare:
        clean = set(world.candidates(world.uncommitted(Mode.FULL, allowed_fraction=1.0)))
        planned = set(world.candidates(plan)) & before
        assert planned == clean & before
    world.apply(plan)
    world.check()
    if notes.mode == Mode.INCREMENTAL:
        seen.optimized += 1
        seen.taken += len(before - world.there())


def _deeds(choice: random.Random, count: int) -> Sequence[Deed]:
    kinds = [kind for kind in MORE_KINDS if kind != "wait"]
    return [
        (choice.choice(kinds), choice.randrange(100), choice.randrange(100)) for _ in range(count)
    ]
