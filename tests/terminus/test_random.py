"""Random stores of thousands of layers, against what is worked out layer by layer."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from reclaim.stores.terminus.garbage import Garbage
from tests.support.terminus import populate
from tests.terminus.samples import read_store
from tests.terminus.world import Past, World, bury, needed, stepped


@pytest.mark.parametrize("seed", range(3))
def test_exactly_what_nothing_reaches_goes(world: World, seed: int) -> None:
    random = Random(seed)
    world.write.server()
    populate(world.write, 2_500, random)
    if seed == 2:
        world.write.archives = False
        populate(world.write, 150, random)
    world.age()
    contents = world.contents()
    assert len(contents.ids) > 2_400
    live = needed(contents.layers, set(contents.roots))
    plan = world.plan()
    assert plan.document.dead == len(contents.ids - live)
    reasons = {group.reason for group in plan.document.going}
    assert reasons == {*Garbage} - {Garbage.UNFINISHED}
    run = world.apply(plan).run
    assert world.there() == live
    assert world.aside() == contents.ids - live
    if seed:
        return
    assert world.undo(run).left == ()
    after = read_store(world.folder)
    assert after.layers == contents.layers


def test_some_that_are_younger_and_some_that_are_held(world: World) -> None:
    populate(world.write, 300, Random(5))
    world.age()
    old = world.there()
    populate(world.write, 300, Random(6))
    young = world.there() - old
    random = Random(7)
    for layer in random.sample(sorted(old), 5):
        world.store().take_lease(layer, holder="reader")
    contents = world.contents()
    live = needed(contents.layers, {*contents.roots, *world.held(), *young})
    world.apply(world.plan())
    assert world.there() == live


class Watching:
    """Looks at the store at every step: no layer lacks what it needs, at any time."""

    def __init__(self, world: World, folder: Path) -> None:
        self._world = world
        self._folder = folder
        self.looks = 0

    def __call__(self, _step: str) -> None:
        self.looks += 1
        self._world.check()


def test_at_no_step_does_a_layer_lack_what_it_needs(world: World) -> None:
    past: Past = bury(world)
    watching = Watching(world, world.folder)
    store = stepped(world.store(), watching)
    run = world.apply(world.plan(), store=store, step=watching).run
    world.undo(run, store=stepped(world.store(), watching), step=watching)
    assert watching.looks > 40
    assert world.there() == past.live | past.dead
