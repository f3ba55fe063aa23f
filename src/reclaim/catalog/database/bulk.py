"""Bulk insertion into PostgreSQL with COPY, without parsing or planning for each row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sqlalchemy import Connection
from sqlalchemy import exc as foreign

_ESCAPES = str.maketrans({"\\": r"\\", "\t": r"\t", "\n": r"\n", "\r": r"\r"})


def copy_rows(
    connection: Connection, table: str, columns: Sequence[str], rows: Iterable[Sequence[object]]
) -> None:
    """Insert rows without nulls, in the transaction of the connection."""
    values = [list(map(str, row)) for row in rows]
    lines = ["\t".join(row) for row in values]
    text = "\n".join(lines)
    if (
        "\\" in text
        or "\r" in text
        or text.count("\t") + text.count("\n") != (len(columns) * len(lines) - 1)
    ):
        # Checking for characters to escape is much cheaper than escaping.
        text = "\n".join("\t".join(value.translate(_ESCAPES) for value in row) for row in values)
    statement = f"COPY {table} ({', '.join(columns)}) FROM STDIN"
    dialect = connection.dialect
    driver = connection.connection.driver_connection
    assert driver is not None
    assert dialect.dbapi is not None
    try:
        with driver.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(f"{text}\n")
    except dialect.dbapi.Error as error:
        # The error SQLAlchemy raises for its own statements.
        lost = dialect.is_disconnect(error, driver, None)
        if lost:
            connection.invalidate(error)
        raise foreign.DBAPIError.instance(
            statement,
            None,
            error,
            dialect.dbapi.Error,
            connection_invalidated=lost,
            dialect=dialect,
        ) from error
