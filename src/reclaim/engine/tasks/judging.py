"""Judge unreferenced objects: decide which of them may go, and give the reasons.

Everything uncertain stays: young objects, objects protected by an open guard, kinds Reclaim does
not judge, and odd addresses.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks.grouping import GroupSums, Places, folders_of
from reclaim.engine.tasks.parts import Part
from reclaim.globs import glob_regex
from reclaim.storage import Storage, hashed_files
from reclaim.stores.format import FOREIGN, Format
from reclaim.urls import ODD_ADDRESS

SURVIVORS = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("last_modified", pa.timestamp("us", tz="UTC"), nullable=False),
        # Path, kind and cause in a dead container, if any.
        pa.field("path", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("cause", pa.int32()),
    ]
)
"""Unreferenced objects."""

CANDIDATES = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("last_modified", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        # The group shown to people, and the guard protecting the object while open.
        pa.field("belongs_to", pa.string(), nullable=False),
        pa.field("guard", pa.string(), nullable=False),
        pa.field("path", pa.string()),
        pa.field("reason", pa.string(), nullable=False),
    ]
)
"""Columns of a plan's lists of candidates."""

PATHS = pa.schema([pa.field("address", pa.string()), pa.field("path", pa.string())])

LARGEST = 20
NAMED = 5
"""Odd addresses named in messages."""
ODD = "odd key: left alone"
IN_DOUBT = "perhaps protected: a container of a removed commit cannot be read"
YOUNG = "too young"
AGES = (1, 7, 30, 90, 365)
"""Ages in days by which summaries are grouped."""


@dataclass(frozen=True, slots=True)
class CandidateRules:
    """Rules for candidates. ``cutoffs`` has every kind that may go."""

    cutoffs: Mapping[str, datetime]
    closed: frozenset[str]
    open: frozenset[str]
    """All known guards."""
    causes: Sequence[str | None]
    """Reason text by cause, the live cause (number 0) included; None leaves it to the kind."""
    reasons: Mapping[str, str]
    """Reason text for kinds no dead container lists."""
    now: datetime
    protected: Sequence[str]
    """Folders nothing is deleted from: of the run itself, and of runs with an undo."""
    protect: Sequence[str] = ()
    """Globs of paths and addresses protected by a setting of the store."""
    shields: Sequence[Part] = ()
    """Addresses, in the storage of the plan, with former paths matched by these globs, each with
    the number of the glob (see ``shielding``)."""
    in_doubt: bool = False
    """Whether there are unreadable dead containers. Their entries may be protected, so any object
    may be; the containers stay, in case they become readable."""
    paths: Sequence[str] = ()
    """Files, in the storage of the plan, with the paths of objects no container lists."""

    def load_paths(self, storage: Storage) -> pa.Table:
        """Return the known paths of objects no container lists."""
        tables = [hashed_files.read(storage, file) for file in self.paths]
        return pa.concat_tables([PATHS.empty_table(), *(table.cast(PATHS) for table in tables)])


@dataclass(slots=True)
class Verdict:
    """Counts of kept and deletable objects, by reason."""

    places: Places = field(default_factory=Places)
    """Deletable objects, by kind, reason, group, folder and age."""
    staying: GroupSums = field(default_factory=dict)
    """Unreferenced objects kept anyway, by (kind, reason)."""
    largest: list[tuple[int, str, str]] = field(default_factory=list)
    strangers: Counter[str] = field(default_factory=Counter)
    """Unknown guards."""
    odd: list[str] = field(default_factory=list)
    """The first few addresses that are odd (see ``urls.ODD_ADDRESS``) or foreign."""
    young: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By kind, the times at which the first and the last too young object will be old enough, in
    microseconds since 1970."""

    @property
    def going(self) -> GroupSums:
        """Deletable objects, by (kind, reason, group, folder, age)."""
        return self.places.tally

    @property
    def objects(self) -> int:
        """Number of unreferenced objects, deletable or kept."""
        tallies = (self.going, self.staying)
        return sum(objects for tally in tallies for objects, _ in tally.values())

    def add(self, other: Verdict) -> None:
        self.places.add(other.places.tally, other.places.listed())
        for group, (objects, size) in other.staying.items():
            before = self.staying.get(group, (0, 0))
            self.staying[group] = before[0] + objects, before[1] + size
        self.largest = sorted([*self.largest, *other.largest], reverse=True)[:LARGEST]
        self.strangers.update(other.strangers)
        self.odd = sorted([*self.odd, *other.odd])[:NAMED]
        for kind, (first, last) in other.young.items():
            known = self.young.get(kind, (first, last))
            self.young[kind] = min(known[0], first), max(known[1], last)

    def encode(self) -> str:
        """Return text, to send from a task to the driver."""
        return json.dumps(
            [
                [[*group, *sums] for group, sums in self.going.items()],
                [[*group, *sums] for group, sums in self.staying.items()],
                self.largest,
                self.strangers,
                self.odd,
                self.places.listed(),
                self.young,
            ]
        )

    @classmethod
    def decode(cls, text: str) -> Verdict:
        going, staying, largest, strangers, odd, closed, young = json.loads(text)
        places = Places({tuple(group): (objects, size) for *group, objects, size in going})
        for kind, where in closed:
            places.closed.setdefault(kind, set()).add(tuple(where))
        return cls(
            places,
            {tuple(group): (objects, size) for *group, objects, size in staying},
            [(size, address, path) for size, address, path in largest],
            Counter(strangers),
            odd,
            {kind: (first, last) for kind, (first, last) in young.items()},
        )


def judge(
    format: Format,
    rows: pa.Table,
    rules: CandidateRules,
    paths: pa.Table | None = None,
    shielded: pa.Array | None = None,
) -> tuple[pa.Table, Verdict]:
    """Return the candidates among some objects, and the verdict on all of them.

    ``paths`` has known paths of objects no container lists. ``shielded`` has for each object the
    number of a glob matching a path of it, null for none.
    """
    verdict = Verdict()
    if not rows.num_rows:
        return CANDIDATES.empty_table(), verdict
    rows = rows.combine_chunks()
    address = rows.column("address")
    described = pa.chunked_array(format.describe(address.combine_chunks()))
    shape, belongs_to, guard = (
        pc.struct_field(described, name) for name in ("kind", "belongs_to", "guard")
    )
    # A container's own kind is more precise than its name, unless this kind is not collected.
    own = pc.is_in(rows.column("kind"), pa.array(rules.cutoffs, pa.string()))
    kind = pc.if_else(own, rows.column("kind"), shape)
    foreign = pc.invert(pc.starts_with(address, format.prefix))
    odd = pc.or_(pc.match_substring_regex(address, ODD_ADDRESS), pc.equal(shape, FOREIGN))
    cutoff = _lookup(shape, rules.cutoffs, pa.timestamp("us", tz="UTC"))
    closed = pc.or_(pc.equal(guard, ""), pc.is_in(guard, pa.array(rules.closed, pa.string())))
    opened = pc.is_in(guard, pa.array(rules.open, pa.string()))
    stranger = pc.and_not(pc.and_(pc.invert(closed), pc.invert(opened)), odd)
    never = pc.is_null(cutoff)
    ours = pa.scalar(False)
    for folder in rules.protected:
        ours = pc.or_(ours, pc.starts_with(address, folder))
    young = pc.fill_null(pc.greater_equal(rows.column("last_modified"), cutoff), True)
    path = _paths(rows, paths)
    globs = [
        _matching(address, path, shielded, number, glob)
        for number, glob in enumerate(rules.protect)
    ]
    # Files of runs have no guard.
    in_doubt = pc.and_(pc.not_equal(guard, ""), pa.scalar(rules.in_doubt))
    # The first reason to keep an object wins.
    keeps: Sequence[tuple[Any, str]] = (
        (foreign, "outside the store"),
        (odd, ODD),
        (ours, "Reclaim's own, kept"),
        (never, "of a kind that is never deleted"),
        (stranger, f"unknown {format.guard_noun}"),
        (opened, f"in an open {format.guard_noun}"),
        *((glob, f"protected by {name}") for glob, name in zip(globs, rules.protect, strict=True)),
        (in_doubt, IN_DOUBT),
        (young, YOUNG),
    )
    masks, sentences = zip(*keeps, strict=True)
    stays = pc.case_when(pc.make_struct(*masks), *sentences)
    going = pc.is_null(stays)
    reason = pc.coalesce(
        _take(rows.column("cause"), rules.causes), _lookup(shape, rules.reasons, pa.string())
    )
    columns = {
        "address": address,
        "size": rows.column("size"),
        "last_modified": rows.column("last_modified"),
        "kind": kind,
        "belongs_to": belongs_to,
        "guard": guard,
        "path": path,
        "reason": pc.fill_null(reason, "nothing refers to it"),
    }
    judged = pa.table(columns)
    candidates = judged.filter(going).cast(CANDIDATES)
    verdict.staying = _tally(
        judged.append_column("why", stays).filter(pc.invert(going)), ["kind", "why"]
    )
    is_young = pc.fill_null(pc.equal(stays, YOUNG), False)
    verdict.young = _young(judged.filter(is_young), cutoff.filter(is_young), rules.now)
    verdict.strangers = Counter(
        guard.filter(stranger).unique().to_pylist() if pc.any(stranger).as_py() else []
    )
    verdict.odd = sorted(address.filter(odd).slice(0, NAMED).to_pylist())
    if candidates.num_rows:
        verdict.places.add_rows(_grouped(candidates, rules.now))
    verdict.largest = _largest(candidates)
    return candidates, verdict


def _matching(
    address: pa.ChunkedArray,
    path: pa.ChunkedArray,
    shielded: pa.Array | None,
    number: int,
    glob: str,
) -> pa.ChunkedArray:
    """Return whether a glob matches the address of each object, or any path of it."""
    pattern = glob_regex(glob)
    matches = [pc.match_substring_regex(column, pattern) for column in (address, path)]
    if shielded is not None:
        matches.append(pc.equal(shielded, number))
    by_address, *by_path = (pc.fill_null(column, False) for column in matches)
    return reduce(pc.or_, by_path, by_address)


def _young(young: pa.Table, cutoff: pa.ChunkedArray, now: datetime) -> dict[str, tuple[int, int]]:
    """Return by kind the times at which the first and the last object are old enough."""
    if not young.num_rows:
        return {}
    margin = pc.subtract(pa.scalar(now, cutoff.type), cutoff)
    old_at = pc.add(young.column("last_modified"), margin).cast(pa.int64())
    times = pa.table({"kind": young.column("kind"), "old_at": old_at})
    ends = times.group_by("kind").aggregate([("old_at", "min"), ("old_at", "max")])
    return {row["kind"]: (row["old_at_min"], row["old_at_max"]) for row in ends.to_pylist()}


def _grouped(candidates: pa.Table, now: datetime) -> pa.Table:
    folder = folders_of(candidates.column("path"))
    age = pa.chunked_array([pa.nulls(0, pa.string())])
    modified = candidates.column("last_modified")
    marks = [
        pc.less(modified, pa.scalar(now - timedelta(days=days), modified.type)) for days in AGES
    ]
    age = pc.case_when(
        pc.make_struct(*reversed(marks)),
        *(f"over {days} d" for days in reversed(AGES)),
        "under 1 d",
    )
    return candidates.append_column("folder", folder).append_column("age", age)


def _paths(rows: pa.Table, paths: pa.Table | None) -> pa.ChunkedArray:
    listed = rows.column("path")
    if paths is None or not paths.num_rows:
        return listed
    at = pc.index_in(rows.column("address"), paths.column("address"))
    return pc.coalesce(listed, paths.column("path").take(at))


def _tally(rows: pa.Table, groups: list[str]) -> GroupSums:
    if not rows.num_rows:
        return {}
    counted = rows.group_by(groups).aggregate([("size", "sum"), ("size", "count")])
    columns = [counted.column(name).to_pylist() for name in groups]
    sizes = counted.column("size_sum").to_pylist()
    counts = counted.column("size_count").to_pylist()
    keys = zip(*columns, strict=True)
    return {tuple(key): (count, size) for key, count, size in zip(keys, counts, sizes, strict=True)}


def count_kinds(rows: pa.Table) -> dict[str, tuple[int, int]]:
    """Return objects and bytes of each kind among candidates; empty for other rows."""
    if not {"kind", "size"} <= set(rows.column_names):
        return {}
    return {kind: sums for (kind,), sums in _tally(rows, ["kind"]).items()}


def add_kinds(
    counts: dict[str, tuple[int, int]], more: Mapping[str, Sequence[int]]
) -> dict[str, tuple[int, int]]:
    """Add counts of another task."""
    added = dict(counts)
    for kind, (objects, size) in more.items():
        before = added.get(kind, (0, 0))
        added[kind] = before[0] + objects, before[1] + size
    return added


def _largest(candidates: pa.Table) -> list[tuple[int, str, str]]:
    order = pc.select_k_unstable(
        candidates, k=min(LARGEST, candidates.num_rows), sort_keys=[("size", "descending")]
    )
    largest = candidates.take(order).select(["size", "address", "path"]).to_pylist()
    return [(row["size"], row["address"], row["path"] or "") for row in largest]


def _lookup(keys: pa.ChunkedArray, values: Mapping[str, object], type: pa.DataType) -> pa.Array:
    """Return the value of each key, null for keys without a value."""
    at = pc.index_in(keys, pa.array(list(values), pa.string()))
    return pa.chunked_array([pa.array(list(values.values()), type)]).take(at)


def _take(numbers: pa.ChunkedArray, sentences: Sequence[str | None]) -> pa.ChunkedArray:
    return pa.chunked_array([pa.array(list(sentences), pa.string())]).take(numbers)
