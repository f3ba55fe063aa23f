"""Many archives at once, by columns instead of one by one.

Reads the same as ``layer.decode_archive`` does, of archives as servers write them: complete, with
numbers of one or two bytes in their dictionaries. Whatever is not like that is left to the exact
way, which takes it or says what is wrong with it. So nothing is judged here, only skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from reclaim.stores.terminus.columns import Bytes, Flags, Numbers, Words, at_any_byte, to_numbers
from reclaim.stores.terminus.dictionaries import AFTER, find_ids
from reclaim.stores.terminus.files import ID_MAPS, PARENT, REMOVED, VALUES
from reclaim.stores.terminus.logarray import WORD
from reclaim.stores.terminus.tfc import ID_SIZE, TRAILER

_WIDEST = 56
"""A number of so many bits lies within a word that begins at any byte."""
_HEX = np.zeros(256, np.bool_)
_HEX[list(b"0123456789abcdef")] = True


@dataclass(frozen=True, slots=True)
class Batch:
    """Archives that were read, a row for each. Where ``plain`` is false, nothing was."""

    plain: Flags
    parent: pa.Array
    """The id; null for a base layer."""
    names: pa.Array
    """The ids in its values, which may repeat."""
    rolled_up: Flags


def decode_archives(archives: Sequence[bytes]) -> Batch:
    """Read whole archives; one that is empty is skipped."""
    count = len(archives)
    joined = b"".join(chain(archives, (bytes(AFTER),)))
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
    """The headers of the archives that have a proper one. See ``larch``."""

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
        found = cls(data, row, start, size, presence, width, head).only(
            (presence & np.uint64(1) == 0)
            & (length == count)
            & (count > 0)
            & (width > 0)
            & (width <= _WIDEST)
            & (head <= size)
        )
        # Complete, with a dictionary of values, and both a child and a line of parents or neither.
        values = found.values()
        parent = found.has(PARENT)
        return found.only(
            (found.head + found.last() == found.size)
            & (parent == found.has(REMOVED))
            & found.has(VALUES)
            & (found.start + found.head <= values[0])
            & (values[0] + TRAILER <= values[1])
            & (values[1] <= found.start + found.size)
            & (~parent | (found.end(PARENT) == found.last()))
            & (~parent | (found.end(PARENT, before=1) == found.last() - ID_SIZE))
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
        """Where the dictionaries of values begin and end."""
        base = self.start + self.head
        return base + self.end(VALUES, before=1), base + self.end(VALUES)

    def last(self) -> Numbers:
        """Where the last files end."""
        return self._nth(np.bitwise_count(self.presence).astype(np.int64) - 1)

    def end(self, file: int, *, before: int = 0) -> Numbers:
        """Where a file ends, or the one ``before``; of those that have it, counted as ends are."""
        place = np.bitwise_count(self.presence >> np.uint64(63 - file)).astype(np.int64) - 1
        return self._nth(place - before)

    def parents(self) -> bytes:
        """The last bytes of each, which are the parent's id if it has one."""
        return bytes(at_any_byte(self.data, f"V{ID_SIZE}")[self.start + self.size - ID_SIZE])

    def has_proper_parent(self) -> Flags:
        """Whether it is a base layer, or its parent is an id."""
        last = np.frombuffer(self.parents(), np.uint8).reshape(-1, ID_SIZE)
        return ~self.has(PARENT) | _HEX[last].all(axis=1)

    def _nth(self, place: Numbers) -> Numbers:
        bit = np.maximum(place, 0) * self.width
        word = at_any_byte(self.data, ">u8")[self.start + 2 * WORD + (bit >> 3)]
        width = self.width.astype(np.uint64)
        shift = np.uint64(64) - (bit & 7).astype(np.uint64) - width
        found = word.astype(np.uint64) >> shift & ((np.uint64(1) << width) - np.uint64(1))
        return np.where(place < 0, 0, to_numbers(found))


def _strings(there: Flags, ids: bytes) -> pa.Array:
    """A column with an id in some rows and null in the others."""
    offsets = _offsets(there * ID_SIZE)
    valid = pa.py_buffer(np.packbits(there, bitorder="little").tobytes())
    return pa.Array.from_buffers(
        pa.string(), len(there), [valid, offsets.buffers()[1], pa.py_buffer(ids)]
    )


def _offsets(lengths: Numbers) -> pa.Array:
    return pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int32))
