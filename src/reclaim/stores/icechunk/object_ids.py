"""Object ids: 12 bytes, in names 20 characters of Crockford's base32, many at once."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa

ID_BYTES = 12
ID_LETTERS = 20
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
PATTERN = f"[{ALPHABET}]{{{ID_LETTERS - 1}}}[0G]"
"""Regular expression of an id. The last character holds one bit of the id and four zero bits."""

Ids = npt.NDArray[np.uint8]
"""Ids, as rows."""

_NAME = re.compile(PATTERN)
_LETTERS = np.frombuffer(ALPHABET.encode(), np.uint8)
_ZERO_BITS = 5 * ID_LETTERS - 8 * ID_BYTES
_NUMBER_SHIFTS = range(5 * (ID_LETTERS - 1), -1, -5)
_FIRST_BITS = 5 * np.arange(ID_LETTERS)
_FIRST_BYTES = _FIRST_BITS // 8
_PAIR_SHIFTS = (11 - _FIRST_BITS % 8).astype(np.uint16)
"""Shift of each letter within its pair of bytes."""


def is_id(text: str) -> bool:
    """Whether a text is an id as written by the library, in capital letters."""
    return _NAME.fullmatch(text) is not None


def names(ids: Ids, prefix: str = "") -> pa.Array:
    """Name of each id, with a prefix."""
    head = np.frombuffer(prefix.encode(), np.uint8)
    rows = len(ids)
    width = len(head) + ID_LETTERS
    text = np.empty((rows, width), np.uint8)
    text[:, : len(head)] = head
    text[:, len(head) :] = _letters(ids)
    # Offsets of a plain string column are 32 bits wide.
    if rows * width >= 2**31:
        raise OverflowError(f"{rows} names are too many for one column")
    offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(width)
    return pa.StringArray.from_buffers(rows, pa.py_buffer(offsets), pa.py_buffer(text))


def name(id: bytes) -> str:
    """Name of an id."""
    number = int.from_bytes(id, "big") << _ZERO_BITS
    return "".join([ALPHABET[number >> shift & 31] for shift in _NUMBER_SHIFTS])


def packed(name: str) -> bytes:
    """Id of a name."""
    bits = 0
    for letter in name:
        bits = bits << 5 | ALPHABET.index(letter)
    # The name has four bits more than the id.
    return (bits >> ID_LETTERS * 5 - ID_BYTES * 8).to_bytes(ID_BYTES, "big")


def _letters(ids: Ids) -> npt.NDArray[np.uint8]:
    padded = np.zeros((len(ids), ID_BYTES + 1), np.uint16)
    padded[:, :ID_BYTES] = ids
    # Every letter is within two adjacent bytes.
    pairs = padded[:, :-1] << np.uint16(8) | padded[:, 1:]
    digits = pairs[:, _FIRST_BYTES] >> _PAIR_SHIFTS & np.uint16(31)
    letters: npt.NDArray[np.uint8] = _LETTERS[digits]
    return letters
