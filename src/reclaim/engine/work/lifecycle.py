"""Lifecycle rules: what tasks do for each of the steps."""

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
from reclaim.engine.tasks.looking_up import guards_of, look_up
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
"""The sorts of files that tasks write, as the groups of parts."""

COUNTED = -1
"""In the place of the number of a holder, of a row that has what a task has read."""

THERE = pa.schema([*ADDRESSES, *(field for field in LISTED if field.name != "address")])
"""Addresses that go, and the objects that these are."""


# 1 and 2: commits, and what they have


def expand(format: Format, metaranges: Tables) -> Tables:
    """Ranges of metaranges, each once for a task, and a row with what was read."""
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
            if sum(one.num_rows for one in waiting) >= ROWS_AT_ONCE:
                waiting = [lifecycle_ranges.merge_ranges(waiting)]
    yield lifecycle_ranges.merge_ranges(waiting)
    if names:
        # The address of a metarange is that of no range, and of no other task; no other column
        # could hold the two numbers.
        told = [min(names), str(count), reads.size, 0, COUNTED, lifecycle.NOBODY]
        yield pa.table([pa.array([v], f.type) for v, f in zip(told, RANGES, strict=True)], RANGES)


def part_counted(rows: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Ranges, and the rows with what tasks have read."""
    rows = rows.cast(RANGES)
    is_counted = pc.equal(rows.column("holder"), COUNTED)
    return rows.filter(pc.invert(is_counted)), rows.filter(is_counted)


def read_known(url: str, renumbering: Renumbering, files: Tables) -> Tables:
    for table in read_parts(url, files):
        yield renumbering.apply(table)


def write_ranges(place: Place, rows: Tables) -> Tables:
    """Write ranges down, and as containers those that something reaches."""
    storage = task_storage(place.url)
    counts = {"metaranges": 0, "ranges": 0, "entries": 0, "bytes": 0}
    ranges: list[pa.Table] = []
    for table in rows:
        found, counted = part_counted(table)
        ranges.append(found)
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


# 3: entries that rules match, and did not match then


@loaded_once(4)
def load_ranges(url: str, parts: tuple[Part, ...]) -> RangeBits:
    """The classes that reach ranges; read once by each process that looks at entries."""
    storage = task_storage(url)
    tables = [read_part(storage, part) for part in parts]
    return RangeBits.of(pa.concat_tables([RANGES.empty_table(), *tables]))


def _write_keys(work: Place, found: Sequence[Key]) -> list[Part]:
    written = write_parts(task_storage(work.url), stem_in(work.below("keys")), [keys.table(found)])
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
    """The keys of entries in the index that a rule matches now, and did not match then.

    ``url`` is that of the storage with these parts of the index.
    """
    now, then = load_ranges(work.url, ranges), load_ranges(work.url, known)
    changes = RuleChanges(classes[0], now, classes[1], then)
    source = CountedReads(task_storage(url))
    found = (changes.find(read_index(source, part)) for part in parts_in(files))
    return _write_found(work, keys_of, found, source)


def find_carried(format: Format, url: str, work: Place, keys_of: KeysOf, files: Tables) -> Tables:
    """The keys of addresses that an earlier run carries."""
    source = CountedReads(task_storage(url))

    def named() -> Tables:
        for part in parts_in(files):
            names = read_part(source, part, ["address"])
            yield pa.table([guards_of(format, names), names.column("address")], schema=FOUND)

    return _write_found(work, keys_of, named(), source)


def _write_found(work: Place, keys_of: KeysOf, found: Tables, source: CountedReads) -> Tables:
    matched: list[Key] = []
    partitions: set[str] = set()
    for table in found:
        matched.append(keys_of(table.column("address")))
        partitions.update(pc.unique(table.column("partition")).to_pylist())
    report = {"partitions": sorted(partitions), "bytes": source.size}
    yield lines_of(_write_keys(work, matched), report)


# 4: every path of the addresses that are decided on

SHARE = pa.schema(
    [
        # Parts of the index that may have entries of the partitions, as JSON.
        pa.field("parts", pa.string(), nullable=False),
        # The partitions that are decided on by one task: from the first on, and before the last.
        pa.field("first", pa.string(), nullable=False),
        pa.field("last", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class Wanted:
    """The addresses that an incremental run decides on: by partition, and by keys."""

    partitions: frozenset[str]
    keys: tuple[Part, ...]
    """None of them if there are too many to look up: then all of these partitions."""


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
    """Decide on the addresses of some partitions, by every row that the index has of them; with
    ``work`` the keys of those that go are written there.

    A collision of keys adds an address, of which every row is read as well: those of its partition
    are.
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
    """The rows of one part of the index that a task decides on."""
    rows = read_index(source, part)
    span = Span.of(part)
    first, last = share["first"], share["last"]
    if span.first < first or (last is not None and span.last >= last):
        rows = in_partitions(rows, lambda name: first <= name and (last is None or name < last))
    if wanted is not None:
        rows = in_partitions(rows, wanted.partitions.__contains__)
        if wanted.keys:
            found = keys.load(work, wanted.keys)
            rows = rows.filter(pa.array(keys.among(keys_of(rows.column("address")), found)))
    return select_rows(now, rows)


# 5: what is there of what goes

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
    """Count listed objects, and write down those that may be among what goes."""
    counts = {"objects": 0, "size": 0, "data": 0, "sampled": 0}
    wanted = keys.load(work.url, going)
    found: list[pa.Table] = []
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
            found.append(pa.table(columns, schema=KEYED).filter(pa.array(named)))
    parts = write_parts(task_storage(work.url), stem_in(work.below("listed")), found)
    yield lines_of(list(parts), counts)


@loaded_once(1)
def load_listed(url: str, parts: tuple[Part, ...]) -> tuple[Key, pa.Table]:
    """Listed objects, sorted by key; once for each process."""
    storage = task_storage(url)
    rows = pa.concat_tables([KEYED.empty_table(), *(read_part(storage, part) for part in parts)])
    rows = rows.sort_by("key").combine_chunks()
    return rows.column("key").to_numpy(), rows


def match_listed(
    url: str, listed: tuple[Part, ...], keys_of: KeysOf, addresses: pa.Table
) -> pa.Table:
    """What is listed of some addresses, which are decided on: a collision only makes an object
    look as if it were there, and deleting it finds nothing."""
    known, rows = load_listed(url, listed)
    if not len(known):
        return THERE.empty_table()
    key = keys_of(addresses.column("address"))
    at = np.minimum(np.searchsorted(known, key), len(known) - 1)
    is_there = known[at] == key
    objects = rows.take(pa.array(at[is_there]))
    found = addresses.filter(pa.array(is_there))
    columns = [*found.columns, objects.column("size"), objects.column("last_modified")]
    return pa.table(columns, schema=THERE)


def write_going_keys(work: Place, keys_of: KeysOf, files: Tables) -> Tables:
    storage = task_storage(work.url)
    names = (read_part(storage, part, ["address"]).column("address") for part in parts_in(files))
    found = [keys_of(addresses) for addresses in names]
    yield lines_of(_write_keys(work, found))


def look_up_going(format: Format, addresses: pa.Table) -> pa.Table:
    """The objects that there are of some addresses, each asked for by its name."""
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
    found: Place,
    there: Callable[[pa.Table], pa.Table],
    addresses: Tables,
) -> Tables:
    """Judge what is ``there`` of addresses that go; write down what may be taken and what stays."""
    own = task_storage(found.url)
    holding = keys.load(found.url, held)
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
        going, taken, stays, told = lifecycle_plan.judge(
            format,
            classes,
            rules,
            free.select(ADDRESSES.names),
            free.select(LISTED.names),
            shielded(free.column("address"), found.url, tuple(rules.shields), keys_of),
        )
        verdict.add(told)
        written[CANDIDATE_FILE].append(going)
        written[ADDRESS_FILE].append(taken)
        written[HELD_FILE] += [waiting, stays]
    places = {
        CANDIDATE_FILE: candidates,
        ADDRESS_FILE: found.below("going"),
        HELD_FILE: found.below("held"),
    }
    parts = [
        part
        for group, tables in written.items()
        for part in _grouped(write_parts(own, stem_in(places[group]), tables), group)
    ]
    yield lines_of(parts, counts | {"verdict": verdict.encode()})
