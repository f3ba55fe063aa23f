"""The index in a plan: reading the ranges that no earlier run has read."""

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

MOST_BUCKETS = 64
FEW_BUCKETS = 8
ROWS_OF_A_BUCKET = 50_000
"""Entries that are worth a part of the index of their own."""


def find_edges(seen: Observation, entries: int, *, whole: bool) -> Sequence[str]:
    """Partitions at which the index is cut, so that a part has few of them; a step that is not the
    whole index is cut into fewer parts."""
    partitions = sorted(seen.closed | seen.open)
    most = MOST_BUCKETS if whole else FEW_BUCKETS
    buckets = min(most, len(partitions), -(-entries // ROWS_OF_A_BUCKET))
    return [partitions[n * len(partitions) // buckets] for n in range(1, buckets)]


def copy_known(context: PlanContext, start: Start[Any]) -> Copied:
    """The lists of ranges that runs have read into the index since the section that a run starts
    from, where all other files of the plan are; all of the index where there is no section."""
    if start.checkpoint is None:
        return Copied()
    section = None if start.section is None else start.section.section
    ranges = start.checkpoint.manifest.ranges_since(section)
    place = context.work.below("indexed")
    return pipelines.copy(context.engine, CopyRequest(ranges, context.store.storage.url, place))


def index_ranges(engine: Engine, request: IndexRequest, counts: ContainerCounts) -> Indexed:
    """Read ranges into the index; refused when less was read than there must be.

    ``counts`` are those of the containers in the request, as they were counted on their way there.
    """
    indexed = pipelines.index(engine, request)
    found = indexed.counts
    for what, expected, read in (
        ("containers", counts.containers, found.known + found.containers),
        ("entries", counts.entries, found.known_entries + found.entries),
        ("containers", found.expected, found.containers),
        ("entries", found.expected_entries, found.entries),
        ("rows", found.rows, sum(part.rows for part in indexed.parts)),
        ("ranges", found.ranges, sum(part.rows for part in indexed.ranges)),
    ):
        if expected != read:
            raise IncompleteRead(
                f"{expected} {what} were expected for the index and {read} were found",
                hint="nothing was planned; run it again, and look at the storage if it repeats",
                expected=expected,
                read=read,
            )
    return indexed
