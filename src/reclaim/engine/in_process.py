"""Jobs in this process: rows are tables, and tasks run one after the other.

Used by the local engine, and by the Spark driver if there is less work than a job costs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reclaim.clock import Clock, SystemClock
from reclaim.engine.rows import Rows
from reclaim.engine.tasks.keys import KeysOf, keys_of
from reclaim.engine.tasks.parts import Opener, Part, open_storage, opened_by
from reclaim.engine.work.lines import Lines, Tables, Work, files_table
from reclaim.storage import Storage

GROUPED_AT_ONCE = 200_000
"""Rows grouped at once. Larger inputs are folded group by group, and only the groups kept."""


def no_step(name: str) -> None:
    """Do nothing before a task."""


def no_limit(rows: int) -> None:
    """Accept any number of rows."""


@dataclass(frozen=True)
class TableRows:
    """Rows read when a job runs, table by table."""

    schema: pa.Schema
    read: Callable[[], Tables]
    admit: Callable[[int], None] = no_limit
    """Refuses more rows than fit into memory."""

    def map(self, work: Work, schema: pa.Schema) -> TableRows:
        return TableRows(schema, lambda: work(self.read()), self.admit)

    def where(self, column: str, value: int | str, *, equal: bool = True) -> TableRows:
        compare = pc.equal if equal else pc.not_equal
        return self._each(lambda table: table.filter(compare(table.column(column), value)))

    def select(self, *columns: str) -> TableRows:
        return self._each(lambda table: table.select(columns))

    def rename(self, column: str, name: str) -> TableRows:
        names = [name if each == column else each for each in self.schema.names]
        return self._each(lambda table: table.rename_columns(names))

    def join(self, other: TableRows, on: str, how: str) -> TableRows:
        def joined() -> Tables:
            right = other.table()
            keys = right.column(on).combine_chunks()
            if how in ("left", "inner") and pc.count_distinct(keys).as_py() < len(keys):
                raise ValueError(f"{on} is not distinct")
            for table in self.read():
                at = pc.index_in(table.column(on), keys)
                yield _join(table, right.drop_columns([on]), at, how)

        left, right = self.schema.empty_table(), other.schema.empty_table().drop_columns([on])
        at = pa.chunked_array([], pa.int32())
        return TableRows(_join(left, right, at, how).schema, joined, self.admit)

    def group(
        self,
        key: str,
        *,
        order: Sequence[str] = (),
        greatest: Sequence[str] = (),
        least: Sequence[str] = (),
        bit_or: Sequence[str] = (),
        collect: Sequence[str] = (),
    ) -> TableRows:
        apart = {key, *order, *greatest, *least, *bit_or, *collect}
        whole_order = [*order, *(name for name in self.schema.names if name not in apart)]

        def group(rows: pa.Table) -> pa.Table:
            first = _firsts(rows, key, whole_order, "ascending")
            for name in greatest:
                last = _firsts(rows, key, [name], "descending").column(name)
                first = _with(first, name, last)
            for name in least:
                values = rows.group_by(key, use_threads=False).aggregate([(name, "min")])
                first = _with(first, name, values.sort_by(key).column(f"{name}_min"))
            for name in bit_or:
                first = _with(first, name, _bit_or(rows, name, key, first.column(key)))
            return first

        def grouped() -> Tables:
            whole = self.table() if collect else self._folded(group)
            rows = group(whole)
            for column in collect:
                distinct = whole.group_by(key, use_threads=False).aggregate([(column, "distinct")])
                values = distinct.sort_by(key).column(f"{column}_distinct")
                rows = _with(rows, column, values)
            yield rows

        fields = [
            pa.field(field.name, pa.list_(field.type)) if field.name in collect else field
            for field in self.schema
        ]
        return TableRows(pa.schema(fields), grouped, self.admit)

    def distinct(self) -> TableRows:
        def each_once(rows: pa.Table) -> pa.Table:
            return rows.group_by(rows.column_names, use_threads=False).aggregate([])

        return TableRows(self.schema, lambda: iter([self._folded(each_once)]), self.admit)

    def union(self, other: TableRows) -> TableRows:
        def both() -> Tables:
            yield from self.read()
            yield from other.read()

        return TableRows(self.schema, both, self.admit)

    def repartition(self, tasks: int, column: str = "") -> TableRows:  # noqa: ARG002
        # A single task does it all.
        return self

    def repartition_by_id(self, tasks: int, column: str) -> TableRows:  # noqa: ARG002
        return self._each(lambda table: table.drop_columns([column]))

    def table(self) -> pa.Table:
        """Return all rows, if they fit into memory."""
        tables, rows = [self.schema.empty_table()], 0
        for table in self.read():
            rows += table.num_rows
            self.admit(rows)
            tables.append(table.cast(self.schema))
        return pa.concat_tables(tables)

    def _each(self, change: Callable[[pa.Table], pa.Table]) -> TableRows:
        schema = change(self.schema.empty_table()).schema
        return TableRows(schema, lambda: map(change, self.read()), self.admit)

    def _folded(self, change: Callable[[pa.Table], pa.Table]) -> pa.Table:
        """Return all rows, reduced by ``change`` on the way if there are many."""

        def fold(tables: list[pa.Table], table: pa.Table) -> list[pa.Table]:
            tables = [*tables, table.cast(self.schema)]
            if sum(each.num_rows for each in tables[1:]) < GROUPED_AT_ONCE:
                return tables
            whole = change(pa.concat_tables(tables))
            self.admit(whole.num_rows)
            return [whole]

        return change(pa.concat_tables(reduce(fold, self.read(), [self.schema.empty_table()])))


def _join(left: pa.Table, right: pa.Table, at: pa.ChunkedArray, how: str) -> pa.Table:
    """Join rows with those at the given positions; null has no match."""
    if how == "left_anti":
        return left.filter(pc.is_null(at))
    if how == "left_semi":
        return left.filter(pc.is_valid(at))
    if how == "inner":
        left, at = left.filter(pc.is_valid(at)), at.drop_null()
    for field in right.schema:
        left = left.append_column(field.name, right.column(field.name).take(at))
    return left


def _firsts(rows: pa.Table, key: str, order: Sequence[str], direction: str) -> pa.Table:
    """Return the first row of each key by an order, sorted by key."""
    # Among equal keys, a null value comes first or last.
    by = [
        side
        for column in map(rows.column, order)
        for side in (pc.is_valid(column).cast(pa.int8()), column)
    ]
    if by:
        sides = pa.table(by, names=[str(number) for number in range(len(by))])
        rows = rows.take(pc.sort_indices(sides, [(name, direction) for name in sides.column_names]))
    places = pa.table({key: rows.column(key), "at": pa.array(range(rows.num_rows), pa.int64())})
    first = places.group_by(key, use_threads=False).aggregate([("at", "min")])
    return rows.take(first.sort_by(key).column("at_min"))


def _with(rows: pa.Table, column: str, values: Any) -> pa.Table:
    """Return rows with new values in a column."""
    return rows.set_column(rows.schema.get_field_index(column), column, values)


def _bit_or(rows: pa.Table, column: str, key: str, groups: pa.ChunkedArray) -> pa.Array:
    """Combine the bits of a column by group."""
    at = pc.index_in(rows.column(key), groups.combine_chunks())
    values = rows.column(column).to_numpy()
    bits = np.zeros(len(groups), values.dtype)
    np.bitwise_or.at(bits, at.to_numpy(), values)
    return pa.array(bits)


class InProcess:
    """Runs jobs in this process."""

    tasks = 1

    def __init__(
        self,
        opener: Opener = open_storage,
        *,
        clock: Clock | None = None,
        step: Callable[[str], None] = no_step,
        keys_of: KeysOf = keys_of,
        admit: Callable[[int], None] = no_limit,
    ) -> None:
        """``step`` is called with the name of each job before it runs."""
        self._open = opener
        self._step = step
        self._limit = admit
        self.clock = clock or SystemClock()
        self.keys_of = keys_of

    def runner_for(self, rows: int) -> InProcess:  # noqa: ARG002 - it is in this process already
        return self

    def can_load(self, rows: int) -> bool:  # noqa: ARG002 - whatever is in this process is loaded
        return True

    def open(self, url: str) -> Storage:
        return self._open(url)

    def spread(self, table: pa.Table) -> TableRows:
        return TableRows(table.schema, lambda: iter([table]), self._limit)

    def files(self, parts: Sequence[Part]) -> TableRows:
        self._limit(sum(part.rows for part in parts))
        return self.spread(files_table(parts))

    def run(self, step: str, rows: Rows, work: Work, *, shuffled: int = 0) -> Lines:  # noqa: ARG002
        self._step(step)
        with opened_by(self._open):
            lines = Lines(
                [line for table in work(cast(TableRows, rows).read()) for line in table.to_pylist()]
            )
        self._limit(sum(part.rows for part in lines.parts))
        return lines

    def collect(self, step: str, rows: Rows, *, shuffled: int = 0) -> Sequence[Any]:  # noqa: ARG002
        self._step(step)
        with opened_by(self._open):
            return cast(Sequence[Any], cast(TableRows, rows).table().to_pylist())
