"""Dictionaries: the decoder against the writer, and against everything that is not one."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reclaim.errors import Corrupt
from reclaim.stores.terminus.tfc import entries, find_ids
from tests.support.terminus import encode_dictionary, encode_values
from tests.support.terminus.encode import encode_vbyte

ID = "0123456789abcdef0123456789abcdef01234567"
OTHER = ID[:39] + "8"

ids = st.integers(0, 2**160 - 1).map(lambda number: f"{number:040x}".encode())
texts = st.one_of(
    ids,
    ids.map(lambda found: found[:20] + b"0" * 20),
    ids.map(lambda found: b'"' + found + b'"'),
    ids.map(lambda found: found + b"0"),
    ids.map(bytes.upper),
    st.binary(max_size=60),
    st.text("abcdef0123456789", min_size=36, max_size=44).map(str.encode),
    st.binary(min_size=120, max_size=300),
)
dictionaries = st.lists(texts, max_size=40, unique=True).map(sorted)
widths = {3: 4, 4: 8}
typed = st.lists(
    st.one_of(
        st.tuples(st.just(0), texts),
        st.tuples(st.just(3), st.binary(min_size=4, max_size=4)),
        st.tuples(st.just(4), st.binary(min_size=8, max_size=8)),
        st.tuples(st.just(7), texts),
    ),
    max_size=60,
    unique=True,
).map(sorted)


def oracle(values: list[bytes]) -> set[str]:
    """Runs of hex digits that are 40 long, found the slow way."""
    runs = {run for value in values for run in re.split(rb"[^0-9a-f]", value)}
    return {run.decode() for run in runs if len(run) == 40}


@given(typed)
def test_what_was_written_is_read(values: list[tuple[int, bytes]]) -> None:
    blocks = encode_values(values, widths=widths).blocks
    assert list(entries(blocks)) == [value for _, value in values]
    found = find_ids(blocks)
    assert len(set(found)) == len(found)
    assert set(found) == oracle([value for _, value in values])


@given(dictionaries)
@example([])
@example([ID.encode()])
def test_a_cut_dictionary_is_never_read(values: list[bytes]) -> None:
    blocks, _ = encode_dictionary(values)
    for end in range(len(blocks)):
        for read in (find_ids, entries):
            with pytest.raises(Corrupt):
                list(read(blocks[:end]))


@given(dictionaries, st.data())
def test_a_changed_byte_is_read_the_same_way_by_both(
    values: list[bytes], data: st.DataObject
) -> None:
    blocks = bytearray(encode_dictionary(values)[0])
    at = data.draw(st.integers(0, len(blocks) - 1))
    blocks[at] = data.draw(st.integers(0, 255))
    both_agree(bytes(blocks))


@given(st.binary(max_size=80))
def test_other_bytes_are_corrupt_or_agreed_on(data: bytes) -> None:
    both_agree(data)


def both_agree(data: bytes) -> None:
    try:
        expected = oracle(list(entries(data)))
    except Corrupt:
        with pytest.raises(Corrupt):
            find_ids(data)
    else:
        assert set(find_ids(data)) == expected


def block(control: int, head: bytes, *rest: bytes) -> bytes:
    return bytes([control]) + encode_vbyte(len(head)) + head + b"".join(rest)


def counted(blocks: bytes, count: int) -> bytes:
    return blocks + count.to_bytes(8, "big")


def test_ids_that_share_their_beginning_are_found() -> None:
    blocks, _ = encode_dictionary([ID.encode(), OTHER.encode()])
    assert OTHER.encode() not in blocks
    assert find_ids(blocks) == (ID, OTHER)


@pytest.mark.parametrize("text", ['"{}"', "\"{}\"^^'xsd:string'", "en@{}", "Layer/{}", " {} "])
def test_an_id_inside_an_entry_is_found(text: str) -> None:
    assert find_ids(encode_dictionary([text.format(ID).encode()])[0]) == (ID,)


@pytest.mark.parametrize("text", [ID[:39], ID + "0", ID.upper(), "g" + ID[1:]])
def test_what_is_no_id_is_not_found(text: str) -> None:
    assert find_ids(encode_dictionary([text.encode()])[0]) == ()


def test_entries_longer_than_127_bytes() -> None:
    values = [b"x" * 1000, b"x" * 1000 + ID.encode()[:1] * 20000, b"y" * 3 + ID.encode()]
    blocks, _ = encode_dictionary(values)
    assert list(entries(blocks)) == values
    assert find_ids(blocks) == (ID,)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "does not end where"),
        (b"\0" * 7, "does not end where"),
        (counted(b"", 1), "says that it has 1"),
        (counted(block(0, b"a"), 0), "says that it has 0"),
        (counted(block(0, b"a"), 2), "says that it has 2"),
        (counted(block(0, b"a")[:-1], 1), "does not end where"),
        (counted(block(1 << 3, b"a"), 1), "unknown kind, 1"),
        (counted(block(31 << 3, b"a"), 1), "unknown kind, 31"),
        (counted(block(1, b"a", b"\x82", b"\x80"), 2), "shares more"),
        (counted(block(1 | 3 << 3, b"aaaa", b"\x85"), 2), "shares 5"),
        (counted(b"\0" * 30, 1), "does not end"),
        (counted(b"\0\0\0\0\xff" + b"a", 1), "ends"),
    ],
)
def test_what_does_not_parse_is_corrupt(data: bytes, why: str) -> None:
    with pytest.raises(Corrupt):
        list(entries(data))
    with pytest.raises(Corrupt, match=why):
        find_ids(data)
