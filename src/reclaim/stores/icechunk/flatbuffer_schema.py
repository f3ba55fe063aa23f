"""Schemas of FlatBuffers, and their values: read whole, changed, and written whole again.

A table is a dictionary of the slots that are there. What a schema does not have is an
``UnknownSlot``, so that nothing can be lost on the way from one file to the next.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from reclaim.stores.icechunk.flatbuffer import (
    IDENTIFIER,
    Damaged,
    FlatBuffer,
    FlatTable,
    UnknownSlot,
)

Values = dict[int, Any]
"""The values of a table, by slot."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number, by the layout that ``struct`` has for it."""

    layout: str


@dataclass(frozen=True, slots=True)
class Fixed:
    """So many bytes in the table itself, such as an id."""

    size: int


@dataclass(frozen=True, slots=True)
class String:
    """A text."""


@dataclass(frozen=True, slots=True)
class Bytes:
    """A list of items of a fixed size, taken as they are."""

    item_size: int = 1


@dataclass(frozen=True, slots=True)
class Many:
    """A list of tables or texts."""

    item: TableSchema | String


@dataclass(frozen=True, slots=True)
class Union:
    """A table of one of several kinds; the slot before it has the number of the kind."""

    kinds: Mapping[int, TableSchema]


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The slots of a table."""

    slots: Mapping[int, Kind]


Kind = Number | Fixed | String | Bytes | Many | Union | TableSchema


def read_values(payload: bytes, schema: TableSchema) -> Values:
    """All values of a FlatBuffer."""
    return _read_table(FlatBuffer(payload).root, schema)


def _read_table(table: FlatTable, schema: TableSchema) -> Values:
    table.check_slots(max(schema.slots, default=-1) + 1)
    values: Values = {}
    for slot, kind in schema.slots.items():
        if table.offset(slot, 1):
            values[slot] = _read(table, slot, kind, values)
    return values


def _read(table: FlatTable, slot: int, kind: Kind, before: Values) -> Any:
    buffer = table.buffer
    match kind:
        case Number(layout):
            return table.number(slot, layout)
        case Fixed(size):
            return table.fixed(slot, size)
        case String():
            return table.text(slot)
        case Bytes(size):
            return table.items(slot, f"V{size}").tobytes()
        case Many(String()):
            return [buffer.text(position) for position in table.targets(slot).tolist()]
        case Many(TableSchema() as item):
            return [_read_table(one, item) for one in table.tables(slot)]
        case Union(kinds):
            number: int = before.get(slot - 1, 0)
            if number not in kinds:
                raise UnknownSlot(f"a table in it is of a kind that is not known: {number}")
            return _read_one(table, slot, kinds[number])
        case TableSchema():
            return _read_one(table, slot, kind)
    raise TypeError(kind)


def _read_one(table: FlatTable, slot: int, schema: TableSchema) -> Values:
    inner = table.table(slot)
    if inner is None:
        raise Damaged("a table in it is missing")
    return _read_table(inner, schema)


def write_values(values: Values, schema: TableSchema) -> bytes:
    """A FlatBuffer with some values."""
    return _Writer().write(values, schema)


class _Writer:
    """Writes from the front to the back: whatever points at something comes before it."""

    def __init__(self) -> None:
        self._data = bytearray(b"\0\0\0\0" + IDENTIFIER)
        self._slots: dict[bytes, int] = {}
        """Lists of slots that were written before, which tables share."""
        self._waiting: list[tuple[int, Callable[[], int]]] = []
        """Places that point at something which is still to be written."""

    def write(self, values: Values, schema: TableSchema) -> bytes:
        self._point(0, lambda: self._table(values, schema))
        while self._waiting:
            place, make = self._waiting.pop()
            struct.pack_into("<I", self._data, place, make() - place)
        return bytes(self._data)

    def _point(self, place: int, make: Callable[[], int]) -> None:
        self._waiting.append((place, make))

    def _align(self, size: int) -> None:
        self._data += b"\0" * (-len(self._data) % size)

    def _table(self, values: Values, schema: TableSchema) -> int:
        """Write a table, and remember what it points at; its position."""
        end = 4
        offsets: dict[int, int] = {}
        for slot in sorted(values):
            size, alignment = _room(schema.slots[slot])
            offsets[slot] = end + -end % alignment
            end = offsets[slot] + size
        slots = [offsets.get(slot, 0) for slot in range(max(offsets, default=-1) + 1)]
        listed = struct.pack(f"<{2 + len(slots)}H", 4 + 2 * len(slots), end, *slots)
        if listed not in self._slots:
            self._align(2)
            self._slots[listed] = len(self._data)
            self._data += listed
        self._align(8)
        position = len(self._data)
        self._data += struct.pack("<i", position - self._slots[listed]).ljust(end, b"\0")
        for slot, offset in offsets.items():
            self._field(position + offset, values[slot], schema.slots[slot], values.get(slot - 1))
        return position

    def _field(self, place: int, value: Any, kind: Kind, before: Any) -> None:
        match kind:
            case Number(layout):
                struct.pack_into(layout, self._data, place, value)
            case Fixed(size):
                self._data[place : place + size] = value
            case String():
                self._point(place, lambda: self._text(value))
            case Bytes(size):
                self._point(place, lambda: self._bytes(value, size))
            case Many(item):
                self._point(place, lambda: self._many(value, item))
            case Union(kinds):
                self._point(place, lambda: self._table(value, kinds[before]))
            case TableSchema():
                self._point(place, lambda: self._table(value, kind))

    def _bytes(self, value: bytes, item_size: int) -> int:
        self._align(4)
        position = len(self._data)
        self._data += struct.pack("<I", len(value) // item_size) + value
        return position

    def _text(self, value: str) -> int:
        position = self._bytes(value.encode(), 1)
        self._data.append(0)
        return position

    def _many(self, values: list[Any], item: TableSchema | String) -> int:
        self._align(4)
        position = len(self._data)
        self._data += struct.pack("<I", len(values)) + bytes(4 * len(values))
        for number, value in enumerate(values):
            place = position + 4 + 4 * number
            if isinstance(item, String):
                self._point(place, lambda text=value: self._text(text))  # type: ignore[misc]
            else:
                self._point(place, lambda inner=value: self._table(inner, item))  # type: ignore[misc]
        return position


def _room(kind: Kind) -> tuple[int, int]:
    """The size of a value in its table, and what its place must be a multiple of."""
    if isinstance(kind, Number):
        size = struct.calcsize(kind.layout)
        return size, size
    if isinstance(kind, Fixed):
        return kind.size, 1
    return 4, 4
