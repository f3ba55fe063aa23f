"""Columns of many tables, which may share their lists of slots or not, against one table each."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from reclaim.stores.icechunk.flatbuffer import Damaged, FlatBuffer, Tables, UnknownSlot
from reclaim.stores.icechunk.flatbuffer_schema import (
    Bytes,
    Fixed,
    Many,
    Number,
    TableSchema,
    write_values,
)

ITEM = TableSchema({0: Number("<Q"), 1: Fixed(12), 2: Number("<H"), 3: Bytes()})
ROOT = TableSchema({0: Many(ITEM)})


def item(generator: Random, slots: tuple[int, ...]) -> dict[int, Any]:
    values: dict[int, Any] = {
        0: generator.randrange(2**40),
        1: generator.randbytes(12),
        2: generator.randrange(2**16),
        3: generator.randbytes(3),
    }
    return {slot: values[slot] for slot in slots}


def written(items: list[dict[int, Any]]) -> Tables:
    buffer = FlatBuffer(write_values({0: items}, ROOT))
    return Tables(buffer, buffer.root.targets(0))


ALIKE = [(0, 1)]
FEW = [(0, 1), (1, 2)]
MANY = [tuple(slot for slot in range(4) if number & 1 << slot) for number in range(16)]


@pytest.mark.parametrize("shapes", [ALIKE, FEW, MANY], ids=["alike", "few", "many"])
def test_columns(shapes: list[tuple[int, ...]]) -> None:
    generator = Random(len(shapes))
    items = [item(generator, generator.choice(shapes)) for _ in range(200)]
    tables = written(items)
    for slot in range(5):
        assert tables.has(slot).tolist() == [slot in values for values in items]
    assert tables.numbers(0, "<u8", default=7).tolist() == [values.get(0, 7) for values in items]
    assert tables.numbers(2, "<u2").tolist() == [values.get(2, 0) for values in items]
    there = tables.has(1)
    assert [bytes(row) for row in tables.fixed(1, 12, there)] == [
        values[1] for values in items if 1 in values
    ]
    tables.check_slots(4)
    if not there.all():
        with pytest.raises(Damaged, match="lacks a field"):
            tables.fixed(1, 12, np.ones(len(tables), np.bool_))
    if shapes is MANY:
        with pytest.raises(UnknownSlot, match=r"unknown field \(3\)"):
            tables.check_slots(3)
        with pytest.raises(UnknownSlot, match=r"reserved field \(3\)"):
            tables.check_slots(4, empty=(3,))


def test_no_tables() -> None:
    tables = written([])
    tables.check_slots(0, empty=(1,))
    assert len(tables) == len(tables.has(1)) == len(tables.numbers(0, "<u8")) == 0
    assert tables.fixed(1, 12, tables.has(1)).shape == (0, 12)


def test_one_odd_table_among_many() -> None:
    """A field that only one of them has is seen, wherever it is."""
    for place in (0, 57, 99):
        items = [item(Random(number), (0, 1)) for number in range(100)]
        items[place] = item(Random(1), (0, 1, 3))
        with pytest.raises(UnknownSlot, match=r"unknown field \(3\)"):
            written(items).check_slots(3)
