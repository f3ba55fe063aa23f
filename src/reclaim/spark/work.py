"""The work of executors: tables in, tables out, each function for one kind of task.

What a task writes it names itself, so that no other attempt at the same task writes there too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.clock import SystemClock
from reclaim.storage import LISTED
from reclaim.stores.base import CONTAINERS, Format
from reclaim.tasks import inventory, judging, reading
from reclaim.tasks.deleting import Deleter, Outcome, Pace, delete
from reclaim.tasks.engine import Objects
from reclaim.tasks.judging import CANDIDATES, Rules, Verdict
from reclaim.tasks.parts import Part, Place, decode, open_storage, read_part, write_parts
from reclaim.tasks.reading import LIVE


def list_units(format: Format, place: Place, units: Iterator[pa.Table]) -> Iterator[pa.Table]:
    def found() -> Iterator[pa.Table]:
        storage = open_storage(format.root)
        for table in units:
            for unit in table.column("unit").to_pylist():
                for batch in storage.batches(unit):
                    yield pa.Table.from_batches([batch], schema=LISTED)

    yield _lines(list(write_parts(open_storage(place.url), _stem(place), found())), "")


def expand(format: Format, tops: Iterator[pa.Table]) -> Iterator[pa.Table]:
    storage = open_storage(format.root)
    for table in tops:
        yield from reading.expand(format, storage, table)


def write_containers(place: Place, rows: Iterator[pa.Table]) -> Iterator[pa.Table]:
    counts = {"containers": 0, "entries": 0, "dead": 0}

    def counted() -> Iterator[pa.Table]:
        for table in rows:
            live = table.filter(pc.equal(table.column("cause"), LIVE))
            counts["containers"] += live.num_rows
            counts["entries"] += pc.sum(live.column("entries")).as_py() or 0
            counts["dead"] += table.num_rows - live.num_rows
            yield table.cast(CONTAINERS)

    parts = list(write_parts(open_storage(place.url), _stem(place), counted()))
    yield _lines(parts, json.dumps(counts))


def read_live(format: Format, containers: Iterator[pa.Table]) -> Iterator[pa.Table]:
    storage = open_storage(format.root)
    for table in containers:
        for found in reading.read(format, storage, table, paths=False):
            yield found.select(["address", "entries"])


def read_dead(format: Format, containers: Iterator[pa.Table]) -> Iterator[pa.Table]:
    storage = open_storage(format.root)
    for table in containers:
        yield from reading.read(format, storage, table, paths=True)


def read_held(place: Place, files: Iterator[pa.Table]) -> Iterator[pa.Table]:
    storage = open_storage(place.url)
    for table in files:
        for file in table.column("file").to_pylist():
            yield decode(storage.get(file), file, ["address"])


def read_inventory(
    format: Format, objects: Objects, files: Iterator[pa.Table]
) -> Iterator[pa.Table]:
    storage = open_storage(objects.url)
    for table in files:
        for address in table.column("address").to_pylist():
            yield inventory.rows(storage.get(address), objects, format)


def read_parts(url: str, files: Iterator[pa.Table]) -> Iterator[pa.Table]:
    storage = open_storage(url)
    for table in files:
        for row in table.to_pylist():
            yield read_part(storage, Part(row["address"], row["rows"], row["sha256"]))


def judge(
    format: Format, rules: Rules, place: Place, survivors: Iterator[pa.Table]
) -> Iterator[pa.Table]:
    verdict = Verdict()

    def judged() -> Iterator[pa.Table]:
        for table in survivors:
            candidates, told = judging.judge(format, table.cast(judging.SURVIVORS), rules)
            verdict.add(told)
            yield candidates

    parts = list(write_parts(open_storage(place.url), _stem(place), judged()))
    yield _lines(parts, verdict.encode())


def keep_closed(
    closed: frozenset[str], place: Place, rows: Iterator[pa.Table]
) -> Iterator[pa.Table]:
    """Write down what lies in no partition or in a closed one, each kind in files of its own."""
    known = pa.array([*closed, ""], pa.string())
    kinds: dict[str, list[pa.Table]] = {}
    for table in rows:
        kept = table.filter(pc.is_in(table.column("partition"), known)).cast(CANDIDATES)
        for kind in kept.column("kind").unique().to_pylist():
            kinds.setdefault(kind, []).append(kept.filter(pc.equal(kept.column("kind"), kind)))
    storage = open_storage(place.url)
    parts = [
        replace(part, group=kind)
        for kind, tables in kinds.items()
        for part in write_parts(storage, _stem(place), tables)
    ]
    yield _lines(parts, "")


def delete_rows(
    format: Format,
    deleter: Deleter,
    deadline: datetime,
    place: Place,
    kind: str,
    rows: Iterator[pa.Table],
) -> Iterator[pa.Table]:
    storage, clock = open_storage(format.root), SystemClock()
    outcome, pace = Outcome(), Pace()
    todo = 0

    def tried() -> Iterator[pa.Table]:
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
    yield _lines(parts, json.dumps({"outcome": outcome.encode(), "finished": finished}))


def _lines(parts: Sequence[Part], told: str) -> pa.Table:
    """The parts that a task wrote, and one line for what it has to tell."""
    rows = [(part.address, part.rows, part.sha256, part.group, "") for part in parts]
    columns = zip(*[*rows, ("", 0, "", "", told)], strict=True)
    return pa.table(dict(zip(("address", "rows", "sha256", "group", "told"), columns, strict=True)))


def _stem(place: Place) -> str:
    return place.at(uuid4().hex)
