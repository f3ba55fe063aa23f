"""Lifecycle rules: match entries by columns, and decide on each address.

A *row* is a path under which ranges have an address, with its creation day and a bitmap of the
branch classes reaching it (see ``policy.lifecycle.classes``). A task sees all rows of the addresses
it decides on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks.keys import keys_of
from reclaim.globs import glob_regex
from reclaim.policy.lifecycle.classes import HOLDER, OTHERS, BranchClasses

Bits = npt.NDArray[np.int64]
Days = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

NOBODY = 2**31 - 1
"""Stands for the number of a missing name."""
HOLDERS_SHOWN = 5
"""Paths shown for each held address."""
SOME_HOLDER = "a tag, a lease, or a run that can be undone"
SOME_BRANCH = "a branch without days of its own"
"""For branches whose names are no longer known."""
EPOCH = date(1970, 1, 1)

_REACHED = [
    pa.field("bits", pa.int64(), nullable=False),
    # Numbers of the first holder, and of the first branch no rule names.
    pa.field("holder", pa.int32(), nullable=False),
    pa.field("branch", pa.int32(), nullable=False),
]

COMMITS = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("bits", pa.int64(), nullable=False),
    ]
)
"""Reachable commits."""

METARANGES = pa.schema([pa.field("address", pa.string(), nullable=False), *_REACHED])
"""Metaranges of reachable commits, each once."""

RANGES = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("detail", pa.string(), nullable=False),
        pa.field("entries", pa.int64(), nullable=False),
        *_REACHED,
    ]
)
"""Ranges with the union of their bits; no bits for a range known only to the index."""

ROWS = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("day", pa.int32(), nullable=False),
        *_REACHED,
    ]
)
"""Paths of addresses; the day is that of the latest creation, in days since 1970."""

ADDRESSES = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("paths", pa.list_(pa.string()), nullable=False),
        pa.field("matched_rules", pa.list_(pa.string()), nullable=False),
    ]
)
"""Deletable addresses, with all their paths and the rules matching these."""

HELD = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        pa.field("matched_rules", pa.list_(pa.string()), nullable=False),
        # Holders as text; the first few.
        pa.field("held_by", pa.list_(pa.string()), nullable=False),
    ]
)
"""Addresses matched by a rule but kept."""


@dataclass(frozen=True, slots=True)
class ReachNames:
    """Names by number, of holders and of branches no rule names."""

    holders: Sequence[str] = ()
    branches: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class AddressDecision:
    """The decision on some addresses: deletable or held."""

    rows: pa.Table
    """All paths of deletable addresses, as ``ROWS``, each once."""
    going: pa.Table
    """As ``ADDRESSES``."""
    held: pa.Table
    """As ``HELD``."""


def day_number(day: date) -> int:
    """Return a day as days since 1970."""
    return (day - EPOCH).days


def days_of(created_at: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the creation days of entries, in UTC."""
    days = pc.floor_temporal(created_at, unit="day").cast(pa.timestamp("us"))
    return days.cast(pa.date32()).cast(pa.int32())


def match(classes: BranchClasses, paths: Any, days: Days) -> Bits:
    """Return for each row the bits of the classes with a matching rule."""
    matched: Bits = np.zeros(len(days), np.int64)
    for rule in classes.rules:
        if not (steps := rule.steps()):
            continue
        under = _under(rule.prefix, paths)
        for latest, bits in steps:
            hit = days <= day_number(latest)
            if under is not None:
                hit &= under
            np.bitwise_or(matched, bits, out=matched, where=hit)
    return matched


def _under(prefix: str, paths: Any) -> Mask | None:
    """Return whether each path has a prefix; None if every path has it."""
    if not prefix:
        return None
    under: Mask = numpy_of(pc.starts_with(paths, prefix), np.bool_)
    return under


def numpy_of(column: Any, kind: Any) -> Any:
    """Return a column without nulls as a numpy array."""
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return np.asarray(whole.to_numpy(zero_copy_only=False), kind)


def decide(classes: BranchClasses, names: ReachNames, rows: pa.Table) -> AddressDecision:
    """Decide on addresses, given all their rows as ``ROWS``; a pair may occur twice."""
    if not rows.num_rows:
        return AddressDecision(ROWS.empty_table(), ADDRESSES.empty_table(), HELD.empty_table())
    rows = rows.combine_chunks()
    judged = _Judged.of(classes, rows)
    goes = judged.has_match & ~judged.has_unmatched
    holds = (judged.has_match | judged.was_matched) & ~goes
    going = judged.rows.filter(pa.array(np.repeat(goes, judged.sizes)))
    is_held = np.repeat(holds, judged.sizes)
    held = judged.rows.filter(pa.array(is_held))
    return AddressDecision(
        going,
        _addresses(classes, going, judged.sizes[goes]),
        _held(classes, names, held, judged.unmatched[is_held], judged.sizes[holds]),
    )


def find_unmatched(classes: BranchClasses, rows: pa.Table, protect: Sequence[str] = ()) -> pa.Array:
    """Return the addresses with a path that is unmatched on a branch, held or protected."""
    if not rows.num_rows:
        return pa.array([], pa.string())
    judged = _Judged.of(classes, rows.combine_chunks())
    owners = judged.rows.column("address").take(pa.array(judged.starts))
    leaves = judged.has_unmatched
    for glob in protect:
        matching = pc.match_substring_regex(judged.rows.column("path"), glob_regex(glob))
        leaves = leaves | np.logical_or.reduceat(numpy_of(matching, np.bool_), judged.starts)
    return owners.filter(pa.array(leaves)).combine_chunks()


@dataclass(frozen=True, slots=True)
class _Judged:
    """Rows with each path of an address once; arrays by address have the order of ``addresses``."""

    rows: pa.Table
    unmatched: Bits
    """By row, the bits of classes without a matching rule."""
    starts: Any
    """First row of each address."""
    sizes: Any
    """Number of rows of each address."""
    has_match: Mask
    has_unmatched: Mask
    was_matched: Mask
    """Whether a row was matched by its own date. A later row may be in a range gone by the next
    run, so these addresses are checked again."""

    @classmethod
    def of(cls, classes: BranchClasses, rows: pa.Table) -> _Judged:
        bits, days = numpy_of(rows.column("bits"), np.int64), numpy_of(rows.column("day"), np.int32)
        own = (match(classes, rows.column("path"), days) & bits) != 0
        order, addresses = _group(rows.column("address"))
        order, pairs, starts = _group_paths(rows.column("path"), order, addresses)
        columns = {
            "bits": np.bitwise_or.reduceat(bits[order], pairs),
            "day": np.maximum.reduceat(days[order], pairs),
            **{
                name: np.minimum.reduceat(numpy_of(rows.column(name), np.int32)[order], pairs)
                for name in ("holder", "branch")
            },
        }
        merged = rows if _is_sorted(order, pairs) else rows.take(pa.array(order[pairs]))
        merged = _by_path(_with(merged, columns), starts)
        final = numpy_of(merged.column("bits"), np.int64)
        latest = numpy_of(merged.column("day"), np.int32)
        matched = match(classes, merged.column("path"), latest) & final
        unmatched = final & ~matched
        return cls(
            merged,
            unmatched,
            starts,
            np.diff(np.append(starts, len(pairs))),
            np.bitwise_or.reduceat(matched, starts) != 0,
            np.bitwise_or.reduceat(unmatched, starts) != 0,
            np.logical_or.reduceat(np.logical_or.reduceat(own[order], pairs), starts),
        )


def _group(addresses: pa.ChunkedArray) -> tuple[Any, Any]:
    """Return an order with equal addresses together, and the first position of each address.

    Addresses are ordered by key, then compared whole: on a collision, whole addresses are ordered,
    which takes longer.
    """
    keys = keys_of(addresses)
    order = np.argsort(keys, kind="stable")
    same = np.flatnonzero(keys[order[1:]] == keys[order[:-1]])
    if not len(same):
        # All are distinct.
        return np.arange(len(keys)), np.arange(len(keys))
    first, second = (addresses.take(pa.array(order[same + after])) for after in (0, 1))
    if not pc.all(pc.equal(first, second)).as_py():
        keys = _codes(addresses)
        order = np.argsort(keys, kind="stable")
    return order, _starts(keys[order])


def _group_paths(paths: pa.ChunkedArray, order: Any, addresses: Any) -> tuple[Any, Any, Any]:
    """Return an order with equal paths of an address together, too; the first position of each
    pair, and whether the pair is the first of an address.

    Most addresses have a single row, without anything to compare.
    """
    sizes = np.diff(np.append(addresses, len(order)))
    codes = np.zeros(len(order), np.int64)
    several = np.flatnonzero(np.repeat(sizes > 1, sizes))
    if len(several):
        codes[several] = _codes(paths.take(pa.array(order[several])))
    owner = np.repeat(np.arange(len(sizes)), sizes)
    by_pair = np.lexsort((codes, owner)) if len(several) else np.arange(len(order))
    pairs = _starts(owner, codes[by_pair])
    return order[by_pair], pairs, _starts(owner[pairs])


def _is_sorted(order: Any, pairs: Any) -> bool:
    """Return whether rows are in order already, each pair once."""
    return len(pairs) == len(order) and bool((np.diff(order) == 1).all())


def _by_path(rows: pa.Table, starts: Any) -> pa.Table:
    """Return rows with the paths of each address in order: a plan must not depend on the order of
    reading. Most addresses have a single path, and need no sorting."""
    sizes = np.diff(np.append(starts, rows.num_rows))
    several = np.repeat(sizes > 1, sizes)
    if not several.any():
        return rows
    places = np.flatnonzero(several)
    paths = rows.column("path").take(pa.array(places))
    ranks = numpy_of(pc.rank(paths, tiebreaker="first"), np.int64)
    owner = np.repeat(np.arange(len(sizes)), sizes)[places]
    order = np.arange(rows.num_rows)
    order[places] = places[np.lexsort((ranks, owner))]
    return rows.take(pa.array(order))


def _codes(column: pa.ChunkedArray) -> Any:
    """Return codes, equal for equal values."""
    return numpy_of(column.combine_chunks().dictionary_encode().indices, np.int64)


def _starts(*codes: Any) -> Any:
    """Return the positions where values change, in sorted columns."""
    changes = np.zeros(len(codes[0]), np.bool_)
    changes[0] = True
    for column in codes:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)


def _with(rows: pa.Table, columns: dict[str, Any]) -> pa.Table:
    for name, values in columns.items():
        at = ROWS.get_field_index(name)
        rows = rows.set_column(at, ROWS.field(at), pa.array(values, ROWS.field(at).type))
    return rows


def _first_rows(sizes: Any) -> Any:
    """Return the first row of each address, from the numbers of rows."""
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)


def _addresses(classes: BranchClasses, rows: pa.Table, sizes: Any) -> pa.Table:
    if not rows.num_rows:
        return ADDRESSES.empty_table()
    starts = _first_rows(sizes)
    offsets = pa.array(np.append(starts, rows.num_rows).astype(np.int32))
    paths = pa.ListArray.from_arrays(offsets, rows.column("path").combine_chunks())
    owners = rows.column("address").take(pa.array(starts))
    return pa.table([owners, paths, _rules(classes, rows, starts)], schema=ADDRESSES)


def _rules(classes: BranchClasses, rows: pa.Table, starts: Any) -> pa.Array:
    """Return the rules that match a path of each address."""
    days, bits = numpy_of(rows.column("day"), np.int32), numpy_of(rows.column("bits"), np.int64)
    hits = []
    for rule in classes.rules:
        under = _under(rule.prefix, rows.column("path"))
        hit = np.zeros(rows.num_rows, np.bool_)
        for latest, of_classes in rule.steps():
            hit |= (days <= day_number(latest)) & (bits & of_classes != 0)
        hits.append(hit if under is None else hit & under)
    each = np.logical_or.reduceat(np.array(hits).reshape(len(hits), -1), starts, axis=1)
    rules = np.nonzero(each.T)[1]
    offsets = np.concatenate([[0], np.cumsum(each.sum(axis=0))])
    named = pa.array([rule.rule_id for rule in classes.rules], pa.string())
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), named.take(pa.array(rules)))


def _held(
    classes: BranchClasses, names: ReachNames, rows: pa.Table, unmatched: Bits, sizes: Any
) -> pa.Table:
    if not rows.num_rows:
        return HELD.empty_table()
    starts = _first_rows(sizes)
    owner = np.repeat(np.arange(len(starts)), sizes)
    places = _first_few(owner, np.flatnonzero(unmatched))
    holding = rows.take(pa.array(places))
    texts, tellers = _sentences(classes, names, holding, unmatched[places])
    # By address, then by path, then by text; each text once.
    order = np.argsort(tellers, kind="stable")
    sentences, owners = texts.take(pa.array(order)), owner[places][tellers[order]]
    codes = _codes(sentences)
    kept = np.sort(np.unique(owners * (len(codes) + 1) + codes, return_index=True)[1])
    kept = _first_few(owners, kept)
    offsets = np.searchsorted(owners[kept], np.arange(len(starts) + 1)).astype(np.int32)
    held_by = pa.ListArray.from_arrays(
        pa.array(offsets), sentences.take(pa.array(kept)).combine_chunks()
    )
    addresses = rows.column("address").take(pa.array(starts))
    return pa.table([addresses, _rules(classes, rows, starts), held_by], schema=HELD)


def _first_few(owner: Any, places: Any) -> Any:
    """Return the first few positions for each owner; both are sorted."""
    if not len(places):
        return places
    owners = owner[places]
    firsts = np.flatnonzero(np.append(True, np.diff(owners) != 0))
    number = np.arange(len(places)) - np.repeat(firsts, np.diff(np.append(firsts, len(places))))
    return places[number < HOLDERS_SHOWN]


def _sentences(
    classes: BranchClasses, names: ReachNames, rows: pa.Table, unmatched: Bits
) -> tuple[pa.ChunkedArray, Any]:
    """Return the holders of rows as text, and the row of each."""
    texts: list[pa.Array] = []
    tellers: list[Any] = []

    def tell(bit: int, text: Any) -> None:
        places = np.flatnonzero(unmatched & bit)
        texts.append(text(rows.take(pa.array(places))).cast(pa.string()))
        tellers.append(places)

    def on(branch: str) -> Any:
        return lambda holders: pc.binary_join_element_wise(
            holders.column("path").combine_chunks(), f"the branch {branch}", " on "
        )

    tell(HOLDER, lambda holders: _named(holders, "holder", names.holders, SOME_HOLDER))
    others = [f"the branch {branch}" for branch in names.branches]
    tell(
        OTHERS,
        lambda holders: pc.binary_join_element_wise(
            holders.column("path").combine_chunks(),
            _named(holders, "branch", others, SOME_BRANCH),
            " on ",
        ),
    )
    for number, branches in enumerate(classes.named):
        for branch in branches:
            tell(OTHERS << number + 1, on(branch))
    return pa.chunked_array(texts), np.concatenate(tellers)


def _named(rows: pa.Table, column: str, names: Sequence[str], otherwise: str) -> pa.Array:
    """Return the name for each number of a column."""
    known = pa.array([*names, otherwise], pa.string())
    numbers = np.minimum(numpy_of(rows.column(column), np.int64), len(names))
    return known.take(pa.array(numbers))
