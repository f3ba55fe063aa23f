"""Histories written as text, and a slow oracle that follows the definitions word by word."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache

from reclaim.history import Edit, build
from reclaim.model import History, Ref, RefKind, Snapshot, SnapshotId

START = datetime(2026, 1, 1, tzinfo=UTC)


def snapshot(name: str, parents: str, day: float) -> Snapshot:
    ids = tuple(SnapshotId(parent) for parent in parents.split())
    return Snapshot(SnapshotId(name), ids, START + timedelta(days=day))


def branch(name: str, at: str) -> Ref:
    return Ref(name, RefKind.BRANCH, SnapshotId(at), default=name == "main")


def tag(name: str, at: str) -> Ref:
    return Ref(name, RefKind.TAG, SnapshotId(at))


def tree(lines: str, *refs: Ref) -> History:
    """One snapshot a line, ``name: parents``, written one day after the line above."""
    rows = [line.split(":") for line in lines.split("\n") if line.strip()]
    return build(
        [snapshot(name.strip(), parents, day) for day, (name, parents) in enumerate(rows)], refs
    )


def applied(history: History, edit: Edit) -> History:
    """The history after an edit, nothing collected."""
    return build(
        [
            replace(one, parents=edit.reparent[one.id], marked=True)
            if one.id in edit.reparent
            else one
            for one in history.snapshots
        ],
        [ref for ref in history.refs if ref not in edit.delete_refs],
    )


def parents_of(history: History) -> dict[str, tuple[str, ...]]:
    return {one.id: one.parents for one in history.snapshots}


def ancestors(parents: Mapping[str, Iterable[str]], start: str) -> set[str]:
    """A snapshot and everything that it reaches."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        found = waiting.pop()
        if found not in seen:
            seen.add(found)
            waiting.extend(parents[found])
    return seen


def chain(parents: Mapping[str, tuple[str, ...]], start: str) -> list[str]:
    """The first-parent line."""
    found = [start]
    while parents[found[-1]]:
        found.append(parents[found[-1]][0])
    return found


def line(history: History, ref: str) -> str:
    """What a ref reaches, newest first."""
    tip = next(one.snapshot for one in history.refs if one.name == ref)
    reached = ancestors(parents_of(history), tip)
    return ",".join(one.id for one in history.snapshots if one.id in reached)


def oracle(history: History, kept: Collection[str]) -> dict[str, tuple[str, ...]]:
    """New parents by the definition: frontiers by plain recursion, pruned by plain search."""
    parents = parents_of(history)
    reached: set[str] = set().union(*(ancestors(parents, ref.snapshot) for ref in history.refs))
    members = {one for one in reached if one in kept or not parents[one]}

    below = {one: ancestors(parents, one) - {one} for one in members}

    @cache
    def frontier(one: str) -> tuple[str, ...]:
        return (one,) if one in members else joined(parents[one])

    def joined(above: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(found for parent in above for found in frontier(parent)))

    edits = {}
    for one in members:
        if all(parent in members for parent in parents[one]):
            continue
        new = joined(parents[one])
        edits[one] = tuple(
            found
            for found in new
            if found == new[0] or not any(found in below[other] for other in new)
        )
    return edits


def merge_base(parents: Mapping[str, Iterable[str]], order: list[str], *tips: str) -> str | None:
    """The newest that all reach; ``order`` is newest first."""
    common = set.intersection(*(ancestors(parents, tip) for tip in tips))
    return next((one for one in order if one in common), None)
