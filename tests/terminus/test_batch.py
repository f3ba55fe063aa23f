"""Many archives at once: read as one by one, or not at all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reclaim.clock import from_micros
from reclaim.errors import Corrupt
from reclaim.storage import KeyRange
from reclaim.stores.terminus import dictionaries, reading
from reclaim.stores.terminus.addresses import ROLLUP
from reclaim.stores.terminus.batch import decode_archives
from reclaim.stores.terminus.files import PARENT, REMOVED, VALUES
from reclaim.stores.terminus.larch import needed, parse_header
from reclaim.stores.terminus.layer import Layer, decode_archive
from reclaim.stores.terminus.reading import ROLLED_UP, read_layer, read_layers
from reclaim.stores.terminus.store import TerminusStore
from tests.support.terminus import StoreWriter, encode_archive, encode_values, populate
from tests.terminus.samples import Sample
from tests.terminus.test_layer import ME, files_of, layers
from tests.terminus.test_tfc import typed, widths


@pytest.fixture(autouse=True, params=[0, 2, 1000], ids="few={}".format)
def few(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """So few dictionaries are read one by one: none of them, the longest, all."""
    monkeypatch.setattr(dictionaries, "FEW", request.param)


def archive(layer: Layer, values: Sequence[tuple[int, bytes]]) -> bytes:
    blocks = encode_values(values, widths=widths).blocks
    return encode_archive(files_of(layer) | {VALUES: blocks})


archives = st.builds(archive, layers, typed)


def check(found: Sequence[bytes]) -> list[bool]:
    """Compare with what each is by itself; which were read."""
    batch = decode_archives(found)
    rows = zip(found, batch.parent.to_pylist(), batch.names.to_pylist(), strict=True)
    for at, (data, parent, names) in enumerate(rows):
        if batch.plain[at]:
            layer = decode_archive(ME, data)
            assert (layer.parent, layer.names) == (parent, tuple(dict.fromkeys(names)))
            assert layer.rolled_up == batch.rolled_up[at]
        else:
            assert (parent, names, batch.rolled_up[at]) == (None, [], False)
    return list(batch.plain)


@given(st.lists(archives, max_size=6))
@settings(max_examples=60)
def test_what_was_written_is_read(found: list[bytes]) -> None:
    assert all(check(found))


@given(st.lists(archives, min_size=1, max_size=4), st.data())
@settings(max_examples=200)
def test_what_cannot_be_read_by_itself_is_not_read(found: list[bytes], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(found) - 1))
    whole = found[at]
    place = data.draw(st.integers(0, len(whole) - 1))
    found[at] = data.draw(
        st.sampled_from(
            [
                whole[:place],
                whole[:place] + bytes(len(whole) - place),
                whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :],
                whole[:place] + whole[place + 1 :],
                whole + whole[:place],
                b"",
            ]
        )
    )
    plain = check(found)
    assert all(one for other, one in enumerate(plain) if other != at)


@given(st.lists(st.binary(max_size=200), max_size=8))
def test_other_bytes_are_not_read(found: list[bytes]) -> None:
    assert not any(check(found))


VALUED = [
    (0, b"0123" * 10),
    (0, b"0123" * 10 + b"x"),
    (0, b"a" * 40),
    (0, b"b" * 300),
    (3, b"1234"),
    (3, b"1244"),
    (4, b"12345678"),
    (4, b"12345778"),
]


def test_a_cut_archive_is_never_read() -> None:
    data = archive(Layer(ME, parent=ME), VALUED)
    assert not any(check([data[:end] for end in range(len(data))]))


@pytest.mark.parametrize("layer", [Layer(ME), Layer(ME, parent=ME, rolled_up=True)])
def test_any_bit_may_be_wrong(layer: Layer) -> None:
    data = archive(layer, VALUED)
    found = []
    for place in range(8 * len(data)):
        wrong = bytearray(data)
        wrong[place // 8] ^= 0x80 >> place % 8
        found.append(bytes(wrong))
    read = check(found)
    assert any(read)
    assert not all(read)


def test_any_byte_of_a_dictionary_may_be_wrong() -> None:
    data = archive(Layer(ME), VALUED)
    start, end = needed(parse_header(data))[0]
    found = [
        data[:place] + bytes([byte]) + data[place + 1 :]
        for place in range(start, end)
        for byte in (0, 1, 7, 8, 24, 31, 32, 38, 0x7F, 0x80, 0x81, 0x83, 0x85, 0x89, 0xFE, 0xFF)
    ]
    check(found)


def test_an_archive_without_what_it_must_have_is_not_read() -> None:
    found = []
    for layer in (Layer(ME), Layer(ME, parent=ME)):
        files = files_of(layer)
        found += [{key: files[key] for key in files if key != gone} for gone in (VALUES, REMOVED)]
        found += [files | {PARENT: (b"1" * size)} for size in (0, 39, 41, 80)]
        found += [files | {VALUES: bytes(size)} for size in range(8)]
        # The values and the parent in its place: as long, and yet no parent.
        found += [files | {PARENT: b"", PARENT - 1: b"1" * 40}, files | {63: b""}]
    read = check([encode_archive(files) for files in found])
    # A base layer has no file of what it removes; without it, it is whole.
    assert [at for at, one in enumerate(read) if one] == [1]


def test_ends_that_run_backwards_are_not_read() -> None:
    data = archive(Layer(ME), VALUED)
    header = parse_header(data)
    width, found = header.ends.width, []
    for file in range(len(header.ends)):
        for fill in (0, 0xFF):
            wrong = bytearray(data)
            for bit in range(file * width, (file + 1) * width):
                at, mask = header.ends.start + bit // 8, 0x80 >> bit % 8
                wrong[at] = wrong[at] & ~mask | fill & mask
            found.append(bytes(wrong))
    check(found)
    for one in found:
        check([one])


def test_long_entries_are_left_to_the_exact_way() -> None:
    """A number of three bytes is not read here, and nothing is made of it either."""
    small, large = (archive(Layer(ME), [(0, b"x" * size)]) for size in (127, 2**14))
    assert check([small, large]) == [True, dictionaries.FEW > 1]


def test_real_archives_are_read(sample: Sample) -> None:
    found = [path.read_bytes() for path in sorted(sample.folder.glob("*/*.larch"))]
    assert all(check(found))


def broken_store(folder: Path) -> TerminusStore:
    """A store with both formats, rollups, and layers that cannot be read, some of them large."""
    writer = StoreWriter(folder)
    writer.server()
    populate(writer, 60, Random(5))
    writer.archives = False
    populate(writer, 20, Random(6))
    writer.archives = True
    large = writer.layer(values=[f"{number:040x}" for number in range(3000)])
    writer.rollup(large)
    found = sorted(folder.glob("???/*.larch"))
    found[3].write_bytes(found[3].read_bytes()[:-1])
    found[4].write_bytes(b"")
    rollups = sorted(folder.glob("???/*.rollup.hex"))
    rollups[0].write_bytes(b"2\n")
    (folder / "abc").mkdir(exist_ok=True)
    (folder / "abc" / "other.larch").write_bytes(found[5].read_bytes())
    return TerminusStore(folder)


@pytest.mark.parametrize("together", [1, 10_000, reading.BATCH_BYTES])
def test_a_store_is_read_as_its_layers_are(
    tmp_path: Path, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "BATCH_BYTES", together)
    store = broken_store(tmp_path)
    view = store.format.view(store.storage)
    listed = [one for shard in view.shards() for one in view.layers(KeyRange(shard))]
    addresses = [address for address, _, _ in listed]
    rollups = {address for address in addresses if address.endswith(ROLLUP)}
    found = read_layers(view, addresses, rollups)
    assert not found.gone
    rows = found.rows.to_pylist()
    assert sorted((row["address"], row["size"]) for row in rows) == sorted(
        (address, size) for address, size, _ in listed
    )
    changed = {address: from_micros(changed) for address, _, changed in listed}
    assert changed == {row["address"]: row["last_modified"] for row in rows}
    layers = [row for row in rows if row["id"] and not row["address"].endswith(ROLLUP)]
    for row in layers:
        if row["fault"]:
            with pytest.raises(Corrupt, match=re.escape(row["fault"])):
                read_layer(view, row["address"])
            continue
        layer = read_layer(view, row["address"])
        assert (row["parent"], row["through"]) == (layer.parent, layer.rollup)
        assert tuple(dict.fromkeys(row["names"])) == layer.names
        assert row["note"] == (ROLLED_UP if layer.rolled_up else None)
    assert sum(row["fault"] is not None for row in layers) == 3
    for row in rows:
        assert row in layers or not (row["parent"] or row["through"] or row["names"])


@pytest.mark.parametrize("wrong", [-1, 1, -1000])
def test_a_file_that_changes_while_it_is_read_is_read_by_itself(
    tmp_path: Path, wrong: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = StoreWriter(tmp_path)
    layer = writer.layer(values=["a"])
    store = TerminusStore(tmp_path)
    view = store.format.view(store.storage)
    address = f"{store.format.prefix}{layer[:3]}/{layer}.larch"
    whole = reading._read_small

    def torn(path: str, device: int) -> tuple[int, int, bytes]:
        size, changed, data = whole(path, device)
        return size, changed, data[:wrong] if wrong < 0 else data + bytes(wrong)

    monkeypatch.setattr(reading, "_read_small", torn)
    (row,) = read_layers(view, [address], ()).rows.to_pylist()
    assert (row["id"], row["fault"]) == (layer, None)


def test_what_went_is_told_apart_by_who_asks(tmp_path: Path) -> None:
    writer = StoreWriter(tmp_path)
    layer = writer.layer(values=["a"])
    store = TerminusStore(tmp_path)
    view = store.format.view(store.storage)
    address = f"{store.format.prefix}{layer[:3]}/{layer}.larch"
    (tmp_path / layer[:3] / f"{layer}.larch").unlink()
    found = read_layers(view, [address], ())
    assert not found.rows.num_rows
    assert found.gone == [address]
    assert not store.format.survey(store.storage, [KeyRange(one) for one in view.shards()]).num_rows
    (row,) = store.format.snapshots(store.storage, [address]).to_pylist()
    assert (row["id"], row["fault"]) == (layer, "it was deleted")
