"""The index of a plan: read ranges no earlier run has read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from reclaim.engine import pipelines
from reclaim.engine.base import Engine
from reclaim.engine.incremental import Copied, CopyRequest, Indexed, IndexRequest
from reclaim.errors import IncompleteRead
from reclaim.run.plan.context import PlanContext
from reclaim.run.plan.plan_document import ContainerCounts
from reclaim.run.record.checkpoints import Start
from reclaim.stores.observation import Observation

MAX_BUCKETS = 64
MAX_STEP_BUCKETS = 8
MIN_BUCKET_ROWS = 50_000
"""Minimum number of entries in a bucket of the index."""


def find_edges(seen: Observation, entries: int, *, whole: bool) -> Sequence[str]:
    """Partitions at which to cut the index, so that each file covers few of them. A step that is
    not the whole index is cut into fewer files."""
    partitions = sorted(seen.closed | seen.open)
    limit = MAX_BUCKETS if whole else MAX_STEP_BUCKETS
    buckets = min(limit, len(partitions), -(-entries // MIN_BUCKET_ROWS))
    return [partitions[n * len(partitions) // buckets] for n in range(1, buckets)]


def copy_known(context: PlanContext, start: Start[Any]) -> Copied:
    """Copy the lists of ranges indexed since the section a run starts from, next to the other files
    of the plan; all lists if there is no section."""
    if start.checkpoint is None:
        return Copied()
    section = None if start.section is None else start.section.section
    ranges = start.checkpoint.manifest.ranges_since(section)
    place = context.work.below("indexed")
    return pipelines.copy(context.engine, CopyRequest(ranges, context.store.storage.url, place))


def index_ranges(engine: Engine, request: IndexRequest, counts: ContainerCounts) -> Indexed:
    """Read ranges into the index. Refuse incomplete reads.

    ``counts`` are the counts of containers in the request, taken when they were expanded.
    """
    indexed = pipelines.index(engine, request)
    counted = indexed.counts
    for unit, expected, read in (
        ("containers", counts.containers, counted.known + counted.containers),
        ("entries", counts.entries, counted.known_entries + counted.entries),
        ("containers", counted.expected, counted.containers),
        ("entries", counted.expected_entries, counted.entries),
        ("rows", counted.rows, sum(part.rows for part in indexed.parts)),
        ("ranges", counted.ranges, sum(part.rows for part in indexed.ranges)),
    ):
        if expected != read:
            raise IncompleteRead(
                f"{expected} {unit} were expected for the index, but {read} were read",
                hint="nothing was planned; run it again, and look at the storage if it repeats",
                expected=expected,
                read=read,
            )
    return indexed
