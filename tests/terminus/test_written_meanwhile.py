"""A layer that is half written when it is listed, and whole when the labels are read."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from reclaim.model import SnapshotId
from reclaim.run.sweep.removal import DELETE
from reclaim.stores.terminus import label_files, observing
from reclaim.stores.terminus.labels import Label
from tests.terminus.world import Past, World, bury

Finish = Callable[[Callable[[], object]], None]


@pytest.fixture
def past(world: World) -> Past:
    return bury(world)


@pytest.fixture
def before_labels(monkeypatch: pytest.MonkeyPatch) -> Finish:
    """Have something done just before labels are read for a mark."""

    def finish(work: Callable[[], object]) -> None:
        def read(folder: Path) -> Sequence[Label]:
            work()
            return inner(folder)

        monkeypatch.setattr(observing, "read_labels", read)

    inner = label_files.read_labels
    return finish


class Written:
    """The archive of a layer, in two steps."""

    def __init__(self, world: World, layer: SnapshotId) -> None:
        self._path = world.folder / world.write.path(layer)
        self._whole = self._path.read_bytes()
        self._at = world.clock.now().timestamp()

    def half(self) -> None:
        self._write(self._whole[:-5])

    def whole(self) -> None:
        self._write(self._whole)

    def _write(self, data: bytes) -> None:
        self._path.write_bytes(data)
        os.utime(self._path, (self._at, self._at))


def test_it_is_labelled_by_then(world: World, past: Past, before_labels: Finish) -> None:
    layer = world.write.layer(past.main[-1])
    written = Written(world, layer)
    written.half()

    def finish() -> None:
        written.whole()
        world.write.label("main", layer)

    before_labels(finish)
    world.apply(world.plan())
    assert world.there() == past.live | {layer}


def test_it_keeps_what_it_refers_to(world: World, past: Past, before_labels: Finish) -> None:
    """As when a database is cloned again: a new graph names an old layer, and a label follows."""
    plan = world.plan()
    world.clock.advance(minutes=5)
    layer = world.write.layer(names=[past.old[0]])
    written = Written(world, layer)
    written.half()
    before_labels(written.whole)
    world.apply(
        plan,
        removal=DELETE,
        step=lambda step: written.half() if step.startswith("survey") else None,
    )
    world.write.label("clone", layer)
    assert world.there() == past.live | {layer, past.old[0]}
    world.check()
