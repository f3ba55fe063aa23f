"""Decoding of many archives at once, by columns.

Gives the same results as ``layer.decode_archive`` for archives as written by servers: complete,
with numbers of one or two bytes in their dictionaries. All other archives are left to the exact
decoder, which reads them or reports their fault. This module never judges an archive, it only
skips.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from reclaim.stores.terminus.columns import Bytes, Flags, Numbers, Words, at_any_byte, to_numbers
from reclaim.stores.terminus.dictionaries import PADDING, find_ids
from reclaim.stores.terminus.files import ID_MAPS, PARENT, REMOVED, VALUES
from reclaim.stores.terminus.logarray import WORD
from reclaim.stores.terminus.tfc import ID_SIZE, TRAILER

_WIDEST = 56
"""Maximum width of a number in bits such that it always fits in a word beginning at any byte."""
_HEX = np.zeros(256, np.bool_)
_HEX[list(b"0123456789abcdef")] = True


@dataclass(frozen=True, slots=True)
class Batch:
    """Decoded archives, a row each. Rows with ``plain`` false were skipped."""

    plain: Flags
    parent: pa.Array
    """Parent id; null for a base layer."""
    names: pa.Array
    """Ids in its values, possibly repeated."""
    rolled_up: Flags


def decode_archives(archives: Sequence[bytes]) -> Batch:
    """Decode whole archives; skip empty archives."""
    count = len(archives)
    joined = b"".join(chain(archives, (bytes(PADDING),)))
    data = np.frombuffer(joined, np.uint8)
    sizes = np.fromiter(map(len, archives), np.int64, count)
    heads = _Heads.read(data, np.cumsum(sizes) - sizes, sizes)
    heads = heads.only(heads.has_proper_parent())
    ids = find_ids(joined, *heads.values())
    kept = ids.plain[ids.owner]
    names = np.bincount(heads.row[ids.owner[kept]], minlength=count)
    heads = heads.only(ids.plain)

    plain, rolled_up, child = (np.zeros(count, np.bool_) for _ in range(3))
    plain[heads.row] = True
    rolled_up[heads.row] = heads.has(ID_MAPS)
    child[heads.row] = heads.has(PARENT)
    return Batch(
        plain,
        parent=_strings(child, heads.only(heads.has(PARENT)).parents()),
        names=pa.ListArray.from_arrays(_offsets(names), ids.ids.filter(pa.array(kept))),
        rolled_up=rolled_up,
    )


@dataclass(frozen=True, slots=True)
class _Heads:
    """Headers of the archives with a valid header. See ``larch``."""

    data: Bytes
    row: Numbers
    start: Numbers
    size: Numbers
    presence: Words
    width: Numbers
    head: Numbers

    @classmethod
    def read(cls, data: Bytes, start: Numbers, size: Numbers) -> _Heads:
        row = np.flatnonzero(size >= 3 * WORD)
        start, size = start[row], size[row]
        words = at_any_byte(data, ">u8")
        presence = words[start].astype(np.uint64)
        control = words[start + WORD].astype(np.uint64)
        length = (control & np.uint64(0xFFFFFF)) << np.uint64(32) | control >> np.uint64(32)
        width = to_numbers(control >> np.uint64(24) & np.uint64(0xFF))
        count = np.bitwise_count(presence).astype(np.uint64)
        head = 2 * WORD + -(-to_numbers(count) * width // 64) * WORD
        heads = cls(data, row, start, size, presence, width, head).only(
            (presence & np.uint64(1) == 0)
            & (length == count)
            & (count > 0)
            & (width > 0)
            & (width <= _WIDEST)
            & (head <= size)
        )
        # Complete, with a dictionary of values, and with both removals and a parent or neither.
        values = heads.values()
        parent = heads.has(PARENT)
        return heads.only(
            (heads.head + heads.last() == heads.size)
            & (parent == heads.has(REMOVED))
            & heads.has(VALUES)
            & (heads.start + heads.head <= values[0])
            & (values[0] + TRAILER <= values[1])
            & (values[1] <= heads.start + heads.size)
            & (~parent | (heads.end(PARENT) == heads.last()))
            & (~parent | (heads.end(PARENT, before=1) == heads.last() - ID_SIZE))
        )

    def only(self, which: Flags) -> _Heads:
        return _Heads(
            self.data,
            row=self.row[which],
            start=self.start[which],
            size=self.size[which],
            presence=self.presence[which],
            width=self.width[which],
            head=self.head[which],
        )

    def has(self, file: int) -> Flags:
        return (self.presence >> np.uint64(63 - file) & np.uint64(1)).astype(np.bool_)

    def values(self) -> tuple[Numbers, Numbers]:
        """Start and end of the dictionaries of values."""
        base = self.start + self.head
        return base + self.end(VALUES, before=1), base + self.end(VALUES)

    def last(self) -> Numbers:
        """End of the last files."""
        return self._nth(np.bitwise_count(self.presence).astype(np.int64) - 1)

    def end(self, file: int, *, before: int = 0) -> Numbers:
        """End of a file, or of the file ``before``, for archives containing it; relative like all
        ends.
        """
        place = np.bitwise_count(self.presence >> np.uint64(63 - file)).astype(np.int64) - 1
        return self._nth(place - before)

    def parents(self) -> bytes:
        """Last bytes of each archive: the parent's id, if it has a parent."""
        return bytes(at_any_byte(self.data, f"V{ID_SIZE}")[self.start + self.size - ID_SIZE])

    def has_proper_parent(self) -> Flags:
        """Whether it is a base layer, or its parent is a valid id."""
        last = np.frombuffer(self.parents(), np.uint8).reshape(-1, ID_SIZE)
        return ~self.has(PARENT) | _HEX[last].all(axis=1)

    def _nth(self, place: Numbers) -> Numbers:
        bit = np.maximum(place, 0) * self.width
        word = at_any_byte(self.data, ">u8")[self.start + 2 * WORD + (bit >> 3)]
        width = self.width.astype(np.uint64)
        shift = np.uint64(64) - (bit & 7).astype(np.uint64) - width
        value = word.astype(np.uint64) >> shift & ((np.uint64(1) << width) - np.uint64(1))
        return np.where(place < 0, 0, to_numbers(value))


def _strings(present: Flags, ids: bytes) -> pa.Array:
    """Column with an id in some rows and null in the others."""
    offsets = _offsets(present * ID_SIZE)
    valid = pa.py_buffer(np.packbits(present, bitorder="little").tobytes())
    return pa.Array.from_buffers(
        pa.string(), len(present), [valid, offsets.buffers()[1], pa.py_buffer(ids)]
    )


def _offsets(lengths: Numbers) -> pa.Array:
    return pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))
