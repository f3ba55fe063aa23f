"""Keys of what is live for the pipelines that are still written for Spark alone.

They are those of ``engine.pipelines.live_keys`` and ``engine.pipelines.finding``, on frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import pyarrow as pa
from pyspark.sql import DataFrame

from reclaim.engine.answers import ContainerFiles, Read
from reclaim.engine.pipelines import finding, live_keys
from reclaim.engine.pipelines.live_keys import Keys, WrittenKeys
from reclaim.engine.pipelines.reading import count_rows
from reclaim.engine.spark.rows import SparkRows
from reclaim.engine.tasks.keys import KeysOf
from reclaim.engine.tasks.parts import Part, Place
from reclaim.engine.work.candidates import Source
from reclaim.engine.work.lines import Lines, Work
from reclaim.stores.format import Format

if TYPE_CHECKING:
    from reclaim.engine.spark.engine import SparkEngine

LOOKUP_LIMIT = 32_000_000
"""A quarter of a gigabyte of keys in each process."""
DRIVER_ROW_LIMIT = 1_000_000
"""So many rows are compared on the driver: some hundred megabytes, and about a second."""


class Finder:
    """Writes keys down and compares with them."""

    def __init__(
        self, engine: SparkEngine, *, lookup_limit: int, driver_row_limit: int, keys_of: KeysOf
    ) -> None:
        self._engine = engine
        self.lookup_limit = lookup_limit
        self.driver_row_limit = driver_row_limit
        self.keys_of = keys_of

    def write_keys(
        self,
        format: Format,
        needed: ContainerFiles,
        held: Sequence[str],
        done: Sequence[Part],
        place: Place,
    ) -> tuple[WrittenKeys, Read]:
        return live_keys.write_keys(self._engine, format, needed, held, done, place)

    def write_survivors(self, source: Source, live: Keys, place: Place) -> Lines:
        return finding.write_survivors(self._engine, source, live, place)

    def key_rows(self, live: Keys, url: str) -> DataFrame:
        return cast(SparkRows, live_keys.key_rows(self._engine, live, url)).frame

    def exceed_lookup(self, live: Keys) -> bool:
        return count_rows(live) > self.lookup_limit


def run_here(work: Work, rows: pa.Table) -> Lines:
    """Run a task here, without Spark, and give its lines."""
    return Lines([line for table in work(iter([rows])) for line in table.to_pylist()])
