"""Layers of a store as listed and read, numbered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reclaim.model import SnapshotId
from reclaim.stores.terminus.addresses import ARCHIVE, ROLLUP
from reclaim.stores.terminus.columns import Flags, Numbers
from reclaim.stores.terminus.graph import NONE, Graph
from reclaim.stores.terminus.reading import ROLLED_UP, UNREAD


@dataclass(frozen=True, slots=True)
class Unknown:
    """Ids held as data without a matching layer, with the number of the layer holding each."""

    owner: Numbers
    ids: pa.Array


@dataclass(frozen=True, slots=True)
class Layers:
    """Layers by number. Missing layers needed by others come last in the graph.

    ``rows`` is their source, as ``SNAPSHOTS``.
    """

    rows: pa.Table
    graph: Graph
    ids: pa.Array
    addresses: pa.Array
    """Address of the object to read, by layer."""
    changed: Numbers
    """Microsecond of the latest change to any of its objects, by layer."""
    unread: Flags
    """Layers which could not be read at all, whatever their contents."""
    unknown: Unknown

    @classmethod
    def of(cls, rows: pa.Table) -> Layers:
        """Number the layers in rows. Of two rows for one object, the later row counts.

        If both formats exist the archive is used, as servers do. A rollup file without a layer is
        ignored.
        """
        objects = rows.filter(pc.is_valid(rows.column("id"))).combine_chunks()
        coded = _column(objects, "id").dictionary_encode()
        number, ids = coded.indices.to_numpy(), coded.dictionary
        address = _column(objects, "address")
        archive, rollup = (_flags(pc.ends_with(address, end)) for end in (ARCHIVE, ROLLUP))
        changed = np.zeros(len(ids), np.int64)
        times = objects.column("last_modified").cast(pa.int64()).to_numpy()
        np.maximum.at(changed, number, times)
        row_of = np.full(len(ids), NONE)
        for which in (~archive & ~rollup, archive):
            row_of[number[which]] = np.flatnonzero(which)
        has_row = row_of != NONE
        layers = objects.take(pa.array(row_of[has_row])).combine_chunks()
        graph, unknown = _graph(layers)
        return cls(
            rows,
            graph,
            ids=_column(layers, "id"),
            addresses=_column(layers, "address"),
            changed=changed[has_row],
            unread=_flags(pc.equal(_column(layers, "note"), UNREAD)),
            unknown=unknown,
        )

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, layer: SnapshotId) -> bool:
        """Whether a layer exists; the graph also contains missing layers."""
        return self.graph.numbers.get(layer, len(self)) < len(self)

    def among(self, others: Layers) -> Flags:
        """Flags of the layers also contained in others."""
        if self is others:
            return np.ones(len(self), np.bool_)
        return _flags(pc.is_in(self.ids, others.ids))

    def readable(self) -> pa.Array:
        """Ids of the readable layers."""
        readable = np.ones(len(self), np.bool_)
        readable[self._broken()] = False
        return self.ids.filter(pa.array(readable))

    def broken(self) -> Sequence[str]:
        """Addresses of the unreadable layers."""
        broken: list[str] = self.addresses.take(pa.array(self._broken(), pa.int64())).to_pylist()
        return broken

    def missing(self) -> Sequence[SnapshotId]:
        """Missing layers needed by others."""
        return self.graph.ids[len(self) :]

    def _broken(self) -> list[int]:
        return [layer for layer in self.graph.faults if layer < len(self)]


def _graph(layers: pa.Table) -> tuple[Graph, Unknown]:
    ids = _column(layers, "id")
    count = len(ids)
    names = _column(layers, "names")
    needed = pa.concat_arrays([_column(layers, "parent"), _column(layers, "through")])
    named = pc.list_flatten(names)
    # In a single lookup: every lookup hashes all ids again.
    numbers = _numbers(pa.concat_arrays([needed, named]), ids)
    needs, number = numbers[: 2 * count], numbers[2 * count :]
    absent = needed.filter(pa.array(needs == NONE)).drop_null().unique()
    if len(absent):
        among = _numbers(needed, absent)
        needs = np.where(among == NONE, needs, count + among)
    known: list[SnapshotId] = pa.concat_arrays([ids, absent]).to_pylist()
    # An id held as data without a matching layer is not an edge.
    is_known = number != NONE
    owner = np.repeat(np.arange(count), pc.fill_null(pc.list_value_length(names), 0).to_numpy())
    starts = np.concatenate(([0], np.cumsum(np.bincount(owner[is_known], minlength=count))))
    data = number[is_known].tolist()
    none = [NONE] * len(absent)
    unknown = Unknown(owner[~is_known], named.filter(pa.array(~is_known)))
    graph = Graph(
        known,
        numbers=dict(zip(known, range(len(known)), strict=True)),
        parent=needs[:count].tolist() + none,
        rollup=needs[count:].tolist() + none,
        starts=starts.tolist() + [len(data)] * len(absent),
        names=data,
        rolled_up=_flags(pc.equal(_column(layers, "note"), ROLLED_UP)).tolist()
        + [False] * len(absent),
        faults={**_faults(layers), **dict.fromkeys(range(count, len(known)))},
    )
    return graph, unknown


def _faults(layers: pa.Table) -> dict[int, str | None]:
    faults = _column(layers, "fault")
    at = np.flatnonzero(_flags(pc.is_valid(faults)))
    return dict(zip(at.tolist(), faults.take(pa.array(at)).to_pylist(), strict=True))


def _numbers(values: pa.Array, ids: pa.Array) -> Numbers:
    """Positions of ids in an array; ``NONE`` for missing ids and nulls."""
    # A null matches only nulls, and ids contain none.
    return np.asarray(pc.fill_null(pc.index_in(values, ids), NONE), np.int64)


def _flags(values: pa.Array) -> Flags:
    return np.asarray(pc.fill_null(values, False), np.bool_)


def _column(table: pa.Table, name: str) -> pa.Array:
    """A column as a single chunk."""
    column = table.column(name)
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays([pa.array([], column.type), *column.chunks])
