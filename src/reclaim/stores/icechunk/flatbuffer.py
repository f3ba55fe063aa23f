"""FlatBuffers, as used by Icechunk: single tables, and columns of many tables.

Every position is checked before it is read: bytes pointing outside the buffer are ``Damaged``. An
unknown slot is an ``UnknownSlot``: a later version of the format may store needed data there.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

IDENTIFIER = b"Ichk"
_IDENTIFIER_AT = 4

_FEW = 8
"""Maximum number of distinct lists of slots compared in a loop; more are sorted."""

_MANY = 100
"""Minimum number of tables for broadcasting a common value."""

Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


class Damaged(ValueError):
    """Invalid bytes."""


class UnknownSlot(ValueError):
    """A field missing in all known versions of the format."""


class FlatBuffer:
    """Bytes of a FlatBuffer."""

    def __init__(self, data: bytes) -> None:
        if data[_IDENTIFIER_AT : _IDENTIFIER_AT + len(IDENTIFIER)] != IDENTIFIER:
            raise Damaged("its payload has another identifier")
        self.data = data
        self.size = len(data)

    @property
    def root(self) -> FlatTable:
        return FlatTable(self, self.number("<I", 0))

    def number(self, layout: str, position: int) -> int:
        if position < 0 or position + struct.calcsize(layout) > self.size:
            raise Damaged("an offset points outside the file")
        value: int = struct.unpack_from(layout, self.data, position)[0]
        return value

    def gather(self, positions: Positions, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Values at the given positions, which need not be aligned."""
        kind = np.dtype(dtype)
        room = self.size - kind.itemsize + 1
        if not len(positions):
            return np.empty(0, kind)
        if positions.min() < 0 or positions.max() >= room:
            raise Damaged("an offset points outside the file")
        everywhere = np.ndarray((room,), kind, buffer=self.data, strides=(1,))
        return everywhere[positions]

    def vector(self, position: int, item_bytes: int) -> tuple[int, int]:
        """Position of the first item of a vector, and the number of items."""
        length = self.number("<I", position)
        first = position + 4
        if first + length * item_bytes > self.size:
            raise Damaged("a list is longer than the file")
        return first, length

    def targets(self, position: int) -> Positions:
        """Positions of the tables or texts in a vector."""
        first, length = self.vector(position, 4)
        offsets = np.frombuffer(self.data, "<u4", length, first).astype(np.int64)
        return offsets + np.arange(first, first + 4 * length, 4, dtype=np.int64)

    def text(self, position: int) -> str:
        first, length = self.vector(position, 1)
        return self.data[first : first + length].decode()


class FlatTable:
    """A single table. Absent fields have the given default."""

    def __init__(self, buffer: FlatBuffer, position: int) -> None:
        self.buffer = buffer
        self.position = position
        self._slots = position - buffer.number("<i", position)
        self._slots_size = buffer.number("<H", self._slots)
        self._size = buffer.number("<H", self._slots + 2)
        if self._slots_size < 4 or position + self._size > buffer.size:
            raise Damaged("a table is cut off")

    def check_slots(self, known: int, *, empty: Sequence[int] = ()) -> None:
        """Refuse unknown slots, and bytes in slots required to be empty."""
        for slot in range(known, (self._slots_size - 4) // 2):
            if self._field(slot, 1):
                raise UnknownSlot(f"a table has an unknown field ({slot})")
        for slot in empty:
            at = self.target(slot)
            if at and self.buffer.vector(at, 1)[1]:
                raise UnknownSlot(f"a table uses a reserved field ({slot})")

    def number(self, slot: int, layout: str, default: int = 0) -> int:
        at = self._field(slot, struct.calcsize(layout))
        return self.buffer.number(layout, at) if at else default

    def fixed(self, slot: int, size: int) -> bytes | None:
        """Bytes stored in the table itself, such as an id."""
        at = self._field(slot, size)
        return self.buffer.data[at : at + size] if at else None

    def text(self, slot: int) -> str | None:
        at = self.target(slot)
        return self.buffer.text(at) if at else None

    def table(self, slot: int) -> FlatTable | None:
        at = self.target(slot)
        return FlatTable(self.buffer, at) if at else None

    def targets(self, slot: int) -> Positions:
        """Positions of the tables or texts in a vector; empty if absent."""
        at = self.target(slot)
        return self.buffer.targets(at) if at else np.empty(0, np.int64)

    def tables(self, slot: int) -> Iterator[FlatTable]:
        for position in self.targets(slot).tolist():
            yield FlatTable(self.buffer, position)

    def items(self, slot: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Items of a vector of numbers or structs, without a copy."""
        at, kind = self.target(slot), np.dtype(dtype)
        if not at:
            return np.empty(0, kind)
        first, length = self.buffer.vector(at, kind.itemsize)
        return np.frombuffer(self.buffer.data, kind, length, first)

    def offset(self, slot: int, size: int) -> int:
        """Offset of a slot's value from the beginning of the table; 0 if absent."""
        entry = 4 + 2 * slot
        if entry + 2 > self._slots_size:
            return 0
        offset = self.buffer.number("<H", self._slots + entry)
        if not offset:
            return 0
        if offset + size > self._size:
            raise Damaged("a table is cut off")
        return offset

    def _field(self, slot: int, size: int) -> int:
        offset = self.offset(slot, size)
        return self.position + offset if offset else 0

    def target(self, slot: int) -> int:
        """Target position of a slot; 0 if absent."""
        at = self._field(slot, 4)
        return at + self.buffer.number("<I", at) if at else 0


class Tables:
    """Many tables of one kind, as columns, without a loop.

    Tables with the same fields share their list of slots. These lists are few: each is read once,
    and looked up for each table.
    """

    def __init__(self, buffer: FlatBuffer, positions: Positions) -> None:
        self.buffer = buffer
        self.positions = positions
        self._slots, self._list_of = _distinct(positions - buffer.gather(positions, "<i4"))
        self._slots_size = buffer.gather(self._slots, "<u2")
        self._size = buffer.gather(self._slots + 2, "<u2").astype(np.int64)
        if len(positions) and (
            self._slots_size.min() < 4 or (positions + self._each(self._size)).max() > buffer.size
        ):
            raise Damaged("a table is cut off")

    def __len__(self) -> int:
        return len(self.positions)

    def check_slots(self, known: int, *, empty: Sequence[int] = ()) -> None:
        """Refuse unknown slots, and bytes in slots required to be empty."""
        if not len(self):
            return
        for slot in range(known, (int(self._slots_size.max()) - 4) // 2):
            if self._offsets(slot, 1).any():
                raise UnknownSlot(f"a table has an unknown field ({slot})")
        for slot in empty:
            if not self._offsets(slot, 1).any():
                continue
            present = self.has(slot)
            if self.buffer.gather(self.targets(slot, present), "<u4").any():
                raise UnknownSlot(f"a table uses a reserved field ({slot})")

    def has(self, slot: int) -> Flags:
        """Whether each table has a slot."""
        present: Flags = self._each(self._offsets(slot, 1) != 0)
        return present

    def numbers(self, slot: int, dtype: npt.DTypeLike, default: int = 0) -> npt.NDArray[Any]:
        """Value of a slot in each table."""
        kind = np.dtype(dtype)
        present = self.has(slot)
        if present.all():
            return self.buffer.gather(self._fields(slot, kind.itemsize), kind)
        values = np.full(len(self), default, kind)
        values[present] = self.buffer.gather(self._fields(slot, kind.itemsize, present), kind)
        return values

    def fixed(self, slot: int, size: int, present: Flags) -> npt.NDArray[np.uint8]:
        """Bytes of a slot in some tables, one row each; the slot must be present."""
        at = self._fields(slot, size, present)
        rows = self.buffer.gather(at, f"V{size}")
        return rows.view(np.uint8).reshape(len(at), size)

    def targets(self, slot: int, present: Flags) -> Positions:
        """Target positions of a slot in some tables."""
        at = self._fields(slot, 4, present)
        pointed: Positions = at + self.buffer.gather(at, "<u4")
        return pointed

    def _fields(self, slot: int, size: int, present: Flags | None = None) -> Positions:
        """Positions of a slot's value in some tables; the slot must be present."""
        offsets = self._each(self._offsets(slot, size))
        positions = self.positions
        if present is not None and not present.all():
            offsets, positions = offsets[present], positions[present]
        if not offsets.all():
            raise Damaged("a table lacks a field")
        fields: Positions = positions + offsets
        return fields

    def _offsets(self, slot: int, size: int) -> Positions:
        """Offset of a slot's value, by list of slots; 0 where absent."""
        entry = 4 + 2 * slot
        if len(self._slots) == 1:
            return np.array([self._only_offset(entry, size)], np.int64)
        listed = self._slots_size >= entry + 2
        offsets = np.zeros(len(self._slots), np.int64)
        offsets[listed] = self.buffer.gather(self._slots[listed] + entry, "<u2")
        if (offsets + size > self._size)[offsets != 0].any():
            raise Damaged("a table is cut off")
        return offsets

    def _only_offset(self, entry: int, size: int) -> int:
        """Offset for a single list of slots, as in most small files: without a column."""
        if int(self._slots_size[0]) < entry + 2:
            return 0
        offset = self.buffer.number("<H", int(self._slots[0]) + entry)
        if offset and offset + size > int(self._size[0]):
            raise Damaged("a table is cut off")
        return offset

    def _each(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Expand values of the lists of slots to all tables."""
        if len(values) == 1 and len(self) < _MANY:
            return np.full(len(self), values[0])
        if len(values) and (values == values[0]).all():
            return np.broadcast_to(values[0], len(self))
        return values[self._list_of]


def _distinct(positions: Positions) -> tuple[Positions, npt.NDArray[np.intp]]:
    """Distinct positions, and for every given position the index of its distinct position."""
    which = np.zeros(len(positions), np.intp)
    distinct = positions[:1].tolist()
    others = np.flatnonzero(positions != positions[:1])
    while len(others):
        if len(distinct) == _FEW:
            values, which = np.unique(positions, return_inverse=True)
            return values, which
        which[others] = len(distinct)
        distinct.append(int(positions[others[0]]))
        others = others[positions[others] != distinct[-1]]
    return np.array(distinct, np.int64), which
