"""Lifecycle rules: the work of tasks after a plan, to judge again, to carry and to publish."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import pyarrow as pa

from reclaim.engine.tasks import keys, lifecycle, lifecycle_plan, lifecycle_ranges
from reclaim.engine.tasks.index import CountedReads, IndexCounts, read_ranges
from reclaim.engine.tasks.keys import KeysOf
from reclaim.engine.tasks.lifecycle import RANGES, ROWS
from reclaim.engine.tasks.lifecycle_ranges import RangeBits
from reclaim.engine.tasks.parts import (
    ADDRESSES,
    Part,
    Place,
    read_part,
    task_storage,
    write_hashed,
    write_part,
    write_parts,
)
from reclaim.engine.tasks.rule_changes import select_rows
from reclaim.engine.work.lifecycle import part_counted
from reclaim.engine.work.lines import Tables, lines_of, parts_in, stem_in, storage_of
from reclaim.policy.lifecycle.classes import BranchClasses
from reclaim.stores.format import Format


def newly_reached(url: str, known: tuple[Part, ...], ranges: Tables) -> Tables:
    """Yield ranges with their new bits; rows with counts are passed on."""
    storage = task_storage(url)
    tables = [read_part(storage, part) for part in known]
    before = pa.concat_tables([RANGES.empty_table(), *tables])
    for table in ranges:
        reached, counted = part_counted(table)
        yield counted
        yield lifecycle_ranges.newly_reached(reached, before)


def read_again(
    format: Format, work: Place, planned: tuple[Part, ...], keys_of: KeysOf, ranges: Tables
) -> Tables:
    """Write rows of planned addresses in ranges added since."""
    wanted = keys.load(work.url, planned)
    reads, counts = CountedReads(storage_of(format)), IndexCounts()
    selected: list[pa.Table] = []
    for table in ranges:
        table = table.cast(RANGES)
        now = RangeBits.of(table)
        for _, rows in read_ranges(format, reads, table, counts):
            named = keys.among(keys_of(rows.column("address")), wanted)
            selected.append(select_rows(now, rows.filter(pa.array(named))))
    parts = write_parts(task_storage(work.url), stem_in(work.below("rows")), selected)
    yield lines_of(list(parts), asdict(counts))


def leave(classes: BranchClasses, protect: Sequence[str], place: Place, rows: Tables) -> Tables:
    """Write the addresses with an unmatched or protected path, in files hashed by name."""
    whole = pa.concat_tables([ROWS.empty_table(), *(table.cast(ROWS) for table in rows)])
    leaving = lifecycle.find_unmatched(classes, whole, protect)
    if not len(leaving):
        yield lines_of([])
        return
    table = pa.table({"address": leaving}, schema=ADDRESSES)
    yield lines_of([write_hashed(task_storage(place.url), stem_in(place), table)])


def publish(run: str, url: str, place: Place, files: Tables) -> Tables:
    """Publish addresses, each part by itself."""
    source, own = task_storage(url), task_storage(place.url)
    parts = []
    for part in parts_in(files):
        rows = lifecycle_plan.published(run, read_part(source, part))
        # The same name whenever the run is published again.
        parts.append(write_part(own, place.at(f"{run}-{part.sha256[:16]}.parquet"), rows))
    yield lines_of(parts)
