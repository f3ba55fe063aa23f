"""Rows of a job as a DataFrame, with the work tasks do on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from reclaim.engine.spark.frames import Spread
from reclaim.engine.work.lines import Tables, Work, in_sequence


def unchanged(tables: Tables) -> Tables:
    return tables


@dataclass(frozen=True)
class SparkRows:
    """Rows with the columns ``names``, once ``work`` is done on them."""

    source: Spread
    work: Work
    schema: pa.Schema | None
    """None if the source is a DataFrame with these columns."""
    names: tuple[str, ...]

    @classmethod
    def of(cls, frame: DataFrame, names: Sequence[str]) -> SparkRows:
        return cls(Spread(frame), unchanged, None, tuple(names))

    @property
    def frame(self) -> DataFrame:
        if self.schema is None:
            return self.source.rows
        return self.source.map(self.work, self.schema)

    def map(self, work: Work, schema: pa.Schema) -> SparkRows:
        # In the same task as the previous work.
        done = work if self.work is unchanged else partial(in_sequence, self.work, work)
        return replace(self, work=done, schema=schema, names=tuple(schema.names))

    def where(self, column: str, value: int | str, *, equal: bool = True) -> SparkRows:
        is_equal = F.col(column) == value
        return self.of(self.frame.where(is_equal if equal else ~is_equal), self.names)

    def select(self, *columns: str) -> SparkRows:
        return self.of(self.frame.select(*columns), columns)

    def rename(self, column: str, name: str) -> SparkRows:
        names = [name if each == column else each for each in self.names]
        return self.of(self.frame.withColumnRenamed(column, name), names)

    def join(self, other: SparkRows, on: str, how: str) -> SparkRows:
        columns = [] if how in ("left_anti", "left_semi") else other.names
        names = [on, *(name for name in (*self.names, *columns) if name != on)]
        return self.of(self.frame.join(other.frame, on=on, how=how), names)

    def group(
        self,
        key: str,
        *,
        order: Sequence[str] = (),
        greatest: Sequence[str] = (),
        least: Sequence[str] = (),
        bit_or: Sequence[str] = (),
        collect: Sequence[str] = (),
    ) -> SparkRows:
        apart = {key, *order, *greatest, *least, *bit_or, *collect}
        first = [*order, *(name for name in self.names if name not in apart)]
        columns = [F.max(name).alias(name) for name in greatest]
        columns += [F.min(name).alias(name) for name in least]
        columns += [F.bit_or(name).alias(name) for name in bit_or]
        columns += [F.collect_set(name).alias(name) for name in collect]
        grouped = self.frame.groupBy(key).agg(F.min(F.struct(*first)).alias("first"), *columns)
        selected = (f"first.{name}" if name in first else name for name in self.names)
        return self.of(grouped.select(*selected), self.names)

    def distinct(self) -> SparkRows:
        return self.of(self.frame.distinct(), self.names)

    def union(self, other: SparkRows) -> SparkRows:
        return self.of(self.frame.union(other.frame), self.names)

    def repartition(self, tasks: int, column: str = "") -> SparkRows:
        by = [column] if column else []
        return self.of(self.frame.repartition(tasks, *by), self.names)

    def repartition_by_id(self, tasks: int, column: str) -> SparkRows:
        names = [name for name in self.names if name != column]
        return self.of(self.frame.repartitionById(tasks, column).drop(column), names)
