"""The writer of test stores, held to the real ones: what it writes is what they are."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from reclaim.stores.terminus import files as known
from reclaim.stores.terminus.labels import encode_name, format_label, missing_system
from reclaim.stores.terminus.larch import split
from reclaim.stores.terminus.layer import decode_archive
from reclaim.stores.terminus.logarray import WORD, LogArray, decode_first
from reclaim.stores.terminus.tfc import entries
from reclaim.stores.terminus.version import FILE, check_version
from tests.support.terminus import (
    StoreWriter,
    TerminusDatabase,
    encode_archive,
    encode_dictionary,
    encode_logarray,
    encode_values,
    populate,
)
from tests.terminus.graphs import reach
from tests.terminus.samples import Contents, Sample, read_store


def test_archives_are_written_as_the_library_writes_them(sample: Sample) -> None:
    for path in sample.folder.glob("*/*.larch"):
        data = path.read_bytes()
        assert encode_archive(split(data)) == data


def numbered(sample: Sample) -> list[dict[int, bytes]]:
    """The dictionaries of every layer, by the numbers of their files."""
    found = [split(path.read_bytes()) for path in sample.folder.glob("*/*.larch")]
    for folder in sample.folder.glob("*/*/"):
        read = {file.name: file.read_bytes() for file in folder.iterdir()}
        found.append({number: read[name] for number, name in known.DICTIONARY_FILES.items()})
    return found


def array_of(data: bytes) -> LogArray:
    """The array in a file of its own, whose control word comes last."""
    array, end = decode_first(data[-WORD:] + data[:-WORD])
    assert end == len(data)
    return array


def test_dictionaries_are_written_as_the_library_writes_them(sample: Sample) -> None:
    layers = numbered(sample)
    assert len(layers) == len(sample.live) + len(sample.dead)
    for files in layers:
        for blocks in (0, 2):
            written = encode_dictionary(entries(files[blocks]))
            assert written == (files[blocks], files[blocks + 1])
        assert array_of(files[4]).values() == [0]
        values = encode_values((0, entry) for entry in entries(files[known.VALUES]))
        assert values == tuple(files[number] for number in range(4, 8))


def test_arrays_are_written_as_the_library_writes_them(sample: Sample) -> None:
    for path in sample.folder.glob("*/*.larch"):
        for number, data in split(path.read_bytes()).items():
            if number in (14, 15, 16, 17):
                array = array_of(data)
                largest = 2**array.width - 1 if array.width else None
                assert encode_logarray(array.values(), largest=largest) == data


def test_labels_are_written_as_the_library_writes_them(sample: Sample, contents: Contents) -> None:
    for name, label in contents.labels.items():
        assert format_label(label) == (sample.folder / f"{encode_name(name)}.label").read_bytes()


def test_a_sample_copied_by_the_writer_reads_the_same(
    sample: Sample, contents: Contents, tmp_path: Path
) -> None:
    """Read, written and read again, half of it in the other format."""
    writer = StoreWriter(tmp_path)
    for number, layer in enumerate(contents.layers.values()):
        writer.archives = number % 2 == 0
        writer.layer(layer.parent, names=layer.names, rolled_up=layer.rolled_up, layer=layer.id)
    for layer in contents.layers.values():
        if layer.rollup is not None:
            writer.point(layer.id, layer.rollup)
    for label in contents.labels.values():
        writer.label(label.name, label.layer, version=label.version)
    assert read_store(tmp_path) == contents


def test_the_writer_gives_the_same_shape_as_the_library(sample: Sample, tmp_path: Path) -> None:
    """Which files there are, for a base layer, a child, and rollups of either kind."""
    real = {frozenset(split(path.read_bytes())) for path in sample.folder.glob("*/*.larch")}
    writer = StoreWriter(tmp_path)
    base = writer.layer()
    child = writer.layer(base)
    layers = (base, child, writer.rollup(child), writer.rollup(child, parent=base))
    written = {frozenset(split((tmp_path / writer.path(one)).read_bytes())) for one in layers}
    if real:
        assert {files | {14, 15, 16, 17} for files in written} == {
            files | {14, 15, 16, 17} for files in real
        }


@pytest.mark.parametrize("archives", [True, False])
def test_a_server_store(tmp_path: Path, archives: bool) -> None:
    writer = StoreWriter(tmp_path, archives=archives, written_at=1_000_000)
    writer.server()
    database = TerminusDatabase(writer, "admin|db")
    database.commit(["a"])
    orphan = database.fail()
    database.commit(["b"])
    first = database.roll_up()
    second = database.roll_up()
    database.roll_up_commits()
    old = list(database.meta)
    database.squash()
    database.commit(["c"])
    contents = read_store(tmp_path)
    assert check_version((tmp_path / FILE).read_bytes())
    assert missing_system(contents.labels.values()) == []
    assert not contents.broken
    reached = reach(contents.layers, contents.roots)
    assert contents.ids - reached.ids == {*orphan, first, *old}
    assert second in reached.ids
    assert all(path.stat().st_mtime == 1_000_000 for path in tmp_path.rglob("*") if path.is_file())
    database.delete()
    contents = read_store(tmp_path)
    assert not {*database.data, *database.meta} & reach(contents.layers, contents.roots).ids


def test_equal_seeds_give_equal_stores(tmp_path: Path) -> None:
    for name in ("a", "b"):
        populate(StoreWriter(tmp_path / name, seed=3), 300, Random(5))
    left, right = read_store(tmp_path / "a"), read_store(tmp_path / "b")
    assert left == right
    assert len(left.layers) >= 300
    one = next(iter(left.layers.values()))
    data = (tmp_path / "a" / one.id[:3] / f"{one.id}.larch").read_bytes()
    assert decode_archive(one.id, data).names == one.names
