"""Read containers, and write their entries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks import keys, promised, reading, sampling, tally
from reclaim.engine.tasks.deleting import FAILED
from reclaim.engine.tasks.keys import Key, KeysOf
from reclaim.engine.tasks.parts import (
    Part,
    Place,
    read_part,
    task_storage,
    write_hashed,
    write_parts,
)
from reclaim.engine.tasks.reading import LIVE
from reclaim.engine.tasks.sampling import Sample
from reclaim.engine.tasks.tally import CONTAINERS as CONTAINERS_READ
from reclaim.engine.work.lines import Tables, in_fewer_tables, lines_of, stem_in, storage_of
from reclaim.engine.work.parts import read_parts
from reclaim.storage import Storage, hashed_files
from reclaim.stores.format import CONTAINERS, NO_READ, Format

HELD, DONE = "held", "done"
"""The kinds of files read for keys in addition to containers."""
SAMPLE = "sample"
"""The name under which a task reports a sample of live addresses."""
DEAD = "dead"
"""The group of files with the keys of dead addresses."""

KNOWN = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("known", pa.bool_(), nullable=False),
    ]
)
"""Containers of earlier runs, with known entries."""
JOIN_KEY = pa.field("key", pa.int64(), nullable=False)
"""A key as Spark joins on it: Spark has no unsigned numbers."""
JOIN_CAUSES = pa.schema([JOIN_KEY, keys.CAUSES.field("cause")])


def expand(format: Format, containers: Tables) -> Tables:
    storage = storage_of(format)

    def listed() -> Tables:
        for table in containers:
            for rows in reading.expand(format, storage, table):
                tally.count(CONTAINERS_READ, rows.num_rows)
                yield rows

    return in_fewer_tables(listed())


def write_containers(place: Place, rows: Tables) -> Tables:
    """Write unknown containers, and count live and dead containers.

    Containers named by snapshots were read, known or not.
    """
    counts = {"of_snapshots": 0, "containers": 0, "entries": 0, "dead": 0}

    def counted() -> Tables:
        for table in rows:
            live = pc.equal(table.column("cause"), LIVE)
            of_snapshots = pc.and_(live, pc.equal(table.column("detail"), NO_READ))
            counts["of_snapshots"] += pc.sum(of_snapshots).as_py() or 0
            if "known" in table.column_names:
                table = table.filter(pc.is_null(table.column("known")))
            table = table.select(CONTAINERS.names)
            live = table.filter(pc.equal(table.column("cause"), LIVE))
            counts["containers"] += live.num_rows
            counts["entries"] += pc.sum(live.column("entries")).as_py() or 0
            counts["dead"] += table.num_rows - live.num_rows
            yield table.cast(CONTAINERS)

    yield lines_of(write_parts(task_storage(place.url), stem_in(place), counted()), counts)


def read_known(url: str, files: Tables) -> Tables:
    """Yield the addresses of live containers, as ``KNOWN``."""
    for table in read_parts(url, files):
        live = table.filter(pc.equal(table.column("cause"), LIVE)).column("address")
        yield pa.table([live, pa.repeat(pa.scalar(True), len(live))], schema=KNOWN)


def read_dead(format: Format, containers: Tables) -> Tables:
    storage = storage_of(format)
    for table in containers:
        yield from reading.read(format, storage, table, paths=True)


def owned(format: Format, containers: Tables) -> Tables:
    storage = storage_of(format)
    for table in containers:
        yield from reading.owned(format, storage, table)


def list_promised(format: Format, containers: Tables) -> Tables:
    storage = storage_of(format)
    for table in containers:
        yield from promised.list_containers(format, storage, table)


def write_needed(format: Format, place: Place, containers: Tables) -> Tables:
    """Write the objects promised snapshots need, in files hashed by name."""
    storage, own = storage_of(format), task_storage(place.url)
    unread = promised.Unread()
    rows = [
        table for part in containers for table in promised.needed(format, storage, part, unread)
    ]
    needed = pa.concat_tables([promised.NEEDED.empty_table(), *rows])
    parts = [write_hashed(own, stem_in(place), needed)] if needed.num_rows else []
    yield lines_of(parts, unread.report())


def needs(format: Format, containers: Tables) -> Tables:
    storage = storage_of(format)
    for table in containers:
        yield from reading.needs(format, storage, table)


def extra_sources(held: Sequence[str], done: Sequence[Part]) -> pa.Table:
    """Return files with addresses, in the shape of containers."""
    rows = [(file, HELD, "", 0, LIVE) for file in held]
    rows += [(part.address, DONE, part.sha256, part.rows, LIVE) for part in done]
    columns = zip(*rows, strict=True) if rows else [()] * len(CONTAINERS)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, CONTAINERS, strict=True)]
    return pa.table(arrays, schema=CONTAINERS)


def write_keys(format: Format, place: Place, keys_of: KeysOf, rows: Tables) -> Tables:
    """Write the keys of containers, of their entries, and of files of addresses.

    Keys of dead addresses are in files of their own, each with its cause.
    """
    counts = {"containers": 0, "entries": 0, "held": 0}
    sample = Sample()
    within = partial(sampling.below, format.prefix)
    storage, own = storage_of(format), task_storage(place.url)
    written: list[Key] = []
    dead: list[Key] = []
    causes: list[keys.Causes] = []
    for table in rows:
        kind = table.column("kind")
        others = pc.is_in(kind, pa.array([HELD, DONE]))
        for row in table.filter(others).to_pylist():
            addresses, count = _addresses(own, row)
            counts["held"] += count
            written.append(keys_of(addresses))
        unread = table.filter(pc.invert(others))
        guessed = sampling.find_guessed(format, unread)
        for read in in_fewer_tables(_tallied(reading.read(format, storage, unread, paths=False))):
            is_live = pc.equal(read.column("cause"), LIVE)
            live = read.filter(is_live)
            counts["containers"] += live.num_rows - live.column("entries").null_count
            counts["entries"] += pc.sum(live.column("entries")).as_py() or 0
            written.append(keys_of(live.column("address")))
            certain = pc.invert(pc.is_in(live.column("kind"), guessed))
            keys_there = written[-1][certain.to_numpy()]
            sample.add(live.column("address").filter(certain), keys_there, within)
            if live.num_rows < read.num_rows:
                gone = read.filter(pc.invert(is_live))
                dead.append(keys_of(gone.column("address")))
                causes.append(gone.column("cause").to_numpy())
    stem = stem_in(place.below("keys"))
    parts = [*write_parts(own, stem, [keys.table(written)])]
    of_dead = write_parts(own, f"{stem}-dead", [keys.causes_table(dead, causes)])
    report = {**counts, SAMPLE: sample.encode()}
    yield lines_of([*parts, *(replace(part, group=DEAD) for part in of_dead)], report)


def _tallied(tables: Tables) -> Tables:
    for table in tables:
        tally.count(CONTAINERS_READ, table.num_rows - table.column("entries").null_count)
        yield table


def _addresses(storage: Storage, row: Mapping[str, Any]) -> tuple[pa.ChunkedArray, int]:
    if row["kind"] == HELD:
        addresses = hashed_files.read(storage, row["address"], ["address"]).column("address")
        return addresses, len(addresses)
    part = Part(row["address"], row["entries"], row["detail"])
    journal = read_part(storage, part, ["address", "outcome"])
    return journal.filter(pc.not_equal(journal.column("outcome"), FAILED)).column("address"), 0


def read_keys(url: str, files: Tables) -> Tables:
    for table in read_parts(url, files):
        yield pa.table({"key": pa.array(table.column("key").to_numpy().view(np.int64))})


def read_causes(url: str, files: Tables) -> Tables:
    """Yield keys of dead addresses, as ``JOIN_CAUSES``."""
    for table in read_parts(url, files):
        named = pa.array(table.column("key").to_numpy().view(np.int64))
        yield pa.table([named, table.column("cause")], schema=JOIN_CAUSES)
