"""The work of executors: tables in, tables out, each function for one kind of task.

What a task writes it names itself, so that no other attempt at the same task writes there too. It
gives back a line for each file, and one with what it has to tell.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reclaim.clock import SystemClock
from reclaim.engine.base import Objects, count_landmarks
from reclaim.engine.spark import keys
from reclaim.engine.spark.failures import Work
from reclaim.engine.spark.keys import Key, KeysOf
from reclaim.engine.tasks import judging, reading, recall
from reclaim.engine.tasks.deleting import FAILED, GOING, Deleter, Outcome, Pace, as_going, delete
from reclaim.engine.tasks.inventory import read_inventory
from reclaim.engine.tasks.judging import CANDIDATES, SURVIVORS, Rules, Verdict
from reclaim.engine.tasks.parts import (
    Part,
    Place,
    open_storage,
    read_part,
    write_hashed,
    write_parts,
)
from reclaim.engine.tasks.quarantine import Aside
from reclaim.engine.tasks.reading import LIVE
from reclaim.storage import LISTED, KeyRange, Storage, buckets, hashed_files
from reclaim.stores.base import CONTAINERS, NO_READ, DecodesSnapshots, Format

Tables = Iterator[pa.Table]

HELD, DONE = "held", "done"
"""The kinds of files that are read for keys besides containers."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where objects are read from."""

    format: Format
    objects: Objects

    def read(self, files: Tables) -> Tables:
        storage = open_storage(self.objects.url)
        for part in _files(files):
            if self.objects.verified:
                yield read_part(storage, part)
            else:
                yield read_inventory(storage, part, self.objects, self.format)

    def folded(self, files: Tables) -> Tables:
        """The addresses alone, as ``reading.needs`` gives them."""
        for table in self.read(files):
            yield pa.table({"address": reading.folded(table.column("address"))})


def _storage(format: Format) -> Storage:
    """The storage of a store, with objects as its format counts them."""
    return format.view(open_storage(format.root))


def in_shares(shares: Sequence[pa.Table], work: Work, numbers: Tables) -> Tables:
    """Work on the shares with some numbers, which came with the task and not as its rows."""
    return work(shares[number] for table in numbers for number in table.column("id").to_pylist())


def list_keys(format: Format, place: Place, ranges: Tables) -> Tables:
    """List key ranges."""

    def listed() -> Tables:
        storage = _storage(format)
        for table in ranges:
            for row in table.to_pylist():
                for batch in storage.batches(row["prefix"], after=row["after"], until=row["until"]):
                    yield pa.Table.from_batches([batch], schema=LISTED)

    yield _lines(write_parts(open_storage(place.url), _stem(place), listed()))


def count_noncurrent(format: Format, folders: Tables) -> Tables:
    """Count the versions that a bucket keeps of what is not there any more."""
    found = [
        buckets.noncurrent(format.root, table.column("folder").to_pylist()) for table in folders
    ]
    counts = {"objects": sum(one[0] for one in found), "size": sum(one[1] for one in found)}
    yield _lines([], counts)


def expand(format: Format, containers: Tables) -> Tables:
    storage = _storage(format)
    for table in containers:
        yield from reading.expand(format, storage, table)


def write_containers(place: Place, rows: Tables) -> Tables:
    """Write down containers that are not known, and tell how many live and dead ones there are.

    One that a snapshot names was read whether it is known or not.
    """
    counts = {"of_snapshots": 0, "containers": 0, "entries": 0, "dead": 0}

    def counted() -> Tables:
        for table in rows:
            live = pc.equal(table.column("cause"), LIVE)
            of_snapshots = pc.and_(live, pc.equal(table.column("detail"), NO_READ))
            counts["of_snapshots"] += pc.sum(of_snapshots).as_py() or 0
            table = table.filter(pc.is_null(table.column("known"))).select(CONTAINERS.names)
            live = table.filter(pc.equal(table.column("cause"), LIVE))
            counts["containers"] += live.num_rows
            counts["entries"] += pc.sum(live.column("entries")).as_py() or 0
            counts["dead"] += table.num_rows - live.num_rows
            yield table.cast(CONTAINERS)

    yield _lines(write_parts(open_storage(place.url), _stem(place), counted()), counts)


def write_rows(place: Place, rows: Tables) -> Tables:
    """Write rows down as they are."""
    yield _lines(write_parts(open_storage(place.url), _stem(place), rows))


def more_to_read(held: Sequence[str], done: Sequence[Part]) -> pa.Table:
    """Files with addresses, in the shape of containers."""
    rows = [(file, HELD, "", 0, LIVE) for file in held]
    rows += [(part.address, DONE, part.sha256, part.rows, LIVE) for part in done]
    columns = zip(*rows, strict=True) if rows else [()] * len(CONTAINERS)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, CONTAINERS, strict=True)]
    return pa.table(arrays, schema=CONTAINERS)


def write_keys(format: Format, place: Place, keys_of: KeysOf, rows: Tables) -> Tables:
    """Write down the keys of containers and of all that they list, and of files of addresses."""
    counts = {"containers": 0, "entries": 0, "held": 0}
    storage, own = _storage(format), open_storage(place.url)
    found: list[Key] = []
    for table in rows:
        kind = table.column("kind")
        others = pc.is_in(kind, pa.array([HELD, DONE]))
        for row in table.filter(others).to_pylist():
            addresses, count = _addresses(own, row)
            counts["held"] += count
            found.append(keys_of(addresses))
        for read in reading.read(format, storage, table.filter(pc.invert(others)), paths=False):
            counts["containers"] += read.num_rows - read.column("entries").null_count
            counts["entries"] += pc.sum(read.column("entries")).as_py() or 0
            found.append(keys_of(read.column("address")))
    yield _lines(write_parts(own, _stem(place.below("keys")), [keys.table(found)]), counts)


def _addresses(storage: Any, row: Mapping[str, Any]) -> tuple[pa.ChunkedArray, int]:
    if row["kind"] == HELD:
        addresses = hashed_files.read(storage, row["address"], ["address"]).column("address")
        return addresses, len(addresses)
    part = Part(row["address"], row["entries"], row["detail"])
    journal = read_part(storage, part, ["address", "outcome"])
    return journal.filter(pc.not_equal(journal.column("outcome"), FAILED)).column("address"), 0


def read_dead(format: Format, containers: Tables) -> Tables:
    storage = _storage(format)
    for table in containers:
        yield from reading.read(format, storage, table, paths=True)


def survey(format: DecodesSnapshots, rows: Tables) -> Tables:
    storage = _storage(format)
    for table in rows:
        yield format.survey(storage, [KeyRange(**row) for row in table.to_pylist()])


def read_snapshots(format: DecodesSnapshots, rows: Tables) -> Tables:
    storage = _storage(format)
    for table in rows:
        yield format.snapshots(storage, table.column("address").to_pylist())


def packed(work: Work, rows: Tables) -> Tables:
    """What work gives, each table as one value: Spark need not take it apart on its way."""
    for table in work(rows):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as stream:
            stream.write_table(table)
        yield pa.table({"rows": pa.array([sink.getvalue().to_pybytes()], pa.binary())})


def unpacked(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The tables in values, put together."""
    values = rows.column("rows").combine_chunks()
    tables = [pa.ipc.open_stream(value.as_buffer()).read_all() for value in values]
    return pa.concat_tables([schema.empty_table(), *tables])


def owned(format: Format, containers: Tables) -> Tables:
    storage = _storage(format)
    for table in containers:
        yield from reading.owned(format, storage, table)


def write_needed(format: Format, place: Place, containers: Tables) -> Tables:
    """Write down every address that snapshots need, in files that are hashed by name."""
    storage, own = _storage(format), open_storage(place.url)
    rows = [table for part in containers for table in reading.needed(format, storage, part)]
    parts = [write_hashed(own, _stem(place), pa.concat_tables(rows))] if rows else []
    yield _lines(parts)


def needs(format: Format, containers: Tables) -> Tables:
    storage = _storage(format)
    for table in containers:
        yield from reading.needs(format, storage, table)


def all_but(without: frozenset[str], read: Work, files: Tables) -> Tables:
    """Folded rows but for a few addresses."""
    few = reading.folded(pa.array(sorted(without), pa.string()))
    for table in read(files):
        yield table.filter(pc.invert(pc.is_in(table.column("address"), few)))


def read_parts(url: str, files: Tables) -> Tables:
    storage = open_storage(url)
    for part in _files(files):
        yield read_part(storage, part)


def read_going(url: str, files: Tables) -> Tables:
    for table in read_parts(url, files):
        yield as_going(table)


def read_intended(url: str, files: Tables) -> Tables:
    return map(recall.intended, read_parts(url, files))


def read_journaled(url: str, files: Tables) -> Tables:
    return map(recall.journaled, read_parts(url, files))


def write_recalled(aside: Aside | None, place: Place, rows: Tables) -> Tables:
    """Write down what was taken, by where it is now."""
    found = (recall.where(table.cast(GOING), aside) for table in rows)
    yield _lines(write_parts(open_storage(place.url), _stem(place), found))


def read_addresses(url: str, files: Tables) -> Tables:
    storage = open_storage(url)
    for part in _files(files):
        yield read_part(storage, part, ["address"])


def verify(url: str, files: Tables) -> Tables:
    """Read parts, and tell how many objects of each kind they list."""
    counts: dict[str, tuple[int, int]] = {}
    for table in read_parts(url, files):
        counts = judging.add_kinds(counts, judging.count_kinds(table))
    yield _lines([], {"kinds": counts})


def read_keys(url: str, files: Tables) -> Tables:
    for table in read_parts(url, files):
        yield pa.table({"key": pa.array(table.column("key").to_numpy().view(np.int64))})


def with_keys(read: Work, keys_of: KeysOf, files: Tables) -> Tables:
    """Rows with their keys, for Spark to join them by."""
    for table in read(files):
        yield table.append_column("key", pa.array(keys_of(table.column("address")).view(np.int64)))


def survivors(
    source: Source, url: str, live: tuple[Part, ...], keys_of: KeysOf, files: Tables
) -> Iterator[tuple[pa.Table, dict[str, int]]]:
    """Objects whose keys are not live, with how many there were of all."""
    loaded = keys.load(url, live)
    for table in source.read(files):
        counts = {
            "objects": table.num_rows,
            "size": pc.sum(table.column("size")).as_py() or 0,
            "landmarks": count_landmarks(source.objects, table),
        }
        yield _unlisted(table, loaded, keys_of), counts


def unlisted(url: str, live: tuple[Part, ...], keys_of: KeysOf, files: Tables) -> Tables:
    """Rows whose keys are not live."""
    loaded = keys.load(url, live)
    for table in read_parts(url, files):
        yield _unlisted(table, loaded, keys_of)


def _unlisted(table: pa.Table, live: Key, keys_of: KeysOf) -> pa.Table:
    return table.filter(pa.array(~keys.among(keys_of(table.column("address")), live)))


def write_survivors(place: Place, rows: Tables) -> Tables:
    """Write survivors down as they are judged: with a place for where they were listed."""
    written = write_parts(
        open_storage(place.url), _stem(place.below("survivors")), map(_bare, rows)
    )
    yield _lines(written, {})


def _bare(table: pa.Table) -> pa.Table:
    blank = [pa.nulls(table.num_rows, field.type) for field in list(SURVIVORS)[3:]]
    return pa.table([*table.select(LISTED.names).columns, *blank], schema=SURVIVORS)


def tell_after(look: Any, write: Work, files: Tables) -> Tables:
    """Look, then write; what is told also counts what was looked at."""
    counts = {"objects": 0, "size": 0, "landmarks": 0}

    def rows() -> Tables:
        for table, seen in look(files):
            for name, count in seen.items():
                counts[name] += count
            yield _bare(table)

    for lines in write(rows()):
        told = [
            json.dumps(json.loads(text) | counts) if text else ""
            for text in lines.column("told").to_pylist()
        ]
        yield lines.set_column(lines.column_names.index("told"), "told", [pa.array(told)])


def after(first: Work, then: Work, files: Tables) -> Tables:
    """Two kinds of work in one task."""
    return then(first(files))


def judge(format: Format, rules: Rules, place: Place, rows: Tables) -> Tables:
    """Judge survivors and write down the candidates."""
    verdict = Verdict()

    def judged() -> Tables:
        for table in rows:
            candidates, told = judging.judge(format, table.cast(SURVIVORS), rules)
            verdict.add(told)
            yield candidates

    parts = list(write_parts(open_storage(place.url), _stem(place), judged()))
    yield _lines(parts, {"verdict": verdict.encode()})


def explain(dead: pa.Table, judge: Work, rows: Tables) -> Tables:
    """Judge survivors, of which some are known to be dead, and why."""

    def explained() -> Tables:
        for table in rows:
            at = pc.index_in(table.column("address"), dead.column("address"))
            for name in ("kind", "cause"):
                place = table.column_names.index(name)
                table = table.set_column(place, SURVIVORS.field(name), dead.column(name).take(at))
            yield table

    return judge(explained())


def keep_closed(closed: frozenset[str], place: Place, rows: Tables) -> Tables:
    """Write down what no guard or a closed one protects, each kind in files of its own."""
    known = pa.array([*closed, ""], pa.string())
    return write_kinds(
        place, (table.filter(pc.is_in(table.column("guard"), known)) for table in rows)
    )


def write_kinds(place: Place, rows: Tables) -> Tables:
    """Write candidates down, each kind in files of its own."""
    kinds: dict[str, list[pa.Table]] = {}
    for table in rows:
        kept = table.cast(CANDIDATES)
        for kind in kept.column("kind").unique().to_pylist():
            kinds.setdefault(kind, []).append(kept.filter(pc.equal(kept.column("kind"), kind)))
    storage = open_storage(place.url)
    yield _lines(
        replace(part, group=kind)
        for kind, tables in kinds.items()
        for part in write_parts(storage, _stem(place), tables)
    )


def delete_rows(
    format: Format, deleter: Deleter, deadline: datetime, place: Place, kind: str, rows: Tables
) -> Tables:
    """Delete, for as long as there is time, and write the journal."""
    storage, clock = _storage(format), SystemClock()
    outcome, pace = Outcome(), Pace()
    todo = 0

    def tried() -> Tables:
        nonlocal todo
        for table in rows:
            todo += table.num_rows
            for journal in delete(
                format,
                storage,
                table,
                deleter=deleter,
                in_time=lambda: clock.now() < deadline,
                pace=pace,
            ):
                outcome.count(journal)
                yield journal

    written = write_parts(open_storage(place.url), _stem(place), tried())
    parts = [replace(part, group=kind) for part in written]
    finished = sum(outcome.counts.values()) == todo
    yield _lines(parts, {"outcome": outcome.encode(), "finished": finished})


RANGES = pa.schema(
    [pa.field(name, pa.string(), nullable=False) for name in ("prefix", "after", "until")]
)


def ranges_table(ranges: Sequence[KeyRange]) -> pa.Table:
    """Key ranges as rows, for tasks to list."""
    return pa.Table.from_pylist([asdict(keys) for keys in ranges], schema=RANGES)


def listed(parts: Sequence[Part]) -> pa.Table:
    """Parts as rows, for tasks to read."""
    rows = [(part.address, part.rows, part.sha256, part.group) for part in parts]
    columns = list(zip(*rows, strict=True)) or [()] * 4
    names = ("address", "rows", "sha256", "group")
    types = (pa.string(), pa.int64(), pa.string(), pa.string())
    return pa.table([pa.array(c, t) for c, t in zip(columns, types, strict=True)], names=names)


def _files(files: Tables) -> Iterator[Part]:
    for table in files:
        for row in table.to_pylist():
            yield Part(**row)


def _lines(
    parts: Iterator[Part] | Sequence[Part], told: Mapping[str, Any] | None = None
) -> pa.Table:
    """The parts that a task wrote, and one line for what it has to tell."""
    lines = [(part.address, part.rows, part.sha256, part.group, "") for part in parts]
    # Only now is what it tells complete.
    lines.append(("", 0, "", "", json.dumps(told) if told is not None else ""))
    columns = zip(*lines, strict=True)
    return pa.table(dict(zip(("address", "rows", "sha256", "group", "told"), columns, strict=True)))


def _stem(place: Place) -> str:
    return place.at(uuid4().hex)
