"""Sets of values in statements, as one parameter whatever their number.

An ``IN`` list has a parameter for each value: databases limit their number, and preparing them
takes longer than looking the values up.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from sqlalchemy import ARRAY, ColumnElement, Connection, Text, any_, func, literal, select


def among(
    connection: Connection, column: ColumnElement[str], values: Collection[str]
) -> ColumnElement[bool]:
    """Whether a text column has one of the values."""
    if connection.dialect.name == "sqlite":
        each = func.json_each(json.dumps(list(values))).table_valued("value")
        return column.in_(select(each.c.value))
    return column == any_(literal(list(values), ARRAY(Text)))
