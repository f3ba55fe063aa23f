"""Archives whose headers name lengths that no file has: a fault of one layer, and no more."""

from __future__ import annotations

import os

import pytest

from reclaim.errors import Corrupt
from reclaim.storage import KeyRange
from reclaim.stores.terminus import reading
from reclaim.stores.terminus.batch import decode_archives
from reclaim.stores.terminus.files import PARENT, VALUES
from reclaim.stores.terminus.larch import parse_header
from reclaim.stores.terminus.layer import Layer, decode_archive
from tests.support.terminus import encode_archive, encode_logarray
from tests.terminus.test_layer import ME, files_of
from tests.terminus.world import Past, World, bury

pytestmark = pytest.mark.repeats(first=4)


@pytest.fixture
def past(world: World) -> Past:
    return bury(world)


def with_lengths(data: bytes, file: int, length: int) -> bytes:
    """An archive in whose header the files from one on end so many bytes later."""
    archive = parse_header(data)
    place = (archive.presence >> (63 - file)).bit_count() - 1
    ends = [end + (length if at >= place else 0) for at, end in enumerate(archive.ends.values())]
    header = encode_logarray(ends, control_first=True)
    return data[:8] + header + data[archive.start :]


LENGTHS = [2**40, 2**55, 2**63 - 2**20, 2**63 + 5]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("file", [0, VALUES, PARENT])
@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
def test_a_length_beyond_the_file(
    world: World, past: Past, length: int, file: int, large: bool
) -> None:
    write = world.write
    layer = write.layer(past.old[0], values=[f"{at:04}" + "x" * 60 for at in range(2000 * large)])
    path = world.folder / write.path(layer)
    path.write_bytes(with_lengths(path.read_bytes(), file, length))
    assert (path.stat().st_size >= reading.SMALL_BYTES) == large
    store = world.store()
    rows = store.format.survey(store.storage, [KeyRange(f"store/{layer[:3]}")]).to_pylist()
    (fault,) = [row["fault"] for row in rows if row["id"] == layer]
    assert layer in fault
    # A fault where it is needed, and nothing where it is not.
    plan = world.plan()
    assert plan.document.dead == len(past.dead - {*past.old, past.old_rollup}) + 4
    write.label("hurt", layer)
    with pytest.raises(Corrupt, match=layer):
        world.plan()


def test_a_control_word_that_promises_a_great_many_numbers() -> None:
    data = encode_archive(files_of(Layer(ME)))
    for width in range(0, 65, 8):
        control = b"\xff" * 4 + bytes([width]) + b"\xff" * 3
        with pytest.raises(Corrupt):
            decode_archive(ME, data[:8] + control + data[16:])
        assert not decode_archives([data[:8] + control + data[16:]]).plain.any()


@pytest.mark.parametrize("archives", [True, False])
def test_a_file_of_holes_as_long_as_a_disk(world: World, past: Past, archives: bool) -> None:
    """A rollup file, a dictionary or an archive that is a terabyte long takes no memory."""
    write = world.write
    write.archives = archives
    layer = write.layer(values=["x"])
    write.rollup(layer)
    other = write.layer(values=["y"])
    inside = "value_dictionary_blocks.tfc"
    for path in (
        world.folder / write.rollup_path(layer),
        world.folder / write.path(other) / ("" if archives else inside),
    ):
        with path.open("r+b") as file:
            file.truncate(2**42)
        os.utime(path)
    world.age()
    plan = world.plan()
    # A file that the system cannot give us whole is not known to be damaged, and stays.
    assert plan.document.dead == len(past.dead) + (3 if archives else 2)
