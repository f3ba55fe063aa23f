"""Read parts in a pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from reclaim.engine.base import JobRunner
from reclaim.engine.rows import Rows
from reclaim.engine.tasks.parts import Part
from reclaim.engine.work.parts import read_parts


def rows_of(engine: JobRunner, url: str, parts: Sequence[Part], schema: pa.Schema) -> Rows:
    """Return the rows of parts, each verified by its hash before use."""
    return engine.files(parts).map(partial(read_parts, url), schema)


def count_rows(*lists: Sequence[Part]) -> int:
    return sum(part.rows for parts in lists for part in parts)


def count_tasks(engine: JobRunner, count: int) -> int:
    """Return the number of tasks for a job with this many rows, each worth a task."""
    return max(1, min(2 * engine.tasks, count))
