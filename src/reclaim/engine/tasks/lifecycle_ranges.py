"""Ranges of commits, each once with the union of its bits, before any entry is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks.index import CountedReads
from reclaim.engine.tasks.lifecycle import NOBODY, RANGES, ReachNames, numpy_of
from reclaim.engine.tasks.reading import LIVE, reader_of
from reclaim.storage.read_ahead import read_ahead
from reclaim.stores.format import CONTAINERS, NO_READ, Format


def expand_metaranges(
    format: Format, reads: CountedReads, metaranges: pa.Table
) -> Iterator[pa.Table]:
    """Yield the ranges of metaranges, with their bits. An unreadable metarange stops the run."""
    expand = partial(_expand, format, reads)
    return read_ahead(reads.storage, expand, metaranges.to_pylist())


def _expand(format: Format, reads: CountedReads, metarange: dict[str, Any]) -> pa.Table:
    listed = reader_of(format).containers(reads, metarange["address"])
    named = listed.select(["address", "detail", "entries"])
    for at, name in enumerate(("bits", "holder", "branch"), start=3):
        value = pa.scalar(metarange[name], RANGES.field(at).type)
        named = named.append_column(RANGES.field(at), pa.repeat(value, named.num_rows))
    return named.cast(RANGES)


def merge_ranges(tables: Iterable[pa.Table]) -> pa.Table:
    """Return ranges, each once with the union of its bits."""
    rows = pa.concat_tables([RANGES.empty_table(), *tables]).combine_chunks()
    if not rows.num_rows:
        return rows
    codes = numpy_of(rows.column("address").combine_chunks().dictionary_encode().indices, np.int64)
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(codes[order]) != 0))
    merged = rows.take(pa.array(order[starts]))
    for name, union in (
        ("bits", np.bitwise_or),
        ("holder", np.minimum),
        ("branch", np.minimum),
    ):
        at = RANGES.get_field_index(name)
        field = RANGES.field(at)
        values = numpy_of(rows.column(name), np.int64)[order]
        merged = merged.set_column(
            at, field, pa.array(union.reduceat(values, starts)).cast(field.type)
        )
    return merged


@dataclass(frozen=True, slots=True)
class Renumbering:
    """Maps numbers of names in an earlier run to current numbers; ``NOBODY`` for removed names."""

    holders: tuple[int, ...]
    branches: tuple[int, ...]

    @classmethod
    def of(cls, then: ReachNames, now: ReachNames) -> Renumbering:
        columns = []
        for names_then, names_now in ((then.holders, now.holders), (then.branches, now.branches)):
            numbers = {name: number for number, name in reversed(list(enumerate(names_now)))}
            columns.append(tuple(numbers.get(name, NOBODY) for name in names_then))
        return cls(*columns)

    def apply(self, ranges: pa.Table) -> pa.Table:
        for name, numbers in (("holder", self.holders), ("branch", self.branches)):
            at = RANGES.get_field_index(name)
            known = np.array([*numbers, NOBODY], np.int32)
            values = numpy_of(ranges.column(name), np.int64)
            renumbered = known[np.minimum(values, len(numbers))]
            ranges = ranges.set_column(at, RANGES.field(at), pa.array(renumbered, pa.int32()))
        return ranges


def reached(ranges: pa.Table) -> pa.Table:
    """Return the ranges with bits."""
    return ranges.filter(pc.not_equal(ranges.column("bits"), 0))


def as_containers(ranges: pa.Table) -> pa.Table:
    """Return the ranges with bits, as ``CONTAINERS``."""
    live = reached(ranges)
    rows = live.num_rows
    columns = [
        live.column("address"),
        pa.repeat(pa.scalar("range", pa.string()), rows),
        live.column("detail"),
        live.column("entries"),
        pa.repeat(pa.scalar(LIVE, pa.int32()), rows),
    ]
    return pa.table(columns, schema=CONTAINERS)


def named_metaranges(metaranges: pa.Table) -> pa.Table:
    """Return the metaranges read, as ``CONTAINERS``."""
    rows = metaranges.num_rows
    columns = [
        metaranges.column("address"),
        pa.repeat(pa.scalar("metarange", pa.string()), rows),
        pa.repeat(pa.scalar(NO_READ, pa.string()), rows),
        pa.repeat(pa.scalar(0, pa.int64()), rows),
        pa.repeat(pa.scalar(LIVE, pa.int32()), rows),
    ]
    return pa.table(columns, schema=CONTAINERS)


@dataclass(frozen=True, slots=True)
class RangeBits:
    """Ranges by address, with their bits."""

    addresses: pa.Array
    bits: Any
    holders: Any
    branches: Any

    @classmethod
    def of(cls, ranges: pa.Table) -> RangeBits:
        """Return the bits of ranges. An unknown range has none."""
        values = [
            np.append(numpy_of(ranges.column(name), kind), empty)
            for name, kind, empty in (
                ("bits", np.int64, 0),
                ("holder", np.int32, NOBODY),
                ("branch", np.int32, NOBODY),
            )
        ]
        return cls(ranges.column("address").combine_chunks(), *values)

    def find(self, ranges: pa.ChunkedArray) -> Any:
        """Return the position of each range; the last position for unknown ranges."""
        coded = ranges.combine_chunks().dictionary_encode()
        at = pc.fill_null(pc.index_in(coded.dictionary, self.addresses), len(self.addresses))
        places = numpy_of(at, np.int64)
        return places[numpy_of(coded.indices, np.int64)] if len(places) else places


def newly_reached(ranges: pa.Table, known: pa.Table) -> pa.Table:
    """Return the ranges with bits they did not have before, with these bits only."""
    before = RangeBits.of(known)
    at = before.find(ranges.column("address")) if ranges.num_rows else np.zeros(0, np.int64)
    bits = numpy_of(ranges.column("bits"), np.int64) & ~before.bits[at]
    place = RANGES.get_field_index("bits")
    return reached(ranges.set_column(place, RANGES.field(place), pa.array(bits, pa.int64())))
