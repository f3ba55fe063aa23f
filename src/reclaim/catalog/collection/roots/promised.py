"""Promises of undoable runs: their commits, and the commits these depend on.

A promised commit is restored on top of its parents, and an undone edit restores the old parents of
a commit. Existing parents therefore stay as long as the run can be undone.
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
    """Metaranges of the commits condemned or quarantined by runs, by run."""
    if not runs:
        return {}
    metaranges: dict[str, list[str]] = {}
    with workspace.database.read() as connection:
        query = select(commit_rows.c.run_id, commit_rows.c.metarange).where(
            commit_rows.c.repo_uid == workspace.repo_uid,
            commit_rows.c.state.in_(TAKEN),
            commit_rows.c.metarange != "",
            among(connection, commit_rows.c.run_id, runs),
        )
        for row in connection.execute(query):
            metaranges.setdefault(row.run_id, []).append(row.metarange)
    return metaranges


def find_parents(workspace: Workspace, *, besides: str) -> set[SnapshotId]:
    """Existing commits that other runs would need if they were undone."""
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
    """Return the commits released by an edit and restorable by its undo.

    An edit releases replaced parents and the commits of deleted refs.
    """
    if not ids:
        return set()
    with workspace.database.read() as connection:
        recorded = records.list_runs(connection, workspace.repo_uid)
        edits = {run.id for run in recorded if run.phase not in (Phase.UNDONE, Phase.PURGED)}
        named = (SnapshotId(parent) for parent in _replaced(connection, edits))
        return {commit_id for commit_id in named if commit_id in ids}


def undoable(connection: Connection, repo_uid: str) -> set[str]:
    """Runs whose commits can be restored."""
    return {run.id for run in records.list_runs(connection, repo_uid) if run.undoable}


def gone_for_good(connection: Connection, repo_uid: str, ids: Iterable[str]) -> set[str]:
    """Return the missing commits that no run can restore."""
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
    """Parents of commits taken by runs, replaced parents, and the commits of deleted refs."""
    taken = select(commit_rows.c.parents).where(
        commit_rows.c.repo_uid == repo_uid,
        commit_rows.c.state.in_(TAKEN),
        among(connection, commit_rows.c.run_id, runs),
    )
    for text in connection.execute(taken).scalars():
        yield from json.loads(text)
    yield from _replaced(connection, runs)


def _replaced(connection: Connection, runs: Collection[str]) -> Iterator[str]:
    """Parents replaced by runs, and the commits of deleted refs."""
    replaced = select(run_edits.c.old_parents).where(among(connection, run_edits.c.run_id, runs))
    for text in connection.execute(replaced).scalars():
        yield from json.loads(text)
    deleted = select(run_refs.c.commit_id).where(among(connection, run_refs.c.run_id, runs))
    yield from connection.execute(deleted).scalars()
