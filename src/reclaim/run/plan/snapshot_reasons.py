"""Verdict and reasons for each snapshot of a plan, computed in bulk.

There may be many snapshots, but few different sentences. So sentences are numbered, and only
numbers are kept per snapshot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from reclaim.garbage_collector import cyclic_gc_paused
from reclaim.history import held_by_undo
from reclaim.history.graph import reachable
from reclaim.model import Decision, Lease, SnapshotId
from reclaim.run.plan.dead_snapshots import by_earlier_run
from reclaim.run.plan.decide import HELD_BY_UNDO, STAYS_BEHIND, UNREACHED, Decided
from reclaim.stores.observation import Observation

SENTENCES = pa.list_(pa.dictionary(pa.int32(), pa.string()))

PROMISED = "a run that can be undone needs it"
CUT_OFF = "the store's library takes it out of history; it stays until a later plan names it"
BELOW_CUT_OFF = "an ancestor of what stays although the store's library takes it out of history"
TOO_YOUNG = "younger than --min-age, or an ancestor of such a one: it may be in use already"
NEEDED_BY_LEASE = "an ancestor of a {noun} that a lease is on"


class SnapshotVerdict(StrEnum):
    """Fate of a snapshot."""

    LIVE = "live"
    # The rules of the plan let go of it.
    EXPIRED = "expired"
    # Nothing reached it before, either.
    UNREACHABLE = "unreachable"
    # An earlier run condemned it, and something of it may be left.
    CONDEMNED = "condemned"


@cyclic_gc_paused()
def find_reasons(
    ids: pa.Array, kept_by: pa.ChunkedArray, seen: Observation, decided: Decided
) -> tuple[pa.Array, pa.Array]:
    """Verdict on each snapshot, and its reasons as ``SENTENCES``.

    ``kept_by`` has the store's own reasons for kept snapshots.
    """
    verdicts = _verdicts(ids, seen, decided)
    if seen.reached is None:
        return verdicts, _decided(len(ids), seen, decided)
    return verdicts, _reasons_by_store(ids, kept_by, seen, decided)


def _verdicts(ids: pa.Array, seen: Observation, decided: Decided) -> pa.Array:
    return pc.case_when(
        pc.make_struct(
            _is_in(ids, decided.live), _is_in(ids, decided.before), _is_in(ids, seen.ids)
        ),
        SnapshotVerdict.LIVE.value,
        SnapshotVerdict.EXPIRED.value,
        SnapshotVerdict.UNREACHABLE.value,
        SnapshotVerdict.CONDEMNED.value,
    ).dictionary_encode()


def _decided(rows: int, seen: Observation, decided: Decided) -> pa.Array:
    """Reasons of a policy in the order of the history, then those of condemned snapshots."""
    numbers: dict[str, int] = {}
    starts, sentences = [0], []
    condemned = [by_earlier_run(seen.marked[snapshot]) for snapshot in _condemned(seen, decided)]
    for reasons in chain(_of_history(seen, decided), ([reason] for reason in condemned)):
        for sentence in reasons:
            sentences.append(numbers.setdefault(sentence, len(numbers)))
        starts.append(len(sentences))
    assert len(starts) == rows + 1
    values = pa.DictionaryArray.from_arrays(
        pa.array(sentences, pa.int32()), pa.array(list(numbers), pa.string())
    )
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), values)


def _condemned(seen: Observation, decided: Decided) -> Sequence[SnapshotId]:
    return sorted(seen.marked.keys() - decided.history.numbers.keys())


def _of_history(seen: Observation, decided: Decided) -> Iterator[Sequence[str]]:
    kept = decided.decisions.kept
    leased: dict[str, list[str]] = {}
    for lease in seen.leases:
        leased.setdefault(lease.snapshot, []).append(_of_lease(lease))
    by_undo = held_by_undo(decided.history, seen.leases)
    in_use = _reached(decided, [lease.snapshot for lease in seen.leases])
    promised = _reached(decided, seen.promised)
    young = _reached(decided, seen.too_young)
    below = _reached(decided, decided.cut_off)
    live, before = decided.live, decided.before
    for number, decision in enumerate(decided.decisions):
        id = decision.id
        if id not in before:
            yield (UNREACHED,)
        elif id in decided.cut_off:
            yield (*decision.reasons, *leased.get(id, ()), CUT_OFF)
        elif id not in live or (id in kept and id not in leased):
            yield decision.reasons
        else:
            behind = STAYS_BEHIND
            if id in by_undo:
                behind = HELD_BY_UNDO
            elif in_use[number]:
                behind = NEEDED_BY_LEASE
            elif promised[number] or young[number]:
                behind = PROMISED if promised[number] else TOO_YOUNG
            elif below[number]:
                behind = BELOW_CUT_OFF
            behind = behind.format(noun=decided.noun)
            spared = leased.get(id) or ([] if id in kept else [behind])
            yield _both(decision, kept=id in kept, spared=spared)


def _of_lease(lease: Lease) -> str:
    if lease.undone_run is None:
        return f"in use: lease {lease.id} of {lease.holder}"
    return f"{HELD_BY_UNDO} (run {lease.undone_run}, until {lease.end:%F %T} UTC)"


def _both(decision: Decision, *, kept: bool, spared: Sequence[str]) -> Sequence[str]:
    return (*decision.reasons, *spared) if kept else (*spared, *decision.reasons)


def _reached(decided: Decided, snapshots: Collection[SnapshotId]) -> bytearray:
    """Snapshots reachable from some snapshots, themselves included, after the edit."""
    history = decided.history
    if not snapshots:
        return bytearray(len(history.snapshots))
    return reachable(decided.new_parents(), [history.numbers[snapshot] for snapshot in snapshots])


def _reasons_by_store(
    ids: pa.Array, kept_by: pa.ChunkedArray, seen: Observation, decided: Decided
) -> pa.Array:
    """Reason of each snapshot, for a store with its own rules."""
    why = pc.index_in(ids, pa.array(list(seen.why), pa.string()))
    dead = pa.array(list(seen.why.values()), pa.string()).take(why)
    marks = pc.index_in(ids, pa.array(list(seen.marked), pa.string()))
    states = [by_earlier_run(state) for state in seen.marked.values()]
    marked = pc.if_else(_is_in(ids, seen.ids), None, pa.array(states, pa.string()).take(marks))
    sentence = pc.if_else(
        _is_in(ids, decided.live),
        kept_by,
        pc.coalesce(dead, marked, pa.scalar(UNREACHED)),
    )
    whole = pc.fill_null(sentence, PROMISED).combine_chunks()
    starts = pa.array(np.arange(len(ids) + 1, dtype=np.int32))
    return pa.ListArray.from_arrays(starts, whole.dictionary_encode())


def _is_in(ids: pa.Array, selected: frozenset[str]) -> pa.Array:
    return pc.is_in(ids, pa.array(list(selected), pa.string()))
