"""The steps of runs that start from a checkpoint and leave one, on the local engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.incremental import (
    Carried,
    CarryRequest,
    Copied,
    CopyRequest,
    Indexed,
    IndexRequest,
)
from reclaim.engine.tasks import index, looking_up
from reclaim.engine.tasks.deleting import FAILED
from reclaim.engine.tasks.index import ADDRESSES, CountedReads, IndexCounts
from reclaim.engine.tasks.parts import Opener, Part, Place, copy_part, read_part, write_part
from reclaim.engine.tasks.reading import LIVE
from reclaim.storage import Storage


class IncrementalSteps:
    """The part of the local engine for such runs, whatever their kind."""

    _open: Opener
    _step: Callable[[str], None]

    def index(self, request: IndexRequest) -> Indexed:
        self._step("index")
        format, place = request.format, request.place
        storage, own = format.view(self._open(format.root)), self._open(place.url)
        known = _names(own, request.known)
        counts = IndexCounts()
        tables: list[pa.Table] = []
        ranges: list[str] = []
        for part in request.containers:
            rows = read_part(own, part)
            for address, entries in index.read_live(format, storage, rows, known, counts):
                tables.append(entries)
                ranges.append(address)
                self._admit(counts.rows)
        parts = index.write_index(own, place.at("part"), tables, request.edges)
        names = pa.table({"address": pa.array(ranges, pa.string())}, schema=ADDRESSES)
        written = self._write(place.below("ranges"), "part", ADDRESSES, [names])
        return Indexed(parts, written, counts)

    def carry(self, request: CarryRequest) -> Carried:
        self._step("carry")
        source = self._open(request.source.url)
        taken: set[str] = set()
        counts: looking_up.GuardCounts = {}
        for part in request.journal:
            rows = read_part(source, part)
            rows = rows.filter(pc.not_equal(rows.column("outcome"), FAILED))
            taken |= set(rows.column("address").to_pylist())
            looking_up.add_guards(counts, looking_up.count_guards(request.format, rows))
        left = set(_names(source, request.carried).to_pylist()) - taken
        table = pa.table({"address": pa.array(sorted(left), pa.string())}, schema=ADDRESSES)
        if request.final is not None:
            table = looking_up.in_guards(request.format, table, request.final)
        return Carried(self._write(request.place, "part", ADDRESSES, [table]), counts)

    def copy(self, request: CopyRequest) -> Copied:
        self._step("copy")
        source = CountedReads(self._open(request.url))
        target = self._open(request.place.url)
        copied = []
        for number, part in enumerate(request.parts):
            address = request.place.at(f"part-{number}.parquet")
            if not request.live:
                copied.append(copy_part(source, target, part, address))
                continue
            rows = read_part(source, part)
            rows = rows.filter(pc.equal(rows.column("cause"), LIVE))
            if rows.num_rows:
                copied.append(write_part(target, address, rows))
        return Copied(copied, source.size)

    def _admit(self, objects: int) -> None:
        raise NotImplementedError

    def _write(
        self, place: Place, stem: str, schema: pa.Schema, tables: Iterable[pa.Table]
    ) -> Sequence[Part]:
        raise NotImplementedError


def _names(storage: Storage, parts: Sequence[Part]) -> pa.Array:
    tables = [ADDRESSES.empty_table()]
    tables += [read_part(storage, part, ["address"]).cast(ADDRESSES) for part in parts]
    return pa.concat_tables(tables).column("address").combine_chunks()
