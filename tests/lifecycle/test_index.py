"""The index: by partition, in files that have strings for any reader."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reclaim.engine.tasks.index import (
    FEW_PIECES,
    INDEX,
    Span,
    in_partitions,
    overlapping,
    read_index,
    write_index,
)
from reclaim.engine.tasks.parts import Part
from reclaim.storage import ObjectStorage

Row = tuple[str, str, str, int, str]


def table(rows: list[Row]) -> pa.Table:
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    coded = [
        column.dictionary_encode()
        if pa.types.is_dictionary(field.type)
        else column.cast(field.type)
        for column, field in zip(columns, INDEX, strict=True)
    ]
    return pa.table(coded, schema=INDEX)


def rows_of(found: pa.Table) -> list[Row]:
    return [tuple(row.values()) for row in found.to_pylist()]


ORDERED = [("p1", "a1", "x", 1, "r1"), ("p2", "a2", "y", 2, "r1"), ("p3", "a3", "z", 3, "r1")]
MIXED = [(f"p{at % 4}", f"b{at:02d}", f"m{at}", at, "r2") for at in range(3 * FEW_PIECES)]

MANY = 3_000
"""Partitions; the codes of all of them, for each of them, would take 36 MB."""


@pytest.fixture
def storage(tmp_path: Path) -> ObjectStorage:
    return ObjectStorage.open((tmp_path / "objects").as_uri(), create=True)


def test_parts_are_sorted_by_partition_and_cut_at_edges(storage: ObjectStorage) -> None:
    parts = write_index(storage, "index/part", [table(ORDERED), table(MIXED)], ["p1", "p3"])
    assert [len({row[0] for row in rows_of(read_index(storage, part))}) for part in parts] == [
        1,
        2,
        1,
    ]
    found: list[Row] = []
    for part in parts:
        rows = read_index(storage, part)
        names = [row[0] for row in rows_of(rows)]
        assert names == sorted(names)
        assert (Span.of(part).first, Span.of(part).last) == (names[0], names[-1])
        found += rows_of(rows)
    assert sorted(found) == sorted(ORDERED + MIXED)


def test_any_reader_finds_strings(storage: ObjectStorage) -> None:
    [part] = write_index(storage, "index/part", [table(ORDERED)], [])
    plain = pq.read_table(pa.BufferReader(storage.get(part.address)))
    assert plain.schema.field("partition").type == pa.string()
    assert plain.schema.field("range").type == pa.string()
    assert rows_of(plain) == ORDERED
    coded = read_index(storage, part)
    assert coded.schema.types == INDEX.types
    assert rows_of(coded) == ORDERED


def test_rows_of_some_partitions(storage: ObjectStorage) -> None:
    rows = in_partitions(table(ORDERED), {"p1", "p3"}.__contains__)
    assert rows_of(rows) == [ORDERED[0], ORDERED[2]]
    assert in_partitions(rows.slice(0, 0), {"p1"}.__contains__).num_rows == 0


def test_parts_that_may_have_rows_of_some_partitions() -> None:
    spans = [("a", "c"), ("c", "d"), ("f", "f"), ("a", "z")]
    parts = [Part(f"{at}", 1, "", f"{first} {last} 1 2") for at, (first, last) in enumerate(spans)]
    assert [part.address for part in overlapping(parts, ["c"])] == ["0", "1", "3"]
    assert [part.address for part in overlapping(parts, ["e"])] == ["3"]
    assert overlapping(parts, []) == []
    assert overlapping(parts, ["0", "zz"]) == []


def test_nothing_is_no_file(storage: ObjectStorage) -> None:
    assert write_index(storage, "index/part", [INDEX.empty_table()], ["p1"]) == []


def test_many_partitions_take_memory_for_each_once(storage: ObjectStorage) -> None:
    names = [f"p{at * 7919 % MANY:05d}" for at in range(MANY)]
    mixed = table([(name, f"a-{name}", "x", 1, "r1") for name in names])
    usual = pa.default_memory_pool()
    pool = pa.proxy_memory_pool(usual)
    pa.set_memory_pool(pool)
    try:
        (part,) = write_index(storage, "index/part", [table(ORDERED), mixed], [])
    finally:
        pa.set_memory_pool(usual)
    assert pool.max_memory() < 4 * MANY * MANY / 2
    found = [row[:2] for row in rows_of(read_index(storage, part))]
    written = [*(row[:2] for row in ORDERED), *((name, f"a-{name}") for name in names)]
    assert found == sorted(written)
