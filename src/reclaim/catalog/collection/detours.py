"""Detours: where parents of a commit are not there, its history goes on at their nearest ancestors.

As an expiration does it: what is not there is passed over, so that whoever names a commit keeps
everything below it that is whole. A commit that was collected has no parents any more: the way
through it ends there.
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

    def above(commit_id: str) -> tuple[SnapshotId, ...]:
        given = parents.get(commit_id)
        named = json.loads(rows[commit_id].parents) if given is None else given
        return tuple(SnapshotId(parent) for parent in dict.fromkeys(named) if parent in rows)

    history = build(
        (
            Snapshot(SnapshotId(row.id), above(row.id), from_micros(row.written_at))
            for row in rows.values()
        ),
        refs=(),
    )
    live = bytearray(rows[one.id].state == CommitState.LIVE for one in history.snapshots)
    everything = bytearray(b"\x01") * len(live)
    passed_over = reparent(history.parents, everything, live)
    numbers = {commit_id: history.numbers[SnapshotId(commit_id)] for commit_id in parents}
    return {
        commit_id: ids(history, passed_over.get(number, history.parents[number]))
        for commit_id, number in numbers.items()
    }
