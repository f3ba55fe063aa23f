"""Arrays of numbers of one width."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reclaim.errors import Corrupt
from reclaim.stores.terminus.logarray import decode_first
from tests.support.terminus import encode_logarray

numbers = st.integers(1, 64).flatmap(
    lambda width: st.lists(st.integers(0, 2**width - 1), max_size=70)
)


@given(numbers, st.binary(max_size=20), st.binary(max_size=20))
def test_an_array_inside_other_bytes(values: list[int], before: bytes, after: bytes) -> None:
    data = encode_logarray(values, control_first=True)
    found, end = decode_first(before + data + after, len(before))
    assert found.values() == values
    assert end == len(before) + len(data)


@given(numbers)
def test_a_cut_array_is_never_read(values: list[int]) -> None:
    first = encode_logarray(values, control_first=True)
    for end in range(len(first)):
        with pytest.raises(Corrupt):
            decode_first(first[:end])


def test_numbers_of_no_bits_are_zero() -> None:
    array, _ = decode_first(b"\0\0\0\3\0\0\0\0")
    assert array.values() == [0, 0, 0]


def test_a_very_long_array_is_not_believed() -> None:
    with pytest.raises(Corrupt, match="ends too early"):
        decode_first(b"\xff" * 4 + b"\x40" + b"\xff" * 3)


@pytest.mark.parametrize("data", [b"", b"1234567", b"\0\0\0\1\x41\0\0\0"])
def test_what_does_not_parse_is_corrupt(data: bytes) -> None:
    with pytest.raises(Corrupt):
        decode_first(data)


@pytest.mark.parametrize("index", [-1, 2])
def test_there_is_nothing_outside(index: int) -> None:
    array, _ = decode_first(encode_logarray([1, 2], control_first=True))
    with pytest.raises(IndexError):
        array[index]
