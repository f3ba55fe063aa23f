"""Substitutes for missing parents: the nearest live ancestors of a commit.

Works like an expiration: missing commits are skipped, so a commit keeps every intact ancestor.
Commits collected by an earlier version have no recorded parents, so a path through them ends there.
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


def find_live_ancestors(
    connection: Connection, repo_uid: str, parents: Mapping[str, Sequence[str]]
) -> dict[str, tuple[SnapshotId, ...]]:
    """Return the nearest live ancestors of commits, following the given parents."""
    if not parents:
        return {}
    columns = (commit_rows.c.parents, commit_rows.c.state, commit_rows.c.written_at)
    query = select(commit_rows.c.id, *columns).where(commit_rows.c.repo_uid == repo_uid)
    rows = {row.id: row for row in connection.execute(query)}

    def snapshot(name: str, commit_id: str, above: Sequence[str]) -> Snapshot:
        known = (SnapshotId(parent) for parent in dict.fromkeys(above) if parent in rows)
        return Snapshot(SnapshotId(name), tuple(known), from_micros(rows[commit_id].written_at))

    # A node for each requested commit, without children, because the commit may not be live.
    nodes = {commit_id: f"above {commit_id}" for commit_id in parents}
    snapshots = [snapshot(row.id, row.id, json.loads(row.parents)) for row in rows.values()]
    snapshots += [snapshot(nodes[child], child, above) for child, above in parents.items()]
    history = build(snapshots, refs=())
    live = {row.id for row in rows.values() if row.state == CommitState.LIVE} | set(nodes.values())
    kept = bytearray(node.id in live for node in history.snapshots)
    everything = bytearray(b"\x01") * len(kept)
    passed_over = reparent(history.parents, everything, kept)
    numbers = {child: history.numbers[SnapshotId(name)] for child, name in nodes.items()}
    return {
        child: ids(history, passed_over.get(number, history.parents[number]))
        for child, number in numbers.items()
    }
