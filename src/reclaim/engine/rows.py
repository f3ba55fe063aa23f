"""Rows of a job: a Spark DataFrame, or tables in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

import pyarrow as pa

from reclaim.engine.work.lines import Work


class Rows(Protocol):
    """Rows computed by a job. Lazy, like a DataFrame."""

    def map(self, work: Work, schema: pa.Schema) -> Self:
        """Apply work to the tables of each task."""
        ...

    def where(self, column: str, value: int | str, *, equal: bool = True) -> Self:
        """Return the rows with a value in a column or, without ``equal``, with another value."""
        ...

    def select(self, *columns: str) -> Self: ...

    def rename(self, column: str, name: str) -> Self: ...

    def join(self, other: Self, on: str, how: str) -> Self:
        """Join on a column with the same name on both sides.

        ``how`` is ``left_semi``, ``left_anti``, ``left`` or ``inner``; for the last two the other
        side has each value once.
        """
        ...

    def group(
        self,
        key: str,
        *,
        order: Sequence[str] = (),
        greatest: Sequence[str] = (),
        least: Sequence[str] = (),
        bit_or: Sequence[str] = (),
        collect: Sequence[str] = (),
    ) -> Self:
        """Return a row for each value of a column.

        The other columns come from the first row by ``order``, then by the remaining columns; null
        comes first. Instead, the columns ``greatest`` and ``least`` have the greatest and least
        value of all rows, ``bit_or`` the combined bits, and ``collect`` a list of the distinct
        values.
        """
        ...

    def distinct(self) -> Self: ...

    def union(self, other: Self) -> Self:
        """Return the rows of both, which have the same columns in the same order."""
        ...

    def repartition(self, tasks: int, column: str = "") -> Self:
        """Spread the rows evenly over tasks; rows with the same value of a column to the same
        task."""
        ...

    def repartition_by_id(self, tasks: int, column: str) -> Self:
        """Give each task the rows with its number in a column, and drop the column."""
        ...
