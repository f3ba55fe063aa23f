"""Many values in statements: in batches, and as a single parameter whatever their number.

An ``IN`` list has a parameter for each value. Databases limit the number of parameters, and
preparing them takes longer than the lookup.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import TypeVar

from sqlalchemy import ARRAY, ColumnElement, Connection, Text, any_, func, literal, select

T = TypeVar("T")


def among(
    connection: Connection, column: ColumnElement[str], values: Collection[str]
) -> ColumnElement[bool]:
    """Condition: a text column has a value of the collection."""
    if connection.dialect.name == "sqlite":
        each = func.json_each(json.dumps(list(values))).table_valued("value")
        return column.in_(select(each.c.value))
    return column == any_(literal(list(values), ARRAY(Text)))


def batches(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield all values in lists of bounded size, for transactions of bounded length."""
    remaining = iter(values)
    while batch := list(islice(remaining, size)):
        yield batch
