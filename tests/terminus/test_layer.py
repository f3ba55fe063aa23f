"""Layers in both formats: whole, in parts, cut off, and not what they say."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reclaim.errors import Corrupt, UnknownVersion
from reclaim.model import SnapshotId
from reclaim.stores.terminus.files import (
    BASE_FILES,
    CHILD_FILES,
    ID_MAP_FILES,
    OLD_VALUES_FILE,
    PARENT,
    PARENT_FILE,
    REMOVED,
    ROLLUP_FILE,
    VALUES,
    VALUES_FILE,
)
from reclaim.stores.terminus.larch import HEAD, needed, parse_header, split
from reclaim.stores.terminus.layer import (
    DIRECTORY_NEEDS,
    Layer,
    decode_archive,
    decode_directory,
    decode_parts,
    is_id,
)
from tests.support.terminus import encode_archive, encode_values
from tests.terminus.samples import Sample

ME, PARENT_ID, NAMED, TARGET = (SnapshotId(digit * 40) for digit in "123a")
ROLLUP = f"1\n{TARGET}\n".encode()

ids = st.integers(0, 2**160 - 1).map(lambda number: SnapshotId(f"{number:040x}"))
layers = st.builds(
    Layer,
    st.just(ME),
    st.none() | ids,
    st.none() | ids,
    st.lists(ids, max_size=12, unique=True).map(lambda found: tuple(sorted(found))),
    st.booleans(),
)


def files_of(layer: Layer) -> dict[int, bytes]:
    """The numbered files of a layer, without its rollup."""
    known = BASE_FILES if layer.parent is None else CHILD_FILES
    files = dict.fromkeys(known | (ID_MAP_FILES if layer.rolled_up else {}), bytes(8))
    files[VALUES] = encode_values((0, name.encode()) for name in layer.names).blocks
    if layer.parent is not None:
        files[PARENT] = layer.parent.encode()
    return files


def rollup_of(layer: Layer) -> bytes | None:
    return None if layer.rollup is None else f"1\n{layer.rollup}\n".encode()


def directory_of(layer: Layer) -> dict[str, bytes]:
    known = (BASE_FILES if layer.parent is None else CHILD_FILES) | ID_MAP_FILES
    files = {known[number]: data for number, data in files_of(layer).items()}
    rollup = rollup_of(layer)
    return files if rollup is None else files | {ROLLUP_FILE: rollup}


@given(layers)
def test_both_formats_read_what_was_written(layer: Layer) -> None:
    archive = encode_archive(files_of(layer))
    assert split(archive) == files_of(layer)
    assert decode_archive(ME, archive, rollup=rollup_of(layer)) == layer
    directory = directory_of(layer)
    assert decode_directory(ME, directory) == layer
    few = {name: data for name, data in directory.items() if name in DIRECTORY_NEEDS}
    assert decode_directory(ME, few, present=directory) == layer


@given(layers)
def test_parts_are_enough(layer: Layer) -> None:
    data = encode_archive(files_of(layer))
    archive = parse_header(data[:HEAD])
    values, parent = needed(archive)
    found = decode_parts(
        ME,
        archive,
        size=len(data),
        values=data[slice(*values)],
        parent=data[slice(*parent)] if parent else None,
        rollup=rollup_of(layer),
    )
    assert found == layer


@given(layers)
@settings(max_examples=25)
def test_a_cut_archive_is_never_read(layer: Layer) -> None:
    data = encode_archive(files_of(layer))
    for end in range(len(data)):
        with pytest.raises(Corrupt, match=f"the layer {ME} cannot be read"):
            decode_archive(ME, data[:end])
    with pytest.raises(Corrupt, match="must have"):
        decode_archive(ME, data + b"\0")


def test_a_cut_sample_is_never_read(sample: Sample) -> None:
    for path in sorted(sample.folder.glob("*/*.larch"))[:8]:
        data = path.read_bytes()
        for end in range(len(data)):
            with pytest.raises(Corrupt):
                decode_archive(ME, data[:end])


@given(layers, st.data())
def test_zeros_at_the_end_are_never_read_as_less(layer: Layer, data: st.DataObject) -> None:
    """What a crash can leave: a file of the right size whose last pages were not written."""
    whole = encode_archive(files_of(layer))
    at = data.draw(st.integers(0, len(whole)))
    cut = whole[:at] + bytes(len(whole) - at)
    try:
        found = decode_archive(ME, cut)
    except Corrupt:
        return
    # The header and both parts that matter were whole, or zeros as written.
    assert (found.parent, found.names) == (layer.parent, layer.names)


@given(st.binary(max_size=200))
def test_other_bytes_are_no_archive(data: bytes) -> None:
    with pytest.raises(Corrupt):
        decode_archive(ME, data)


@given(layers, st.data())
def test_a_directory_that_is_being_written_is_incomplete(layer: Layer, data: st.DataObject) -> None:
    files = directory_of(layer)
    required = sorted((BASE_FILES if layer.parent is None else CHILD_FILES).values())
    missing = data.draw(st.sampled_from(required))
    del files[missing]
    with pytest.raises(Corrupt, match="incomplete"):
        decode_directory(ME, files)


@pytest.mark.parametrize("name", [VALUES_FILE, PARENT_FILE, ROLLUP_FILE])
def test_a_cut_file_in_a_directory_is_never_read(name: str) -> None:
    files = directory_of(Layer(ME, PARENT_ID, TARGET, (NAMED,)))
    for end in range(len(files[name])):
        with pytest.raises(Corrupt, match=f"the layer {ME} cannot be read"):
            decode_directory(ME, files | {name: files[name][:end]})


def test_a_lost_parent_does_not_make_a_base_layer() -> None:
    child = Layer(ME, PARENT_ID)
    files = files_of(child)
    del files[PARENT]
    with pytest.raises(Corrupt, match="or neither"):
        decode_archive(ME, encode_archive(files))
    base = files_of(Layer(ME)) | {PARENT: PARENT_ID.encode()}
    with pytest.raises(Corrupt, match="or neither"):
        decode_archive(ME, encode_archive(base))
    with pytest.raises(Corrupt, match="a parent and is a base layer"):
        decode_directory(ME, directory_of(Layer(ME)) | {PARENT_FILE: PARENT_ID.encode()})
    with pytest.raises(Corrupt, match="both"):
        decode_directory(ME, directory_of(child) | directory_of(Layer(ME)))


@pytest.mark.parametrize("parent", [b"", b"1" * 39, b"1" * 41, b"g" * 40, b"A" * 40])
def test_a_parent_that_is_no_id(parent: bytes) -> None:
    files = files_of(Layer(ME, PARENT_ID)) | {PARENT: parent}
    with pytest.raises(Corrupt, match="parent"):
        decode_archive(ME, encode_archive(files))


@pytest.mark.parametrize(
    "rollup", [b"", b"1\n\n", ROLLUP[:-1], ROLLUP + b"\n", b"2" + ROLLUP[1:], TARGET.encode()]
)
def test_a_rollup_that_does_not_parse(rollup: bytes) -> None:
    with pytest.raises(Corrupt, match="its rollup is"):
        decode_archive(ME, encode_archive(files_of(Layer(ME))), rollup=rollup)


def test_ends_that_run_backwards() -> None:
    files = files_of(Layer(ME))
    data = bytearray(encode_archive(files))
    header = parse_header(bytes(data))
    width, start = header.ends.width, header.ends.start
    for number in range(VALUES * width, (VALUES + 1) * width):
        data[start + number // 8] &= ~(0x80 >> number % 8) & 0xFF
    with pytest.raises(Corrupt, match="file 6 of an archive"):
        decode_archive(ME, bytes(data))


@pytest.mark.parametrize("missing", [VALUES, REMOVED])
def test_an_archive_without_what_it_must_have(missing: int) -> None:
    files = files_of(Layer(ME, PARENT_ID))
    del files[missing]
    with pytest.raises(Corrupt):
        decode_archive(ME, encode_archive(files))


def test_layers_of_older_versions_are_refused() -> None:
    with pytest.raises(UnknownVersion, match="older version"):
        decode_directory(ME, {OLD_VALUES_FILE: b"", PARENT_FILE: PARENT_ID.encode()})


def test_ids() -> None:
    assert is_id(ME)
    assert not any(map(is_id, ("", ME[1:], ME + "0", "A" * 40, "ü" * 40, f"{ME}\n")))


def test_the_names_of_files_are_those_of_real_stores(sample: Sample) -> None:
    known = {*BASE_FILES.values(), *CHILD_FILES.values(), *ID_MAP_FILES.values(), ROLLUP_FILE}
    found = {path.name for path in sample.folder.glob("*/*/*")}
    assert found - known <= {
        f"child_{sign}_{part}.logarray"
        for sign in ("pos", "neg")
        for part in ("subjects", "objects")
    }
