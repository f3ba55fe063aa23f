"""Runs on uncommitted data: write keys, compare with the index, look objects up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks import keys, lookup, tally
from reclaim.engine.tasks.index import CountedReads
from reclaim.engine.tasks.keys import Key, KeysOf
from reclaim.engine.tasks.parts import Part, Place, read_part, task_storage, write_parts
from reclaim.engine.tasks.reading import LIVE
from reclaim.engine.tasks.sampling import Sample, Within
from reclaim.engine.tasks.tally import OBJECTS
from reclaim.engine.work.candidates import Source
from reclaim.engine.work.containers import SAMPLE
from reclaim.engine.work.lines import Tables, lines_of, parts_in, stem_in, storage_of
from reclaim.engine.work.parts import read_addresses, read_parts
from reclaim.stores.format import Format

THERE, WAITING = "there", "waiting"
"""Existing objects among those looked up, and addresses held by something."""


def write_names(place: Place, keys_of: KeysOf, within: Within, files: Tables) -> Tables:
    """Write the keys of live containers themselves, and count them."""
    own = task_storage(place.url)
    written: list[Key] = []
    count, sample = 0, Sample()
    for table in read_parts(place.url, files):
        live = table.filter(pc.equal(table.column("cause"), LIVE))
        count += live.num_rows
        written.append(keys_of(live.column("address")))
        sample.add(live.column("address"), written[-1], within)
    parts = write_parts(own, stem_in(place.below("keys")), [keys.table(written)])
    yield lines_of(parts, {"containers": count, SAMPLE: sample.encode()})


def write_listed_keys(
    url: str,
    place: Place,
    live: tuple[Part, ...],
    keys_of: KeysOf,
    within: Within,
    files: Tables,
) -> Tables:
    """Write the keys of the addresses in live containers, from the index."""
    sample = Sample()
    ranges = keys.load(place.url, live)
    source = CountedReads(task_storage(url))
    written: list[Key] = []
    for part in parts_in(files):
        rows = read_part(source, part, ["address", "range"])
        # A collision of keys takes a dead range for live, and so keeps more.
        listed = pa.array(keys.among(keys_of(rows.column("range")), ranges))
        addresses = rows.filter(listed).column("address")
        written.append(keys_of(addresses))
        sample.add(addresses, written[-1], within)
    own = task_storage(place.url)
    parts = write_parts(own, stem_in(place.below("keys")), [keys.table(written)])
    yield lines_of(parts, {"bytes": source.size, SAMPLE: sample.encode()})


def select_named(
    format: Format, below: str, unlisted: frozenset[str], read: str, files: Tables
) -> Tables:
    """Yield addresses below a folder in unlisted partitions."""
    for table in read_addresses(read, files):
        yield lookup.in_guards(format, lookup.below(below, table), unlisted)


def look_up(
    format: Format,
    work: Place,
    carry: Place,
    rows: Tables,
    *,
    held: tuple[Part, ...],
    keys_of: KeysOf,
) -> Tables:
    """Look up objects nothing holds; write held addresses, too."""
    holding = keys.load(work.url, held)
    storage = storage_of(format)
    existing: list[pa.Table] = []
    waiting: list[pa.Table] = []
    missing: lookup.GuardCounts = {}
    for table in rows:
        is_held = pa.array(keys.among(keys_of(table.column("address")), holding))
        waiting.append(lookup.as_listed(table.filter(is_held).column("address")))
        free = table.filter(pc.invert(is_held))
        there = lookup.look_up(storage, free.column("address"))
        lookup.add_guards(missing, lookup.count_missing(format, free, there))
        tally.count(OBJECTS, there.num_rows)
        existing.append(there)
    own = task_storage(work.url)
    parts = [
        replace(part, group=group)
        for group, place, tables in ((THERE, work, existing), (WAITING, carry, waiting))
        for part in write_parts(own, stem_in(place.below(group)), tables)
    ]
    looked_up = sum(table.num_rows for table in existing)
    yield lines_of(parts, {"looked_up": looked_up, "guards": missing})


def count_guards(source: Source, files: Tables) -> Tables:
    """Count listed objects and bytes by partition."""
    counts: lookup.GuardCounts = {}
    for table in source.read(files):
        lookup.add_guards(counts, lookup.count_guards(source.format, table))
    yield lines_of([], {"guards": counts})


def count_keys(url: str, live: tuple[Part, ...], _rows: Tables) -> Tables:
    """Count distinct keys."""
    for _ in _rows:
        pass
    yield lines_of([], {"keys": len(np.unique(keys.load(url, live)))})
