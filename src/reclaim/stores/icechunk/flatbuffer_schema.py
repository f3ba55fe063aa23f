"""Schemas of FlatBuffers, and their values: read completely, changed, and written completely.

A table is a dictionary of its present slots. A slot missing in the schema is an ``UnknownSlot``, so
no data is lost between reading and writing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flatbuffers import Builder
from flatbuffers import number_types as numbers

from reclaim.stores.icechunk.flatbuffer import (
    IDENTIFIER,
    FlatBuffer,
    FlatTable,
    UnknownSlot,
)

Values = dict[int, Any]
"""Values of a table, by slot."""

_FLAGS = {
    "<B": numbers.Uint8Flags,
    "<H": numbers.Uint16Flags,
    "<I": numbers.Uint32Flags,
    "<i": numbers.Int32Flags,
    "<Q": numbers.Uint64Flags,
}
"""Number types of the builder, by ``struct`` layout."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number, by its ``struct`` layout."""

    layout: str


@dataclass(frozen=True, slots=True)
class Fixed:
    """Bytes of a fixed size stored in the table itself, such as an id."""

    size: int


@dataclass(frozen=True, slots=True)
class String:
    """A text."""


@dataclass(frozen=True, slots=True)
class Bytes:
    """A list of items of a fixed size, copied unchanged."""

    item_size: int = 1


@dataclass(frozen=True, slots=True)
class Many:
    """A list of tables or texts."""

    item: TableSchema | String


@dataclass(frozen=True, slots=True)
class Union:
    """A table of one of several kinds; the preceding slot has the number of the kind."""

    kinds: Mapping[int, TableSchema]


@dataclass(frozen=True, slots=True)
class TableSchema:
    """Slots of a table."""

    slots: Mapping[int, Kind]


Kind = Number | Fixed | String | Bytes | Many | Union | TableSchema


def read_values(payload: bytes, schema: TableSchema) -> Values:
    """All values of a FlatBuffer."""
    return _read_table(FlatBuffer(payload).root, schema)


def _read_table(table: FlatTable, schema: TableSchema) -> Values:
    table.check_slots(max(schema.slots, default=-1) + 1)
    values: Values = {}
    for slot, kind in schema.slots.items():
        if not table.offset(slot, 1):
            continue
        match kind:
            case Number(layout):
                values[slot] = table.number(slot, layout)
            case Fixed(size):
                values[slot] = table.fixed(slot, size)
            case _:
                target = table.target(slot)
                values[slot] = _read_target(table.buffer, target, kind, values.get(slot - 1, 0))
    return values


def _read_target(buffer: FlatBuffer, position: int, kind: Kind, before: Any) -> Any:
    """Read a value from its target position."""
    match kind:
        case String():
            return buffer.text(position)
        case Bytes(size):
            first, length = buffer.vector(position, size)
            return buffer.data[first : first + length * size]
        case Many(item):
            return [_read_target(buffer, at, item, 0) for at in buffer.targets(position).tolist()]
        case Union(kinds):
            if before not in kinds:
                raise UnknownSlot(f"a table has an unknown kind: {before}")
            return _read_table(FlatTable(buffer, position), kinds[before])
        case TableSchema():
            return _read_table(FlatTable(buffer, position), kind)
    raise TypeError(kind)


def write_values(values: Values, schema: TableSchema) -> bytes:
    """Encode values as a FlatBuffer."""
    builder = Builder()
    builder.Finish(_write_table(builder, values, schema), IDENTIFIER)
    return bytes(builder.Output())


def _write_table(builder: Builder, values: Values, schema: TableSchema) -> int:
    """Write a table after all its targets; return its offset."""
    offsets = {
        slot: _write_target(builder, value, schema.slots[slot], values.get(slot - 1, 0))
        for slot, value in values.items()
        if not isinstance(schema.slots[slot], Number | Fixed)
    }
    builder.StartObject(max(values, default=-1) + 1)
    for slot, value in values.items():
        match schema.slots[slot]:
            case Number(layout):
                builder.Prepend(_FLAGS[layout], value)
            case Fixed():
                _write_bytes(builder, value)
            case _:
                builder.PrependUOffsetTRelative(offsets[slot])
        builder.Slot(slot)
    offset: int = builder.EndObject()
    return offset


def _write_target(builder: Builder, value: Any, kind: Kind, before: Any) -> int:
    """Write the target of a slot; return its offset."""
    offset: int
    match kind:
        case String():
            offset = builder.CreateString(value)
        case Bytes(size):
            builder.StartVector(size, len(value) // size, 1)
            _write_bytes(builder, value)
            offset = builder.EndVector()
        case Many(item):
            targets = [_write_target(builder, element, item, 0) for element in value]
            builder.StartVector(4, len(targets), 4)
            for target in reversed(targets):
                builder.PrependUOffsetTRelative(target)
            offset = builder.EndVector()
        case Union(kinds):
            offset = _write_table(builder, value, kinds[before])
        case TableSchema():
            offset = _write_table(builder, value, kind)
        case _:
            raise TypeError(kind)
    return offset


def _write_bytes(builder: Builder, value: bytes) -> None:
    """Write bytes unchanged, at the builder's position."""
    builder.Prep(1, len(value))
    builder.Pad(len(value))
    builder.Bytes[builder.Head() : builder.Head() + len(value)] = value
