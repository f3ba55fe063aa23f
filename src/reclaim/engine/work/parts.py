"""Read and verify the files of a run in tasks."""

from __future__ import annotations

import pyarrow.compute as pc

from reclaim.engine.tasks import judging
from reclaim.engine.tasks.index import CountedReads
from reclaim.engine.tasks.parts import (
    Place,
    copy_part,
    read_part,
    task_storage,
    write_part,
    write_parts,
)
from reclaim.engine.tasks.reading import LIVE
from reclaim.engine.work.lines import Tables, lines_of, parts_in, stem_in


def read_parts(url: str, files: Tables) -> Tables:
    storage = task_storage(url)
    for part in parts_in(files):
        yield read_part(storage, part)


def read_addresses(url: str, files: Tables) -> Tables:
    storage = task_storage(url)
    for part in parts_in(files):
        yield read_part(storage, part, ["address"])


def copy(url: str, place: Place, live: bool, files: Tables) -> Tables:
    """Copy parts; of containers only the live ones."""
    source, target = CountedReads(task_storage(url)), task_storage(place.url)
    copied = []
    for part in parts_in(files):
        address = f"{stem_in(place)}.parquet"
        if not live:
            copied.append(copy_part(source, target, part, address))
            continue
        rows = read_part(source, part)
        rows = rows.filter(pc.equal(rows.column("cause"), LIVE))
        if rows.num_rows:
            copied.append(write_part(target, address, rows))
    yield lines_of(copied, {"bytes": source.size})


def verify(url: str, files: Tables) -> Tables:
    """Read parts, and count the objects of each kind."""
    counts: dict[str, tuple[int, int]] = {}
    for table in read_parts(url, files):
        counts = judging.add_kinds(counts, judging.count_kinds(table))
    yield lines_of([], {"kinds": counts})


def write_rows(place: Place, rows: Tables) -> Tables:
    """Write rows unchanged."""
    yield lines_of(write_parts(task_storage(place.url), stem_in(place), rows))
