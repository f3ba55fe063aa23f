"""Lines: the result of a task for the driver, a line for each file written and a line of counts.

A task names the files it writes, so no other attempt at the same task writes to them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from reclaim.engine.tasks.parts import Part, Place, task_storage
from reclaim.engine.tasks.tally import tallied
from reclaim.ids import new_uid
from reclaim.storage import Storage
from reclaim.stores.format import Format

Tables = Iterator[pa.Table]
Work = Callable[[Tables], Tables]
"""The work of a task on its rows."""

FILES = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("sha256", pa.string(), nullable=False),
        pa.field("group", pa.string(), nullable=False),
    ]
)
"""Parts as rows, for tasks to read."""

LINES = FILES.append(pa.field("report", pa.string(), nullable=False))
"""The parts a task wrote, and a line with its report."""

WORTH_A_TABLE = 10_000
"""Rows worth a table of their own."""

PACKED = pa.schema([pa.field("rows", pa.binary(), nullable=False)])


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines returned by the tasks of a job."""

    rows: Sequence[Any]

    @property
    def parts(self) -> Sequence[Part]:
        """The files they wrote."""
        return [
            Part(row["address"], row["rows"], row["sha256"], row["group"])
            for row in self.rows
            if row["address"]
        ]

    def reports(self) -> Iterator[Any]:
        for row in self.rows:
            if row["report"]:
                yield json.loads(row["report"])

    def sum(self, name: str) -> int:
        """Return the sum of a count over all reports."""
        return sum(int(report.get(name) or 0) for report in self.reports())


def storage_of(format: Format) -> Storage:
    """Return the storage of a store, counting objects as its format does."""
    return format.view(task_storage(format.root))


def in_shares(shares: Sequence[pa.Table], work: Work, numbers: Tables) -> Tables:
    """Work on the shares with some numbers; shares are sent with the task, not as rows."""
    return work(shares[number] for table in numbers for number in table.column("id").to_pylist())


def with_tally(folder: str, work: Work, rows: Tables) -> Tables:
    """Report the counts of work in a folder meanwhile."""
    return tallied(folder, work(rows))


def in_sequence(first: Work, then: Work, files: Tables) -> Tables:
    """Run two kinds of work in a single task."""
    return then(first(files))


def pack(work: Work, rows: Tables) -> Tables:
    """Pack each table into a single value, which Spark need not parse on its way."""
    for table in work(rows):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        yield pa.table({"rows": pa.array([sink.getvalue().to_pybytes()], pa.binary())})


def unpack(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Unpack the tables in values, and concatenate them."""
    values = rows.column("rows").combine_chunks()
    tables = [pa.ipc.open_stream(value.as_buffer()).read_all() for value in values]
    return pa.concat_tables([schema.empty_table(), *tables])


def files_table(parts: Sequence[Part]) -> pa.Table:
    """Return parts as rows, for tasks to read."""
    return pa.Table.from_pylist([asdict(part) for part in parts], schema=FILES)


def parts_in(files: Tables) -> Iterator[Part]:
    for table in files:
        for row in table.to_pylist():
            yield Part(**row)


def in_fewer_tables(tables: Tables) -> Tables:
    """Yield the same rows in fewer tables: passing on a small table costs as much as a large
    table."""
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        if rows >= WORTH_A_TABLE:
            yield pa.concat_tables(waiting).combine_chunks()
            waiting, rows = [], 0
    if rows:
        yield pa.concat_tables(waiting).combine_chunks()


def lines_of(
    parts: Iterator[Part] | Sequence[Part], report: Mapping[str, Any] | None = None
) -> pa.Table:
    """Return the parts a task wrote, and a line with its report."""
    lines = [{**asdict(part), "report": ""} for part in parts]
    # Only now is the report complete.
    text = json.dumps(report) if report is not None else ""
    lines.append({"address": "", "rows": 0, "sha256": "", "group": "", "report": text})
    return pa.Table.from_pylist(lines, schema=LINES)


def stem_in(place: Place) -> str:
    """Return the prefix of file names for an attempt at a task."""
    return place.at(new_uid())
