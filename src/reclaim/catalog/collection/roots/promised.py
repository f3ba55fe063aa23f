"""Promises of runs that can be undone: their commits, and the commits that these stand on.

A promised commit comes back below its parents, and an edit that is taken back gives a commit its
old parents again. So those of them that are still there stay there, for as long as the run can be
undone.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator

from sqlalchemy import Connection, select

from reclaim.catalog.collection import records
from reclaim.catalog.collection.edit.provisional import TAKEN
from reclaim.catalog.database.schema import commits as commit_rows
from reclaim.catalog.database.schema import run_edits, run_refs
from reclaim.catalog.database.sets import among
from reclaim.catalog.refs.commits import STANDING
from reclaim.catalog.workspace import Workspace
from reclaim.model import SnapshotId
from reclaim.run_record import Phase


def find_metaranges(workspace: Workspace, runs: Collection[str]) -> dict[str, list[str]]:
    """The metaranges of the commits that runs have condemned or set aside, by run."""
    if not runs:
        return {}
    found: dict[str, list[str]] = {}
    with workspace.database.read() as connection:
        query = select(commit_rows.c.run_id, commit_rows.c.metarange).where(
            commit_rows.c.repo_uid == workspace.repo_uid,
            commit_rows.c.state.in_(TAKEN),
            commit_rows.c.metarange != "",
            among(connection, commit_rows.c.run_id, runs),
        )
        for row in connection.execute(query):
            found.setdefault(row.run_id, []).append(row.metarange)
    return found


def find_parents(workspace: Workspace, *, besides: str) -> set[SnapshotId]:
    """The commits that stand and that other runs would build on if they were undone."""
    with workspace.database.read() as connection:
        runs = undoable(connection, workspace.repo_uid) - {besides}
        if not runs:
            return set()
        named = set(_named(connection, workspace.repo_uid, runs))
        query = select(commit_rows.c.id).where(
            commit_rows.c.repo_uid == workspace.repo_uid,
            commit_rows.c.state.in_(STANDING),
            among(connection, commit_rows.c.id, named),
        )
        return {SnapshotId(commit_id) for commit_id in connection.execute(query).scalars()}


def find_released(workspace: Workspace, ids: Collection[str]) -> set[SnapshotId]:
    """Those of some commits that an edit of the history took out of it, or that a ref named which
    it deleted, and that an undo of the edit would bring back."""
    if not ids:
        return set()
    with workspace.database.read() as connection:
        every = records.list_runs(connection, workspace.repo_uid)
        edits = {run.id for run in every if run.phase not in (Phase.UNDONE, Phase.PURGED)}
        named = (SnapshotId(one) for one in _replaced(connection, edits))
        return {one for one in named if one in ids}


def undoable(connection: Connection, repo_uid: str) -> set[str]:
    """The runs whose commits can be brought back."""
    return {run.id for run in records.list_runs(connection, repo_uid) if run.undoable}


def gone_for_good(connection: Connection, repo_uid: str, ids: Iterable[str]) -> set[str]:
    """Those of some commits that are not there, and that no run can bring back."""
    wanted = set(ids)
    query = select(commit_rows.c.id, commit_rows.c.state, commit_rows.c.run_id).where(
        commit_rows.c.repo_uid == repo_uid, among(connection, commit_rows.c.id, wanted)
    )
    rows = connection.execute(query).all()
    gone = wanted - {row.id for row in rows if row.state in STANDING}
    if not gone:
        return gone
    runs = undoable(connection, repo_uid)
    return gone - {row.id for row in rows if row.state in TAKEN and row.run_id in runs}


def _named(connection: Connection, repo_uid: str, runs: Collection[str]) -> Iterator[str]:
    """The parents of what runs took, those that they replaced, and what deleted refs named."""
    taken = select(commit_rows.c.parents).where(
        commit_rows.c.repo_uid == repo_uid,
        commit_rows.c.state.in_(TAKEN),
        among(connection, commit_rows.c.run_id, runs),
    )
    for text in connection.execute(taken).scalars():
        yield from json.loads(text)
    yield from _replaced(connection, runs)


def _replaced(connection: Connection, runs: Collection[str]) -> Iterator[str]:
    """The parents that runs replaced, and what deleted refs named."""
    replaced = select(run_edits.c.old_parents).where(among(connection, run_edits.c.run_id, runs))
    for text in connection.execute(replaced).scalars():
        yield from json.loads(text)
    deleted = select(run_refs.c.commit_id).where(among(connection, run_refs.c.run_id, runs))
    yield from connection.execute(deleted).scalars()
