"""Counts of expired snapshots, and the holders of those that stay.

A snapshot is expired if a branch or tag reaches it and no rule keeps it. Refs hold the snapshots
they still reach after the edit; an undo holds the snapshots reached by its leases. Each snapshot
counts for a single holder: an undo before any ref, then the ref with the newest tip.
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
"""Kind of holder for the undo of a run; all others are kinds of refs."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Branch, tag or undo of a run, with its number of expired snapshots."""

    kind: str
    name: str
    """Name of the ref, or id of the run."""
    snapshots: int
    until: datetime | None = None
    """End of the hold of an undo."""

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
    """Number of expired snapshots, and their holders, largest first."""

    snapshots: int
    held_by: tuple[Holder, ...] = ()

    @property
    def held(self) -> int:
        return sum(holder.snapshots for holder in self.held_by)


def held_by_undo(history: History, leases: Iterable[Lease]) -> frozenset[SnapshotId]:
    """Return the snapshots held by undos: no edit removes them from the history."""
    tips = [tip for lease in leases if (tip := _returned(history, lease)) is not None]
    if not tips:
        return frozenset()
    reached = reachable(history.parents, tips)
    return frozenset(
        entry.id for entry, held in zip(history.snapshots, reached, strict=True) if held
    )


def count_expired(
    history: History,
    kept: AbstractSet[SnapshotId],
    edit: Edit,
    leases: Sequence[Lease],
    within: Collection[SnapshotId] | None = None,
) -> ExpiredCount:
    """Count the expired snapshots of a history, optionally only those ``within`` a selection.

    ``kept`` are the snapshots kept by the rules. The cost does not grow with the number of refs.
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
            (tip, runs.index(lease.undone_run))
            for lease in leases
            if lease.undone_run is not None and (tip := _returned(history, lease)) is not None
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
    """Return the parents of each snapshot after an edit, as numbers."""
    after = list(history.parents)
    for snapshot, parents in edit.reparent.items():
        after[history.numbers[snapshot]] = tuple(history.numbers[parent] for parent in parents)
    return after


def _returned(history: History, lease: Lease) -> int | None:
    """Return the number of the snapshot held by an undo; None for other leases."""
    return None if lease.undone_run is None else history.numbers.get(lease.snapshot)
