"""Rows of a job, as an engine keeps them: a DataFrame of Spark, or tables in this process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, Self

import pyarrow as pa

from reclaim.engine.work.lines import Work


class Rows(Protocol):
    """Rows that a job computes. As with a DataFrame, nothing is done before a job runs."""

    def map(self, work: Work, schema: pa.Schema) -> Self:
        """Apply work to the tables of each task."""
        ...

    def where(self, column: str, value: int | str, *, equal: bool = True) -> Self:
        """The rows of which a column has a value or, without ``equal``, another one."""
        ...

    def select(self, *columns: str) -> Self: ...

    def rename(self, column: str, name: str) -> Self: ...

    def join(self, other: Self, on: str, how: str) -> Self:
        """Join by a column that has the same name on both sides.

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
        """One row for each value of a column.

        The other columns are those of the first row by ``order``, and then by what is left of
        them; null comes first. Instead, the columns ``greatest`` and ``least`` have the greatest
        and the least value of all rows, ``bit_or`` their bits together, and ``collect`` a list
        with the distinct values.
        """
        ...

    def distinct(self) -> Self: ...

    def union(self, other: Self) -> Self:
        """The rows of both, which have the same columns in the same order."""
        ...

    def repartition(self, tasks: int, column: str = "") -> Self:
        """Deal the rows out evenly to so many tasks; those with one value of a column to one."""
        ...

    def repartition_by_id(self, tasks: int, column: str) -> Self:
        """Give each task the rows of which a column has its number, and drop the column."""
        ...
