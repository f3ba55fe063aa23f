"""Rows of Spark and rows in this process: each method finds the same on both."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from reclaim.engine.base import JobRunner
from reclaim.engine.in_process import GROUPED_AT_ONCE, InProcess, TableRows
from reclaim.engine.rows import Rows
from reclaim.engine.spark.engine import SparkEngine
from reclaim.engine.work.lines import Tables

pytestmark = pytest.mark.repeats(first=4)

LEFT = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("cause", pa.int32(), nullable=False),
        pa.field("path", pa.string()),
        pa.field("listed", pa.bool_()),
    ]
)
RIGHT = pa.schema([LEFT.field("address"), pa.field("size", pa.int64(), nullable=False)])
NONE = pa.schema([LEFT.field("address")])

Query = Callable[[Rows, Rows, Rows], Rows]


def upper(tables: Tables) -> Tables:
    for table in tables:
        yield pa.table({"address": pc.utf8_upper(table.column("address"))}, schema=NONE)


QUERIES: dict[str, Query] = {
    "map": lambda left, _right, _none: left.map(upper, NONE),
    "map twice": lambda left, _right, _none: left.map(upper, NONE).map(upper, NONE),
    "where": lambda left, _right, _none: left.where("cause", 1),
    "where not": lambda left, _right, _none: left.where("path", "a", equal=False),
    "select": lambda left, _right, _none: left.select("path", "address"),
    "rename": lambda left, _right, _none: left.rename("cause", "reason").where("reason", 0),
    **{
        how: lambda left, right, _none, how=how: left.join(right, "address", how)  # type: ignore[misc]
        for how in ("left_semi", "left_anti", "left", "inner")
    },
    **{
        f"{how} with nothing": lambda left, _right, none, how=how: left.join(none, "address", how)  # type: ignore[misc]
        for how in ("left_semi", "left_anti", "left", "inner")
    },
    "several on the right": lambda left, right, _none: right.join(left, "address", "left_semi"),
    "first": lambda left, _right, _none: left.group("address", order=("cause", "path", "listed")),
    "ties": lambda left, _right, _none: left.group("address", order=("cause",)),
    "greatest": lambda left, _right, _none: left.group(
        "address", order=("cause",), greatest=("path", "listed")
    ),
    "least": lambda left, _right, _none: left.group("address", order=("path",), least=("cause",)),
    "bits": lambda left, _right, _none: left.select("path", "cause").group(
        "path", bit_or=("cause",)
    ),
    "collect": lambda left, _right, _none: left.select("address", "cause", "path").group(
        "address", order=("cause",), collect=("path",)
    ),
    "distinct": lambda left, _right, _none: left.select("address", "path").distinct(),
    "union": lambda left, right, _none: left.select("address").union(right.select("address")),
    "repartition": lambda left, _right, _none: left.repartition(3),
    "repartition by a column": lambda left, _right, _none: left.repartition(3, "path"),
    "repartition by id": lambda left, _right, _none: left.repartition_by_id(3, "cause"),
}


def tables(seed: int) -> list[pa.Table]:
    choice = random.Random(seed)
    names = [f"name-{number}" for number in range(12)]
    left = [
        {
            "address": choice.choice(names),
            "cause": choice.randrange(3),
            "path": choice.choice(["a", "b", "", None]),
            "listed": choice.choice([True, False, None]),
        }
        for _ in range(60)
    ]
    right = [{"address": name, "size": choice.randrange(9)} for name in choice.sample(names, 6)]
    return [
        pa.Table.from_pylist(left, LEFT),
        pa.Table.from_pylist(right, RIGHT),
        NONE.empty_table(),
    ]


def found(runner: JobRunner, query: Query, seed: int) -> Counter[tuple[Any, ...]]:
    rows = query(*(runner.spread(table) for table in tables(seed)))
    return Counter(
        tuple(sorted((name, _plain(row[name])) for name in _names(row)))
        for row in runner.collect("query", rows, shuffled=100)
    )


def _names(row: Any) -> list[str]:
    return list(row if isinstance(row, dict) else row.asDict())


def _plain(value: Any) -> Any:
    return tuple(sorted(value)) if isinstance(value, list) else value


@pytest.mark.parametrize("query", QUERIES.values(), ids=list(QUERIES))
def test_both_kinds_of_rows(spark: SparkSession, query: Query) -> None:
    engine = SparkEngine(spark, tasks=2)
    for seed in range(2):
        assert found(engine, query, seed) == found(InProcess(), query, seed)


def test_many_rows_of_few_groups_are_no_reason_to_refuse() -> None:
    most: list[int] = []
    table = pa.table({"address": pa.array(["a", "b"] * 50_000), "cause": pa.array([1, 2] * 50_000)})
    batches = 3 * GROUPED_AT_ONCE // table.num_rows

    def rows() -> TableRows:
        return TableRows(table.schema, lambda: iter([table] * batches), most.append)

    assert rows().group("address", order=("cause",)).table().to_pylist() == [
        {"address": "a", "cause": 1},
        {"address": "b", "cause": 2},
    ]
    assert rows().group("address", least=("cause",)).table().num_rows == 2
    assert rows().group("address", bit_or=("cause",)).table().num_rows == 2
    assert rows().distinct().table().num_rows == 2
    assert max(most) == 2


def test_a_right_side_that_has_a_value_twice_is_refused() -> None:
    twice = InProcess().spread(pa.table({"address": ["a", "a"], "size": [1, 2]}))
    with pytest.raises(ValueError, match="not distinct"):
        InProcess().spread(pa.table({"address": ["a"]})).join(twice, "address", "left").table()
