"""Labels that move while they are read: whatever always had a label is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reclaim.errors import Corrupt, OutOfTime
from reclaim.stores.terminus import roots
from reclaim.stores.terminus.labels import file_name
from tests.terminus.world import Past, World, bury

Moves = Callable[[Callable[[str], None]], None]


@pytest.fixture
def past(world: World) -> Past:
    return bury(world)


@pytest.fixture
def before_each(monkeypatch: pytest.MonkeyPatch) -> Moves:
    """Have something done before each label is read."""

    def patch(work: Callable[[str], None]) -> None:
        def read(file: str) -> bytes:
            work(file)
            return inner(file)

        monkeypatch.setattr(roots, "_read_locked", read)

    inner = roots._read_locked
    return patch


def test_a_layer_that_goes_from_one_label_to_another(
    world: World, past: Past, before_each: Moves
) -> None:
    """The one it goes to was read before, and the one it leaves is read after."""
    write = world.write
    write.label("a", past.main[0])
    write.label("b", past.old[2])

    def move(file: str) -> None:
        if file.endswith("/b.label"):
            write.label("a", past.old[2])
            write.label("b", past.main[0])

    before_each(move)
    assert past.old[2] in {label.layer for label in roots.read_labels(world.folder)}


def test_a_database_that_is_renamed(world: World, past: Past, before_each: Moves) -> None:
    write = world.write
    write.label("old name", past.old[2])

    def rename(file: str) -> None:
        if file.endswith(file_name("old name")):
            write.label("another", past.old[2])
            (world.folder / file_name("old name")).unlink()

    before_each(rename)
    assert past.old[2] in {label.layer for label in roots.read_labels(world.folder)}


def test_labels_that_never_stand_still(world: World, past: Past, before_each: Moves) -> None:
    versions = iter(range(1_000))
    before_each(lambda _file: world.write.label("main", past.main[-1], version=next(versions)))
    with pytest.raises(OutOfTime, match="changed each"):
        world.plan()
    assert past.dead <= world.there()


def test_a_label_of_any_length_is_not_read_whole(world: World, past: Past) -> None:
    with (world.folder / file_name("long")).open("wb") as file:
        file.truncate(2**42)
    with pytest.raises(Corrupt, match="the label long cannot be read"):
        world.plan()
