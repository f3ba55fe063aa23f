"""Expired snapshots: how many there are, and what holds some of them all the same.

A snapshot is expired when a branch or a tag reaches it and no rule keeps it. Refs hold those that
they still reach once the history is edited; an undo holds what its leases reach. Each snapshot
counts for one holder: for an undo before any ref, then for the ref with the newest tip.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from reclaim.history.classes import first_reaching
from reclaim.history.expire import Edit
from reclaim.history.graph import Parents, reachable
from reclaim.model import History, Lease, SnapshotId

UNDO = "undo"
"""The kind of holder that is the undo of a run; the others are kinds of refs."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A branch, a tag, or the undo of a run, and the number of expired snapshots that it holds."""

    kind: str
    name: str
    """The name of the ref, or the id of the run."""
    snapshots: int
    until: datetime | None = None
    """When the hold of an undo ends."""

    def record(self) -> dict[str, Any]:
        by_undo = self.kind == UNDO
        return {
            "kind": self.kind,
            "ref": None if by_undo else self.name,
            "run": self.name if by_undo else None,
            "until": self.until,
            "commits": self.snapshots,
        }


@dataclass(frozen=True, slots=True)
class ExpiredCount:
    """The number of expired snapshots, and the holders of some of them, the largest first."""

    snapshots: int
    held_by: tuple[Holder, ...] = ()

    @property
    def held(self) -> int:
        return sum(holder.snapshots for holder in self.held_by)


def held_by_undo(history: History, leases: Iterable[Lease]) -> frozenset[SnapshotId]:
    """The snapshots that undos hold: no edit takes them out of the history."""
    tips = [at for lease in leases if (at := _returned(history, lease)) is not None]
    if not tips:
        return frozenset()
    reached = reachable(history.parents, tips)
    return frozenset(
        snapshot.id for snapshot, there in zip(history.snapshots, reached, strict=True) if there
    )


def count_expired(
    history: History,
    kept: AbstractSet[SnapshotId],
    edit: Edit,
    leases: Sequence[Lease],
    within: Collection[SnapshotId] | None = None,
) -> ExpiredCount:
    """Count the expired snapshots of a history, or those of them ``within`` some.

    ``kept`` are the snapshots that the rules keep. The cost does not grow with the number of refs.
    """
    reached = reachable(history.parents, history.tips)
    expired = [
        number
        for number, snapshot in enumerate(history.snapshots)
        if reached[number] and snapshot.id not in kept and (within is None or snapshot.id in within)
    ]
    if not expired:
        return ExpiredCount(0)
    ends: dict[str, datetime] = {}
    for lease in leases:
        if lease.undone_run is not None:
            ends[lease.undone_run] = max(lease.end, ends.get(lease.undone_run, lease.end))
    runs = sorted(ends)
    undone = first_reaching(
        history.parents,
        [
            (at, runs.index(lease.undone_run))
            for lease in leases
            if lease.undone_run is not None and (at := _returned(history, lease)) is not None
        ],
    )
    gone = set(edit.delete_refs)
    # The newest tip has the lowest number; refs come in the order of the history.
    refs = sorted(
        (tip, index) for index, tip in enumerate(history.tips) if history.refs[index] not in gone
    )
    ranked = ((tip, rank) for rank, (tip, _) in enumerate(refs))
    by_ref = first_reaching(parents_after(history, edit), ranked)
    counts: Counter[tuple[str, str]] = Counter()
    for number in expired:
        run, rank = undone[number], by_ref[number]
        if run is not None:
            counts[UNDO, runs[run]] += 1
        elif rank is not None:
            ref = history.refs[refs[rank][1]]
            counts[ref.kind.value, ref.name] += 1
    holders = [
        Holder(kind, name, count, ends[name] if kind == UNDO else None)
        for (kind, name), count in counts.items()
    ]
    holders.sort(key=lambda holder: (-holder.snapshots, holder.kind, holder.name))
    return ExpiredCount(len(expired), tuple(holders))


def parents_after(history: History, edit: Edit) -> Parents:
    """The parents of each snapshot once a history is edited, as numbers."""
    after = list(history.parents)
    for snapshot, parents in edit.reparent.items():
        after[history.numbers[snapshot]] = tuple(history.numbers[parent] for parent in parents)
    return after


def _returned(history: History, lease: Lease) -> int | None:
    """The number of the snapshot that an undo holds; None for other leases."""
    return None if lease.undone_run is None else history.numbers.get(lease.snapshot)
