"""Graph of snapshots: ordering, checks and traversal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import islice
from operator import attrgetter, eq

from reclaim.errors import Corrupt
from reclaim.model import History, Ref, RefKind, Snapshot, SnapshotId

Parents = Sequence[tuple[int, ...]]


def build(snapshots: Iterable[Snapshot], refs: Iterable[Ref]) -> History:
    """Order refs and snapshots independently of their input order.

    Every named snapshot must exist, and none may be its own ancestor: decisions from an incomplete
    history could lose data. Clocks may run backwards: children come before their parents whatever
    their times; otherwise the newest comes first.
    """
    ordered = sorted(snapshots, key=attrgetter("written_at"), reverse=True)
    times = [snapshot.written_at for snapshot in ordered]
    if any(map(eq, times, islice(times, 1, None))):
        ordered.sort(key=attrgetter("id"))
        ordered.sort(key=attrgetter("written_at"), reverse=True)
    numbers = {snapshot.id: number for number, snapshot in enumerate(ordered)}
    if len(numbers) != len(ordered):
        raise Corrupt("the history has two snapshots with the same id")
    try:
        parents = _numbered(ordered, numbers)
    except KeyError as error:
        raise Corrupt(
            f"the history is missing a snapshot: {error.args[0]}",
            hint="restore it from a backup; nothing was changed",
        ) from None
    ages: Sequence[int] = range(len(ordered))
    by_time = ages
    # A list is faster than a generator; it is empty unless the history is out of order.
    if [number for number, edges in enumerate(parents) for parent in edges if parent <= number]:
        ages = _children_first(parents, ordered)
        ordered = [ordered[age] for age in ages]
        numbers = {snapshot.id: number for number, snapshot in enumerate(ordered)}
        parents = _numbered(ordered, numbers)
        by_time = sorted(range(len(ordered)), key=ages.__getitem__)
    named = tuple(sorted(refs, key=_rank))
    for ref in named:
        if ref.snapshot not in numbers:
            raise Corrupt(
                f"the {ref.kind} {ref.name} points to {ref.snapshot}, which does not exist",
                hint="restore it from a backup; nothing was changed",
            )
    tips = tuple(numbers[ref.snapshot] for ref in named)
    origins = [number for number, edges in enumerate(parents) if not edges]
    return History(named, tuple(ordered), numbers, parents, tips, ages, by_time, origins)


def _numbered(
    snapshots: Iterable[Snapshot], numbers: Mapping[SnapshotId, int]
) -> tuple[tuple[int, ...], ...]:
    """Parents of each snapshot by number; most have a single parent."""
    lines = [snapshot.parents for snapshot in snapshots]
    return tuple(
        [
            (numbers[ids[0]],) if len(ids) == 1 else tuple([numbers[parent] for parent in ids])
            for ids in lines
        ]
    )


def _children_first(parents: Parents, snapshots: Sequence[Snapshot]) -> list[int]:
    """Order children before their parents; among the ready snapshots the newest comes first.

    Snapshots are numbered by time, newest first.
    """
    waiting_for = [0] * len(parents)
    for edges in parents:
        for parent in edges:
            waiting_for[parent] += 1
    ready = [number for number, children in enumerate(waiting_for) if not children]
    heapify(ready)
    order = []
    while ready:
        number = heappop(ready)
        order.append(number)
        for parent in parents[number]:
            waiting_for[parent] -= 1
            if not waiting_for[parent]:
                heappush(ready, parent)
    if len(order) < len(parents):
        circle = next(number for number, children in enumerate(waiting_for) if children)
        raise Corrupt(
            f"snapshot {snapshots[circle].id} is part of a cycle of parents",
            hint="restore the store from a backup; nothing was changed",
        )
    return order


def reachable(parents: Parents, tips: Iterable[int]) -> bytearray:
    """One byte for each snapshot: whether some tip reaches it."""
    reached = bytearray(len(parents))
    for tip in tips:
        reached[tip] = 1
    # A parent comes after its children, so a byte is final when it is read.
    for is_reached, edges in zip(reached, parents, strict=True):
        if is_reached:
            for parent in edges:
                reached[parent] = 1
    return reached


def ids(history: History, numbers: Iterable[int]) -> tuple[SnapshotId, ...]:
    snapshots = history.snapshots
    return tuple([snapshots[number].id for number in numbers])


def _rank(ref: Ref) -> tuple[bool, bool, str]:
    return not ref.default, ref.kind is not RefKind.BRANCH, ref.name
