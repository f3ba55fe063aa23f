"""Export of the objects of a plan to a file, for spreadsheets and SQL."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypedDict

from reclaim.cli import local
from reclaim.cli.session import Session
from reclaim.cli.views.describe import objects
from reclaim.cli.views.output import Done
from reclaim.errors import InvalidInput

if TYPE_CHECKING:
    import pyarrow as pa

    from reclaim.api.plan import Plan

STANDARD_OUTPUT = "-"


class PlanExported(TypedDict):
    """With --csv or --parquet."""

    plan: str
    file: str
    format: Literal["csv", "parquet"]
    objects: int


def export(
    session: Session,
    plan: Plan,
    *,
    csv: str | None,
    parquet: str | None,
) -> None:
    """Write the objects of a plan as CSV or Parquet, with a single file of the plan in memory.

    The file appears only when it is complete.
    """
    target = csv if csv is not None else parquet
    assert target is not None
    write = _write_csv if csv is not None else _write_parquet
    if target == STANDARD_OUTPUT:
        if csv is None:
            raise InvalidInput(
                "Parquet cannot go to standard output", hint="name a file, or use --csv -"
            )
        if session.output.for_programs:
            raise InvalidInput(
                "stdout cannot carry both the objects and a JSON document",
                hint="leave --json out, or name a file",
            )
        write(sys.stdout.buffer, plan.iter_objects())
        sys.stdout.buffer.flush()
        return
    with local.replacing(Path(target)) as file:
        written = write(file, plan.iter_objects())
    facts: PlanExported = {
        "plan": plan.location,
        "file": str(Path(target).absolute()),
        "format": "csv" if csv is not None else "parquet",
        "objects": written,
    }
    session.output.answer(Done(f"Wrote {objects(written)} to {target}.", facts))


def _write_csv(file: IO[bytes], tables: Iterator[pa.Table]) -> int:
    import pyarrow as pa
    from pyarrow import csv

    schema = _schema(pa.timestamp("s", tz="UTC"))
    with csv.CSVWriter(file, schema) as writer:
        return _write(tables, schema, writer.write_table)


def _write_parquet(file: IO[bytes], tables: Iterator[pa.Table]) -> int:
    import pyarrow as pa
    from pyarrow import parquet

    schema = _schema(pa.timestamp("us", tz="UTC"))
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        return _write(tables, schema, writer.write_table)


def _schema(time: pa.DataType) -> pa.Schema:
    import pyarrow as pa

    columns = {"address": pa.string(), "path": pa.string(), "size": pa.int64()}
    columns |= {"last_modified": time, "kind": pa.string(), "branch": pa.string()}
    return pa.schema([*columns.items(), ("reason", pa.string())])


def _write(tables: Iterator[pa.Table], schema: pa.Schema, write: Callable[[Any], None]) -> int:
    rows = 0
    for table in tables:
        # Times to the second for people: what is left out is no error.
        write(table.select(schema.names).cast(schema, safe=False))
        rows += table.num_rows
    return rows
