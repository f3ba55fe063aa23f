"""Lifecycle rules: the work of tasks for each step."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks import keys, lifecycle, lifecycle_plan, lifecycle_ranges, tally
from reclaim.engine.tasks.index import CountedReads, Span, in_partitions, read_index
from reclaim.engine.tasks.judging import CandidateRules, Verdict
from reclaim.engine.tasks.keys import Key, KeysOf
from reclaim.engine.tasks.lifecycle import ADDRESSES, RANGES, ROWS, ReachNames
from reclaim.engine.tasks.lifecycle_ranges import RangeBits, Renumbering
from reclaim.engine.tasks.lookup import guards_of, look_up
from reclaim.engine.tasks.parts import (
    Part,
    Place,
    loaded_once,
    read_part,
    task_storage,
    write_parts,
)
from reclaim.engine.tasks.rule_changes import FOUND, RuleChanges, select_rows
from reclaim.engine.tasks.sampling import count_sampled
from reclaim.engine.tasks.tally import CONTAINERS as CONTAINERS_READ
from reclaim.engine.tasks.tally import OBJECTS
from reclaim.engine.work.incremental import ROWS_AT_ONCE
from reclaim.engine.work.lines import Tables, lines_of, parts_in, stem_in, storage_of
from reclaim.engine.work.parts import read_parts
from reclaim.engine.work.shielding import shielded
from reclaim.policy.lifecycle.classes import BranchClasses
from reclaim.storage import LISTED
from reclaim.stores.format import Format

RANGE_FILE, CONTAINER_FILE = "ranges", "containers"
ROW_FILE, ADDRESS_FILE, HELD_FILE, CANDIDATE_FILE = "rows", "addresses", "held", "candidates"
KEY_FILE = "keys"
"""Kinds of files written by tasks, used as groups of parts."""

COUNTED = -1
"""Stands for the number of a holder, in a row with the amount a task has read."""

THERE = pa.schema([*ADDRESSES, *(field for field in LISTED if field.name != "address")])
"""Deletable addresses, with their objects."""


# Steps 1 and 2: commits and their ranges


def expand(format: Format, metaranges: Tables) -> Tables:
    """Yield the ranges of metaranges, each once for a task, and a row with the amount read."""
    reads = CountedReads(storage_of(format))
    waiting: list[pa.Table] = []
    names: list[str] = []
    count = 0
    for table in metaranges:
        names += table.column("address").to_pylist()
        for rows in lifecycle_ranges.expand_metaranges(format, reads, table):
            tally.count(CONTAINERS_READ, 1)
            waiting.append(rows)
            count += 1
            if sum(table.num_rows for table in waiting) >= ROWS_AT_ONCE:
                waiting = [lifecycle_ranges.merge_ranges(waiting)]
    yield lifecycle_ranges.merge_ranges(waiting)
    if names:
        # The address of a metarange is that of no range, and of no other task; no other column
        # could hold the two numbers.
        amounts = [min(names), str(count), reads.size, 0, COUNTED, lifecycle.NOBODY]
        yield pa.table(
            [pa.array([v], f.type) for v, f in zip(amounts, RANGES, strict=True)], RANGES
        )


def part_counted(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Separate ranges from rows with the amounts read by tasks."""
    rows = rows.cast(RANGES)
    is_counted = pc.equal(rows.column("holder"), COUNTED)
    return rows.filter(pc.invert(is_counted)), rows.filter(is_counted)


def read_known(url: str, renumbering: Renumbering, files: Tables) -> Tables:
    for table in read_parts(url, files):
        yield renumbering.apply(table)


def write_ranges(place: Place, rows: Tables) -> Tables:
    """Write ranges, and those with bits as containers."""
    storage = task_storage(place.url)
    counts = {"metaranges": 0, "ranges": 0, "entries": 0, "bytes": 0}
    ranges: list[pa.Table] = []
    for table in rows:
        uncounted, counted = part_counted(table)
        ranges.append(uncounted)
        for row in counted.to_pylist():
            counts["metaranges"] += int(row["detail"])
            counts["bytes"] += row["entries"]
    whole = pa.concat_tables([RANGES.empty_table(), *ranges])
    containers = lifecycle_ranges.as_containers(whole)
    counts["ranges"] = containers.num_rows
    counts["entries"] = pc.sum(containers.column("entries")).as_py() or 0
    parts = [
        *_grouped(write_parts(storage, stem_in(place), [whole]), RANGE_FILE),
        *_grouped(
            write_parts(storage, stem_in(place.below("containers")), [containers]), CONTAINER_FILE
        ),
    ]
    yield lines_of(parts, counts)


def _grouped(parts: Collection[Part] | Tables, group: str) -> list[Part]:
    return [replace(part, group=group) for part in parts]


# Step 3: entries matched by rules now, but not before


@loaded_once(4)
def load_ranges(url: str, parts: tuple[Part, ...]) -> RangeBits:
    """Return the bits of ranges; loaded once by each process that reads entries."""
    storage = task_storage(url)
    tables = [read_part(storage, part) for part in parts]
    return RangeBits.of(pa.concat_tables([RANGES.empty_table(), *tables]))


def _write_keys(work: Place, hashes: Sequence[Key]) -> list[Part]:
    written = write_parts(task_storage(work.url), stem_in(work.below("keys")), [keys.table(hashes)])
    return _grouped(written, KEY_FILE)


def find_changed(
    url: str,
    ranges: tuple[Part, ...],
    known: tuple[Part, ...],
    classes: tuple[BranchClasses, BranchClasses],
    work: Place,
    keys_of: KeysOf,
    files: Tables,
) -> Tables:
    """Write the keys of index entries matched now, but not in the last run.

    ``url`` is the storage with these parts of the index.
    """
    now, then = load_ranges(work.url, ranges), load_ranges(work.url, known)
    changes = RuleChanges(classes[0], now, classes[1], then)
    source = CountedReads(task_storage(url))
    entries = (changes.find(read_index(source, part)) for part in parts_in(files))
    return _write_found(work, keys_of, entries, source)


def find_carried(format: Format, url: str, work: Place, keys_of: KeysOf, files: Tables) -> Tables:
    """Write the keys of addresses carried by an earlier run."""
    source = CountedReads(task_storage(url))

    def named() -> Tables:
        for part in parts_in(files):
            names = read_part(source, part, ["address"])
            yield pa.table([guards_of(format, names), names.column("address")], schema=FOUND)

    return _write_found(work, keys_of, named(), source)


def _write_found(work: Place, keys_of: KeysOf, entries: Tables, source: CountedReads) -> Tables:
    matched: list[Key] = []
    partitions: set[str] = set()
    for table in entries:
        matched.append(keys_of(table.column("address")))
        partitions.update(pc.unique(table.column("partition")).to_pylist())
    report = {"partitions": sorted(partitions), "bytes": source.size}
    yield lines_of(_write_keys(work, matched), report)


# Step 4: every path of the addresses to decide on

SHARE = pa.schema(
    [
        # Parts of the index with possible entries of the partitions, as JSON.
        pa.field("parts", pa.string(), nullable=False),
        # The interval of partitions a task decides on: the first is included, the last excluded.
        pa.field("first", pa.string(), nullable=False),
        pa.field("last", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The addresses an incremental run decides on, by partition and by key."""

    partitions: frozenset[str]
    keys: tuple[Part, ...]
    """Empty if there are too many to look up: then all addresses of these partitions."""


def decide(
    classes: BranchClasses,
    names: ReachNames,
    ranges: tuple[Part, ...],
    wanted: Wanted | None,
    keys_of: KeysOf,
    place: Place,
    work: Place | None,
    shares: Tables,
) -> Tables:
    """Decide on the addresses of some partitions, by all their rows in the index. With ``work``,
    the keys of deletable addresses are written there.

    A collision of keys adds an address, all rows of which are read, too: it is in a partition that
    is read.
    """
    storage, now = task_storage(place.url), load_ranges(place.url, ranges)
    parts: list[Part] = []
    going: list[Key] = []
    size = 0
    for share in (row for table in shares for row in table.to_pylist()):
        tables = []
        for named in json.loads(share["parts"]):
            source = CountedReads(task_storage(named.pop("url")))
            part = Part(**named)
            tables.append(_rows_of(now, wanted, keys_of, place.url, source, part, share))
            size += source.size
        rows = pa.concat_tables([ROWS.empty_table(), *tables])
        decision = lifecycle.decide(classes, names, rows)
        going.append(keys_of(decision.going.column("address")))
        for group, table in (
            (ROW_FILE, decision.rows),
            (ADDRESS_FILE, decision.going),
            (HELD_FILE, decision.held),
        ):
            parts += _grouped(write_parts(storage, stem_in(place.below(group)), [table]), group)
    if work is not None:
        parts += _write_keys(work, going)
    yield lines_of(parts, {"bytes": size})


def _rows_of(
    now: RangeBits,
    wanted: Wanted | None,
    keys_of: KeysOf,
    work: str,
    source: CountedReads,
    part: Part,
    share: dict[str, Any],
) -> pa.Table:
    """Return the rows of a part of the index a task decides on."""
    rows = read_index(source, part)
    span = Span.of(part)
    first, last = share["first"], share["last"]
    if span.first < first or (last is not None and span.last >= last):
        rows = in_partitions(rows, lambda name: first <= name and (last is None or name < last))
    if wanted is not None:
        rows = in_partitions(rows, wanted.partitions.__contains__)
        if wanted.keys:
            wanted_keys = keys.load(work, wanted.keys)
            rows = rows.filter(pa.array(keys.among(keys_of(rows.column("address")), wanted_keys)))
    return select_rows(now, rows)


# Step 5: existing objects of deletable addresses

KEYED = pa.schema(
    [
        pa.field("key", pa.uint64(), nullable=False),
        *(field for field in LISTED if field.name != "address"),
    ]
)
"""Listed objects by the keys of their addresses."""


def find_listed(
    format: Format,
    url: str,
    work: Place,
    going: tuple[Part, ...],
    keys_of: KeysOf,
    sample: tuple[int, ...],
    files: Tables,
) -> Tables:
    """Count listed objects, and write those possibly deletable."""
    counts = {"objects": 0, "size": 0, "data": 0, "sampled": 0}
    wanted = keys.load(work.url, going)
    listed: list[pa.Table] = []
    for table in read_parts(url, files):
        tally.count(OBJECTS, table.num_rows)
        counts["objects"] += table.num_rows
        counts["size"] += pc.sum(table.column("size")).as_py() or 0
        counts["data"] += lifecycle_plan.count_data(format, table)
        key = keys_of(table.column("address"))
        counts["sampled"] += count_sampled(key, sample)
        if len(wanted):
            named = keys.among(key, wanted)
            columns = [pa.array(key), table.column("size"), table.column("last_modified")]
            listed.append(pa.table(columns, schema=KEYED).filter(pa.array(named)))
    parts = write_parts(task_storage(work.url), stem_in(work.below("listed")), listed)
    yield lines_of(list(parts), counts)


@loaded_once(1)
def load_listed(url: str, parts: tuple[Part, ...]) -> tuple[Key, pa.Table]:
    """Return listed objects, sorted by key; loaded once in each process."""
    storage = task_storage(url)
    rows = pa.concat_tables([KEYED.empty_table(), *(read_part(storage, part) for part in parts)])
    rows = rows.sort_by("key").combine_chunks()
    return rows.column("key").to_numpy(), rows


def match_listed(
    url: str, listed: tuple[Part, ...], keys_of: KeysOf, addresses: pa.Table
) -> pa.Table:
    """Return the listed objects of decided addresses: a collision only makes an object appear to
    exist, and deleting it finds nothing."""
    known, rows = load_listed(url, listed)
    if not len(known):
        return THERE.empty_table()
    key = keys_of(addresses.column("address"))
    at = np.minimum(np.searchsorted(known, key), len(known) - 1)
    is_there = known[at] == key
    objects = rows.take(pa.array(at[is_there]))
    existing = addresses.filter(pa.array(is_there))
    columns = [*existing.columns, objects.column("size"), objects.column("last_modified")]
    return pa.table(columns, schema=THERE)


def write_going_keys(work: Place, keys_of: KeysOf, files: Tables) -> Tables:
    storage = task_storage(work.url)
    names = (read_part(storage, part, ["address"]).column("address") for part in parts_in(files))
    written = [keys_of(addresses) for addresses in names]
    yield lines_of(_write_keys(work, written))


def look_up_going(format: Format, addresses: pa.Table) -> pa.Table:
    """Look up the objects of some addresses, each by its name."""
    listed = look_up(storage_of(format), addresses.column("address"))
    tally.count(OBJECTS, addresses.num_rows)
    at = pc.index_in(listed.column("address"), addresses.column("address").combine_chunks())
    known = addresses.take(at)
    columns = [*known.columns, listed.column("size"), listed.column("last_modified")]
    return pa.table(columns, schema=THERE)


def judge(
    format: Format,
    classes: BranchClasses,
    rules: CandidateRules,
    held: tuple[Part, ...],
    keys_of: KeysOf,
    candidates: Place,
    output: Place,
    there: Callable[[pa.Table], pa.Table],
    addresses: Tables,
) -> Tables:
    """Judge the existing objects (``there``) of deletable addresses; write candidates and kept
    addresses."""
    own = task_storage(output.url)
    holding = keys.load(output.url, held)
    verdict, counts = Verdict(), {"there": 0, "size": 0, "owned": 0}
    written: dict[str, list[pa.Table]] = {CANDIDATE_FILE: [], ADDRESS_FILE: [], HELD_FILE: []}
    for rows in addresses:
        ours = lifecycle_plan.owned(format, rows.cast(ADDRESSES))
        counts["owned"] += ours.num_rows
        table = there(ours)
        counts["there"] += table.num_rows
        counts["size"] += pc.sum(table.column("size")).as_py() or 0
        is_held = pa.array(keys.among(keys_of(table.column("address")), holding))
        named = table.select(ADDRESSES.names)
        waiting = lifecycle_plan.as_held(named.filter(is_held), lifecycle_plan.STAGED)
        free = table.filter(pc.invert(is_held))
        going, taken, stays, judged = lifecycle_plan.judge(
            format,
            classes,
            rules,
            free.select(ADDRESSES.names),
            free.select(LISTED.names),
            shielded(free.column("address"), output.url, tuple(rules.shields), keys_of),
        )
        verdict.add(judged)
        written[CANDIDATE_FILE].append(going)
        written[ADDRESS_FILE].append(taken)
        written[HELD_FILE] += [waiting, stays]
    places = {
        CANDIDATE_FILE: candidates,
        ADDRESS_FILE: output.below("going"),
        HELD_FILE: output.below("held"),
    }
    parts = [
        part
        for group, tables in written.items()
        for part in _grouped(write_parts(own, stem_in(places[group]), tables), group)
    ]
    yield lines_of(parts, counts | {"verdict": verdict.encode()})
