"""Runs on uncommitted data: writing the index, comparing with it, looking objects up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks import keys, looking_up, tally
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
"""Objects that were looked up, and addresses that something holds."""


def write_names(place: Place, keys_of: KeysOf, within: Within, files: Tables) -> Tables:
    """Write down the keys of live containers themselves, and how many there are."""
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
    """Write down the keys of what live containers list, by the index."""
    sample = Sample()
    ranges = keys.load(place.url, live)
    source = CountedReads(task_storage(url))
    written: list[Key] = []
    for part in parts_in(files):
        rows = read_part(source, part, ["address", "range"])
        # A collision of keys takes a dead range for a live one, and so keeps more.
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
    """Addresses below a folder in partitions that were not listed."""
    for table in read_addresses(read, files):
        yield looking_up.in_guards(format, looking_up.below(below, table), unlisted)


def look_up(
    format: Format,
    work: Place,
    carry: Place,
    rows: Tables,
    *,
    held: tuple[Part, ...],
    keys_of: KeysOf,
) -> Tables:
    """Look up objects that nothing holds; write the others down too."""
    holding = keys.load(work.url, held)
    storage = storage_of(format)
    found: list[pa.Table] = []
    waiting: list[pa.Table] = []
    missing: looking_up.GuardCounts = {}
    for table in rows:
        is_held = pa.array(keys.among(keys_of(table.column("address")), holding))
        waiting.append(looking_up.as_listed(table.filter(is_held).column("address")))
        free = table.filter(pc.invert(is_held))
        there = looking_up.look_up(storage, free.column("address"))
        looking_up.add_guards(missing, looking_up.count_missing(format, free, there))
        tally.count(OBJECTS, there.num_rows)
        found.append(there)
    own = task_storage(work.url)
    parts = [
        replace(part, group=group)
        for group, place, tables in ((THERE, work, found), (WAITING, carry, waiting))
        for part in write_parts(own, stem_in(place.below(group)), tables)
    ]
    looked_up = sum(table.num_rows for table in found)
    yield lines_of(parts, {"looked_up": looked_up, "guards": missing})


def count_guards(source: Source, files: Tables) -> Tables:
    """Count listed objects and bytes by partition."""
    counts: looking_up.GuardCounts = {}
    for table in source.read(files):
        looking_up.add_guards(counts, looking_up.count_guards(source.format, table))
    yield lines_of([], {"guards": counts})


def count_keys(url: str, live: tuple[Part, ...], _rows: Tables) -> Tables:
    """Count keys, each once."""
    for _ in _rows:
        pass
    yield lines_of([], {"keys": len(np.unique(keys.load(url, live)))})
