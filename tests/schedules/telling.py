"""A value in full, as plain values: what is told in the same way is the same."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
from pydantic import BaseModel
from sqlalchemy import Row

PLAIN = bool | int | float | str | bytes | datetime | timedelta | None


def tell(value: Any) -> Any:
    """The value as nested lists of plain values. One that cannot be told in full is an error.

    Also the order of what has none is told: whoever goes through it would notice.
    """
    if isinstance(value, PLAIN):
        return value
    if isinstance(value, BaseModel):
        return [type(value).__name__, tell(dict(value))]
    if is_dataclass(value):
        return [type(value).__name__, *(tell(getattr(value, one.name)) for one in fields(value))]
    if isinstance(value, Mapping):
        return ["mapping", *([tell(key), tell(one)] for key, one in value.items())]
    if isinstance(value, list | tuple | Set | Row):
        return [type(value).__name__, *map(tell, value)]
    if isinstance(value, pa.Table):
        return [str(value.schema), value.to_pylist()]
    raise TypeError(f"{value!r} of {type(value)} cannot be told in full")
