"""List key ranges, snapshots stored as files, and versions in a bucket."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace

import pyarrow as pa

from reclaim.engine.tasks import tally
from reclaim.engine.tasks.listing import list_ranges
from reclaim.engine.tasks.parts import Place, task_storage, write_parts
from reclaim.engine.tasks.tally import OBJECTS
from reclaim.engine.work.lines import Tables, lines_of, stem_in, storage_of
from reclaim.storage import LISTED, KeyRange, buckets
from reclaim.stores.format import DecodesSnapshots, Format, SurveysContainers

RANGES = pa.schema(
    [pa.field(name, pa.string(), nullable=False) for name in ("prefix", "after", "until")]
)


SURVEYED = "surveyed"
"""The group of files with snapshots, next to those with their containers."""


def list_keys(format: Format, place: Place, ranges: Tables) -> Tables:
    """List key ranges."""

    def listed() -> Tables:
        storage = storage_of(format)
        for table in ranges:
            shared = [KeyRange(**row) for row in table.to_pylist()]
            for batch in list_ranges(storage, shared):
                tally.count(OBJECTS, batch.num_rows)
                yield pa.Table.from_batches([batch], schema=LISTED)

    yield lines_of(write_parts(task_storage(place.url), stem_in(place), listed()))


def count_noncurrent(format: Format, folders: Tables) -> Tables:
    """Count noncurrent versions in a bucket."""
    counts = {"objects": 0, "size": 0}
    for table in folders:
        objects, size = buckets.noncurrent(format.root, table.column("folder").to_pylist())
        counts["objects"] += objects
        counts["size"] += size
    yield lines_of([], counts)


def survey(format: DecodesSnapshots, rows: Tables) -> Tables:
    storage = storage_of(format)
    for table in rows:
        yield format.survey(storage, [KeyRange(**row) for row in table.to_pylist()])


def survey_containers(format: SurveysContainers, place: Place, rows: Tables) -> Tables:
    """List and read snapshots; write them, and the containers they list."""
    storage, own = storage_of(format), task_storage(place.url)
    surveyed: list[pa.Table] = []

    def listed() -> Tables:
        for table in rows:
            ranges = [KeyRange(**row) for row in table.to_pylist()]
            for snapshots, owned in format.survey_containers(storage, ranges):
                tally.count(OBJECTS, snapshots.num_rows)
                surveyed.append(snapshots)
                yield owned

    stem = stem_in(place)
    parts = list(write_parts(own, stem, listed()))
    snapshots = write_parts(own, f"{stem}-snapshots", surveyed)
    yield lines_of([*parts, *(replace(part, group=SURVEYED) for part in snapshots)])


def read_snapshots(format: DecodesSnapshots, rows: Tables) -> Tables:
    storage = storage_of(format)
    for table in rows:
        yield format.snapshots(storage, table.column("address").to_pylist())


def ranges_table(ranges: Sequence[KeyRange]) -> pa.Table:
    """Return key ranges as rows, for tasks to list."""
    return pa.Table.from_pylist([asdict(keys) for keys in ranges], schema=RANGES)
