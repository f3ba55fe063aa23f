"""Many values in statements: in batches, and as one parameter whatever their number.

An ``IN`` list has a parameter for each value: databases limit their number, and preparing them
takes longer than looking the values up.
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
    """Whether a text column has one of the values."""
    if connection.dialect.name == "sqlite":
        each = func.json_each(json.dumps(list(values))).table_valued("value")
        return column.in_(select(each.c.value))
    return column == any_(literal(list(values), ARRAY(Text)))


def batches(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """All values in lists of bounded size, for transactions of bounded length."""
    remaining = iter(values)
    while batch := list(islice(remaining, size)):
        yield batch
