"""Editing history in place: new parents for commits, refs that go, and the way back.

An edit is planned from one snapshot of the history and applied in one transaction. It conflicts
only when a commit to be edited has other parents than planned, or a ref to be deleted has moved;
new commits and new refs do not matter to it. Contents, ids and times of commits never change.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from reclaim.catalog import addresses, commits, refs, staging, tokens
from reclaim.catalog.schema import (
    CommitState,
    RunState,
    UploadState,
    branches,
    repositories,
    run_edits,
    run_refs,
    runs,
    tags,
    upload_tokens,
)
from reclaim.catalog.schema import commits as commit_rows
from reclaim.catalog.sets import among
from reclaim.catalog.workspace import Workspace
from reclaim.clock import from_micros
from reclaim.errors import Conflict, NotFound, Refused, TransactionFailed
from reclaim.model import Ref, RefKind, Snapshot, SnapshotId

BATCH = 5_000
Parents = tuple[SnapshotId, ...]


@dataclass(frozen=True, slots=True)
class HistoryRead:
    """What an edit is planned from: all commits and refs, from one snapshot of the database.

    ``busy`` names the branches with staged changes or pending uploads.
    """

    snapshots: tuple[Snapshot, ...]
    refs: tuple[Ref, ...]
    busy: frozenset[str]
    read_at: datetime


@dataclass(frozen=True, slots=True)
class HistoryEdit:
    """Commits that get other parents (old and new), and refs that go."""

    reparent: Mapping[SnapshotId, tuple[Parents, Parents]]
    delete_refs: Sequence[Ref] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """An execution that changed something, as it was recorded."""

    id: str
    kind: str
    state: str
    started_at: datetime
    summary: Mapping[str, Any] = field(default_factory=dict)


def read_history(workspace: Workspace, default_branch: str) -> HistoryRead:
    """All commits that are not condemned, and what names them, in one snapshot."""
    uid = workspace.repo_uid
    with workspace.database.read() as connection:
        refs.check_repository(connection, uid)
        now = workspace.database.now(connection, workspace.clock)
        snapshots = tuple(
            Snapshot(
                SnapshotId(found.id),
                tuple(SnapshotId(parent) for parent in found.parents),
                found.written_at,
                found.marked,
            )
            for found in commits.scan(connection, uid)
        )
        named = [
            Ref(ref.name, ref.kind, SnapshotId(ref.commit), ref.default)
            for ref in (
                *refs.list_branches(connection, uid, default_branch),
                *refs.list_tags(connection, uid),
            )
        ]
        busy = frozenset(
            ref.name
            for ref in named
            if ref.kind is RefKind.BRANCH and _is_busy(connection, uid, ref.name)
        )
        return HistoryRead(snapshots, tuple(named), busy, now)


def apply_edit(
    workspace: Workspace, edit: HistoryEdit, *, kind: str, summary: Mapping[str, Any]
) -> Run:
    """Apply an edit whole, and record what it takes to undo it."""

    def work(connection: Connection) -> Run:
        uid = workspace.repo_uid
        refs.check_repository(connection, uid, lock=True)
        run = Run(addresses.new_uid(), kind, RunState.DONE, workspace.clock.now(), summary)
        connection.execute(
            insert(runs).values(
                id=run.id,
                repo_uid=uid,
                kind=kind,
                state=run.state,
                started_at=workspace.now(),
                summary=json.dumps(dict(summary), sort_keys=True),
            )
        )
        for batch in _batches(edit.reparent.items()):
            _reparent(connection, uid, run.id, dict(batch))
        for ref in edit.delete_refs:
            _delete_ref(connection, uid, run.id, ref)
        _bump(connection, uid)
        return run

    return workspace.database.transact(work)


def _reparent(
    connection: Connection,
    repo_uid: str,
    run_id: str,
    batch: Mapping[SnapshotId, tuple[Parents, Parents]],
) -> None:
    query = (
        select(commit_rows.c.id, commit_rows.c.parents, commit_rows.c.marked, commit_rows.c.state)
        .where(commit_rows.c.repo_uid == repo_uid)
        .where(among(connection, commit_rows.c.id, list(batch)))
        .order_by(commit_rows.c.id)
        .with_for_update()
    )
    found = {row.id: row for row in connection.execute(query)}
    for commit_id, (old, new) in batch.items():
        row = found.get(commit_id)
        parents = tuple(json.loads(row.parents)) if row is not None else None
        if parents == new:
            continue
        if row is None or row.state != CommitState.LIVE or parents != old:
            raise TransactionFailed(
                f"the parents of commit {commit_id} changed since this was planned",
                hint="plan it again",
                commit=commit_id,
            )
        commits.hold(connection, repo_uid, new)
        _set_parents(connection, repo_uid, commit_id, new, marked=True)
        connection.execute(
            insert(run_edits).values(
                run_id=run_id,
                commit_id=commit_id,
                old_parents=json.dumps(old),
                new_parents=json.dumps(new),
                was_marked=row.marked,
            )
        )


def _delete_ref(connection: Connection, repo_uid: str, run_id: str, ref: Ref) -> None:
    if ref.kind is RefKind.TAG:
        query = select(tags.c.commit_id).where(tags.c.repo_uid == repo_uid, tags.c.name == ref.name)
        found = connection.execute(query.with_for_update()).scalar()
    else:
        view = tokens.lock_branch(connection, repo_uid, ref.name)
        found = view.head
        if ref.default or _is_busy(connection, repo_uid, ref.name):
            raise Conflict(
                f"the branch {ref.name} has uncommitted changes or uploads, or is the default",
                hint="plan it again; such a branch is never deleted",
            )
    if found != ref.snapshot:
        raise TransactionFailed(
            f"the {ref.kind} {ref.name} moved since this was planned", hint="plan it again"
        )
    if ref.kind is RefKind.TAG:
        connection.execute(delete(tags).where(tags.c.repo_uid == repo_uid, tags.c.name == ref.name))
    else:
        tokens.drop_all(connection, view, reopen=False)
        connection.execute(delete(branches).where(branches.c.uid == view.uid))
    connection.execute(
        insert(run_refs).values(
            run_id=run_id, kind=ref.kind.value, name=ref.name, commit_id=ref.snapshot
        )
    )


def undo(workspace: Workspace, run_id: str) -> list[str]:
    """Take an edit of the history back; returns what had changed since and was left.

    Refused once something that it would bring back is being collected.
    """

    def work(connection: Connection) -> list[str]:
        uid = workspace.repo_uid
        refs.check_repository(connection, uid, lock=True)
        row = connection.execute(
            select(runs).where(runs.c.id == run_id, runs.c.repo_uid == uid)
        ).first()
        if row is None:
            raise NotFound(f"there is no run {run_id}", hint="see `reclaim runs`")
        if row.state != RunState.DONE:
            raise Conflict(f"run {run_id} was undone already")
        left: list[str] = []
        edits = connection.execute(select(run_edits).where(run_edits.c.run_id == run_id)).all()
        for edit in edits:
            if not _restore(connection, uid, edit):
                left.append(f"the parents of commit {edit.commit_id}")
        gone = connection.execute(select(run_refs).where(run_refs.c.run_id == run_id)).all()
        for ref in gone:
            if not _restore_ref(connection, workspace, ref):
                left.append(f"the {ref.kind} {ref.name}")
        connection.execute(update(runs).where(runs.c.id == run_id).values(state=RunState.UNDONE))
        _bump(connection, uid)
        return left

    return workspace.database.transact(work)


def _restore(connection: Connection, repo_uid: str, edit: Any) -> bool:
    query = select(commit_rows.c.parents).where(
        commit_rows.c.repo_uid == repo_uid, commit_rows.c.id == edit.commit_id
    )
    parents = connection.execute(query.with_for_update()).scalar()
    if parents != edit.new_parents:
        return False
    old: list[str] = json.loads(edit.old_parents)
    try:
        commits.hold(connection, repo_uid, old)
    except TransactionFailed as error:
        raise Refused(
            f"the run cannot be undone: {error}",
            hint="something that it let go has been collected since",
        ) from error
    _set_parents(connection, repo_uid, edit.commit_id, tuple(old), marked=edit.was_marked)
    return True


def _restore_ref(connection: Connection, workspace: Workspace, ref: Any) -> bool:
    for table in (branches, tags):
        query = select(table.c.name).where(
            table.c.repo_uid == workspace.repo_uid, table.c.name == ref.name
        )
        if connection.execute(query).first() is not None:
            return False
    commits.hold(connection, workspace.repo_uid, [ref.commit_id])
    if ref.kind == RefKind.BRANCH:
        refs.insert_branch(connection, workspace.repo_uid, ref.name, ref.commit_id, workspace.now())
    else:
        refs.insert_tag(connection, workspace.repo_uid, ref.name, ref.commit_id, workspace.now())
    return True


def list_runs(connection: Connection, repo_uid: str) -> list[Run]:
    """The runs of a repository, the newest first."""
    query = select(runs).where(runs.c.repo_uid == repo_uid).order_by(runs.c.started_at.desc())
    return [
        Run(row.id, row.kind, row.state, from_micros(row.started_at), json.loads(row.summary))
        for row in connection.execute(query)
    ]


def _set_parents(
    connection: Connection,
    repo_uid: str,
    commit_id: str,
    parents: Parents | tuple[str, ...],
    *,
    marked: bool,
) -> None:
    connection.execute(
        update(commit_rows)
        .where(commit_rows.c.repo_uid == repo_uid, commit_rows.c.id == commit_id)
        .values(parents=json.dumps(parents), marked=marked)
    )


def _bump(connection: Connection, repo_uid: str) -> None:
    connection.execute(
        update(repositories)
        .where(repositories.c.uid == repo_uid)
        .values(history_version=repositories.c.history_version + 1)
    )


def _is_busy(connection: Connection, repo_uid: str, branch: str) -> bool:
    view = tokens.read_view(connection, repo_uid, branch)
    if view.sealed or staging.has_rows(connection, view.tokens):
        return True
    pending = select(upload_tokens.c.id).where(
        upload_tokens.c.branch_uid == view.uid, upload_tokens.c.state == UploadState.PENDING
    )
    return connection.execute(pending.limit(1)).first() is not None


def _batches(items: Any) -> Iterator[list[Any]]:
    remaining = iter(items)
    while batch := list(islice(remaining, BATCH)):
        yield batch
