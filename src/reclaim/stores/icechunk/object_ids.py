"""The ids of objects: 12 bytes, in names as 20 characters of Crockford's base32, many at once."""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt
import pyarrow as pa

ID_BYTES = 12
ID_LETTERS = 20
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
PATTERN = f"[{ALPHABET}]{{{ID_LETTERS - 1}}}[0G]"
"""An id as a regular expression. The last character has one bit of it, and four that are zero."""

Ids = npt.NDArray[np.uint8]
"""Ids, one in each row."""

_NAME = re.compile(PATTERN)
_LETTERS = np.frombuffer(ALPHABET.encode(), np.uint8)
_GROUP_BYTES, _GROUP_LETTERS = 5, 8
"""Five bytes are eight letters."""


def is_id(text: str) -> bool:
    """Whether a text is an id as the library writes it, in capital letters."""
    return _NAME.fullmatch(text) is not None


def names(ids: Ids, prefix: str = "") -> pa.Array:
    """The name of each id, with a prefix in front."""
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
    """The name of one id."""
    text: str = names(np.frombuffer(id, np.uint8).reshape(1, ID_BYTES))[0].as_py()
    return text


def packed(name: str) -> bytes:
    """The id of a name."""
    bits = 0
    for letter in name:
        bits = bits << 5 | ALPHABET.index(letter)
    # The name has four bits more than the id.
    return (bits >> ID_LETTERS * 5 - ID_BYTES * 8).to_bytes(ID_BYTES, "big")


def _letters(ids: Ids) -> npt.NDArray[np.uint8]:
    rows = len(ids)
    groups = -(-ID_BYTES // _GROUP_BYTES)
    padded = np.zeros((rows, groups * _GROUP_BYTES), np.uint64)
    padded[:, :ID_BYTES] = ids
    letters = np.empty((rows, groups * _GROUP_LETTERS), np.uint8)
    for group in range(groups):
        value = np.zeros(rows, np.uint64)
        for at in range(group * _GROUP_BYTES, (group + 1) * _GROUP_BYTES):
            value = (value << np.uint64(8)) | padded[:, at]
        for letter in range(_GROUP_LETTERS):
            shift = np.uint64(5 * (_GROUP_LETTERS - 1 - letter))
            digit = (value >> shift) & np.uint64(31)
            letters[:, group * _GROUP_LETTERS + letter] = _LETTERS[digit]
    return letters[:, :ID_LETTERS]
