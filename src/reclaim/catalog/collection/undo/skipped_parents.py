"""Detours: where parents of a commit are not there, its history goes on at their nearest ancestors.

As an expiration does it: what is not there is passed over, so that whoever names a commit keeps
everything below it that is whole. A commit that an earlier version collected has no parents any
more: the way through it ends there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sqlalchemy import Connection, select

from reclaim.catalog.database.schema import CommitState
from reclaim.catalog.database.schema import commits as commit_rows
from reclaim.clock import from_micros
from reclaim.history.frontier import reparent
from reclaim.history.graph import build, ids
from reclaim.model import Snapshot, SnapshotId


def find_detours(
    connection: Connection, repo_uid: str, parents: Mapping[str, Sequence[str]]
) -> dict[str, tuple[SnapshotId, ...]]:
    """The nearest live ancestors of commits, on the ways through the parents that are given."""
    if not parents:
        return {}
    columns = (commit_rows.c.parents, commit_rows.c.state, commit_rows.c.written_at)
    query = select(commit_rows.c.id, *columns).where(commit_rows.c.repo_uid == repo_uid)
    rows = {row.id: row for row in connection.execute(query)}

    def snapshot(name: str, commit_id: str, above: Sequence[str]) -> Snapshot:
        there = (SnapshotId(parent) for parent in dict.fromkeys(above) if parent in rows)
        return Snapshot(SnapshotId(name), tuple(there), from_micros(rows[commit_id].written_at))

    # One more for each that is asked for, which is nobody's parent: the commit may not be live.
    asked = {commit_id: f"above {commit_id}" for commit_id in parents}
    snapshots = [snapshot(row.id, row.id, json.loads(row.parents)) for row in rows.values()]
    snapshots += [snapshot(asked[one], one, above) for one, above in parents.items()]
    history = build(snapshots, refs=())
    live = {row.id for row in rows.values() if row.state == CommitState.LIVE} | set(asked.values())
    kept = bytearray(one.id in live for one in history.snapshots)
    everything = bytearray(b"\x01") * len(kept)
    passed_over = reparent(history.parents, everything, kept)
    numbers = {one: history.numbers[SnapshotId(name)] for one, name in asked.items()}
    return {
        one: ids(history, passed_over.get(number, history.parents[number]))
        for one, number in numbers.items()
    }
