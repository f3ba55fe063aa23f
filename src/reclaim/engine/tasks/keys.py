"""Keys: 64-bit hashes by which addresses are compared, computed for whole columns at once.

A live address always has its key among the live keys, so two addresses with the same key can only
keep each other. Nothing is ever chosen for deletion because a key matches. Addresses that differ
only in case have the same key: a case-insensitive file system lists a folder under its first name.

Where entries have no paths, the addresses in dead containers are written as keys, too, to give the
reason for a deletion. There a collision changes the reason text, and deletes or keeps nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reclaim.engine.tasks.parts import Part, loaded_once, read_part, task_storage

Key = npt.NDArray[np.uint64]
Bytes = npt.NDArray[np.uint8]
KeysOf = Callable[[pa.ChunkedArray], Key]

Causes = npt.NDArray[np.int32]

KEYS = pa.schema([pa.field("key", pa.uint64(), nullable=False)])
CAUSES = KEYS.append(pa.field("cause", pa.int32(), nullable=False))
"""Keys of dead addresses, and their causes."""

BLOCK = 8_192
"""Strings hashed at once: few enough for the processor's cache."""

_ODD = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xD6E8FEB86659FD93)
_HALF = np.uint64(32)
_SMALL = np.uint64(0x2020202020202020)
"""The bit of each byte that distinguishes lower case from upper case."""


def keys_of(addresses: pa.ChunkedArray) -> Key:
    """Return the key of each address."""
    chunks = [_keys(chunk) for chunk in addresses.chunks if len(chunk)]
    return np.concatenate(chunks) if chunks else np.empty(0, np.uint64)


def _keys(addresses: pa.Array) -> Key:
    _, offsets, data = addresses.buffers()
    first = addresses.offset
    edges = np.frombuffer(offsets, np.int32)[first : first + len(addresses) + 1]
    # Eight more bytes, to read a word at every offset.
    text = np.concatenate([np.frombuffer(data or b"", np.uint8), np.zeros(8, np.uint8)])
    hashes = np.empty(len(addresses), np.uint64)
    for start in range(0, len(addresses), BLOCK):
        block = edges[start : start + BLOCK + 1]
        lengths = np.diff(block)
        if lengths.min() == lengths.max():
            # Stored one after the other, so the words of all strings are found by counting.
            hashes[start : start + BLOCK] = _hash(_Contiguous(text, block), int(lengths[0]))
            continue
        # A store has few lengths: all strings of the same length are hashed at once.
        for length in np.unique(lengths):
            of_length = np.flatnonzero(lengths == length)
            hashes[start + of_length] = _hash(_Scattered(text, block[of_length]), int(length))
    return hashes


class _Contiguous:
    """Strings of the same length, stored one after the other."""

    def __init__(self, text: Bytes, edges: npt.NDArray[np.int32]) -> None:
        self._text = text
        self._first, self._step = int(edges[0]), int(edges[1] - edges[0])
        self.count = len(edges) - 1

    def words(self, at: int) -> Key:
        """Return eight bytes of each string, from an offset."""
        place = self._first + at
        seen: Any = np.ndarray((self.count,), "<u8", self._text, place, (self._step,))
        words: Key = seen.copy()
        return words


class _Scattered:
    """Strings of the same length at any position."""

    def __init__(self, text: Bytes, starts: npt.NDArray[np.int32]) -> None:
        self._words: Any = np.ndarray((len(text) - 7,), "<u8", buffer=text, strides=(1,))
        self._starts = starts
        self.count = len(starts)

    def words(self, at: int) -> Key:
        words: Key = self._words[self._starts + at]
        return words


def _hash(strings: _Contiguous | _Scattered, length: int) -> Key:
    """Hash strings of the same length: every whole word, and the end of the last word."""
    with np.errstate(over="ignore"):
        mixed = np.full(strings.count, np.uint64(length) * _ODD, np.uint64)
        for at in range(0, length, 8):
            word = strings.words(at)
            word |= _SMALL
            if at + 8 > length:
                word &= np.uint64((1 << 8 * (length - at)) - 1)
            # Multiplication by an odd number loses nothing; the high bits rotate after every fourth
            # word, which is cheaper than after each.
            mixed ^= word
            mixed *= _ODD
            if at % 32 == 24:
                mixed ^= mixed >> _HALF
        mixed ^= mixed >> _HALF
        mixed *= _MIX
        mixed ^= mixed >> _HALF
    return mixed


@loaded_once(2)
def load(url: str, parts: tuple[Part, ...]) -> Key:
    """Return all keys of some parts, sorted; loaded once in each process using them."""
    storage = task_storage(url)
    columns = [read_part(storage, part).column("key").to_numpy() for part in parts]
    if not columns:
        return np.empty(0, np.uint64)
    # Each part is sorted, which makes this sort fast.
    return np.sort(np.concatenate(columns), kind="stable")


def among(keys: Key, live: Key) -> npt.NDArray[np.bool_]:
    """Return whether each key is among the live keys, which are sorted."""
    if not len(live):
        return np.zeros(len(keys), np.bool_)
    order = np.argsort(keys)
    sorted_keys = keys[order]
    at = np.searchsorted(live, sorted_keys)
    at[at == len(live)] = 0
    is_live = np.empty(len(keys), np.bool_)
    is_live[order] = live[at] == sorted_keys
    return is_live


def table(keys: Sequence[Key]) -> pa.Table:
    """Return keys as a table."""
    whole = np.unique(np.concatenate([np.empty(0, np.uint64), *keys]))
    return pa.table([pa.array(whole)], schema=KEYS)


@loaded_once(1)
def load_causes(url: str, parts: tuple[Part, ...]) -> tuple[Key, Causes]:
    """Return the keys of dead addresses, sorted, and their causes; of equal keys the least
    cause."""
    storage = task_storage(url)
    tables = [CAUSES.empty_table(), *(read_part(storage, part) for part in parts)]
    whole = pa.concat_tables(tables)
    keys, causes = (whole.column(name).to_numpy() for name in CAUSES.names)
    order = np.lexsort((causes, keys))
    return keys[order], causes[order]


def find_causes(keys: Key, dead: Key, causes: Causes) -> pa.Array:
    """Return the cause of each key; null if no dead address has it."""
    at = np.searchsorted(dead, keys)
    at[at == len(dead)] = 0
    absent = dead[at] != keys if len(dead) else np.ones(len(keys), np.bool_)
    known = causes[at] if len(dead) else np.zeros(len(keys), np.int32)
    return pa.array(known, pa.int32(), mask=absent)


def causes_table(keys: Sequence[Key], causes: Sequence[Causes]) -> pa.Table:
    """Return keys of dead addresses and their causes as a table."""
    columns = (
        np.concatenate([np.empty(0, np.uint64), *keys]),
        np.concatenate([np.empty(0, np.int32), *causes]),
    )
    return pa.table([pa.array(column) for column in columns], schema=CAUSES)
