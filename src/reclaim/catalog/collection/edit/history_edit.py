"""Edits of the history in place: new parents of commits, deleted refs. ``undoing`` reverts them.

An edit is decided on a single read of the history and made in a single transaction, if the history
has not changed since: no other edit, and no new or moved ref except for plain commits on top of a
branch. Contents, ids and times of commits never change.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, delete, exists, func, insert, literal, select, update

from reclaim.catalog.collection.edit import history_compare
from reclaim.catalog.collection.edit.provisional import find_editors
from reclaim.catalog.collection.locks import RepositoryLock
from reclaim.catalog.database.schema import (
    CommitState,
    TokenState,
    UploadState,
    branches,
    repositories,
    run_edits,
    run_refs,
    staged_entries,
    staging_tokens,
    tags,
    upload_tokens,
)
from reclaim.catalog.database.schema import commits as commit_rows
from reclaim.catalog.database.sets import among, batches
from reclaim.catalog.refs import commits, leases, refs
from reclaim.catalog.staging import tokens
from reclaim.catalog.workspace import Workspace
from reclaim.clock import from_micros
from reclaim.errors import Conflict, TransactionFailed
from reclaim.model import Lease, Ref, RefKind, Snapshot, SnapshotId

BATCH = 5_000
MESSAGE_LENGTH = 1_000
"""Number of characters of a message read with a history."""
Parents = tuple[SnapshotId, ...]


@dataclass(frozen=True, slots=True)
class HistoryRead:
    """Input of an edit: all commits and refs, from a single database snapshot.

    ``busy`` names the branches with staged changes or pending uploads; ``editor`` is a run whose
    edit is part of this history and may still be reverted. The ``version`` grows with each edit.
    ``expected`` is the number of commits counted by the database, and of those with a metarange.
    """

    snapshots: tuple[Snapshot, ...]
    refs: tuple[Ref, ...]
    busy: frozenset[str]
    read_at: datetime
    expected: tuple[int, int]
    version: int
    editor: str | None
    returned: tuple[Lease, ...] = ()
    """Valid leases of undos on commits of the history."""

    @property
    def count(self) -> int:
        return self.expected[0]


@dataclass(frozen=True, slots=True)
class HistoryEdit:
    """Commits with new parents (old and new), and refs to delete."""

    reparent: Mapping[SnapshotId, tuple[Parents, Parents]]
    delete_refs: Sequence[Ref] = ()

    @classmethod
    def of(
        cls, read: HistoryRead, reparent: Mapping[SnapshotId, Parents], delete_refs: Sequence[Ref]
    ) -> HistoryEdit:
        """Create an edit with new parents for commits of a history."""
        parents = {commit.id: commit.parents for commit in read.snapshots if commit.id in reparent}
        return cls({child: (parents[child], new) for child, new in reparent.items()}, delete_refs)


def read_history(
    workspace: Workspace, default_branch: str, *, messages: bool = False
) -> HistoryRead:
    """Read all commits that are not condemned, with their refs, in a single snapshot."""
    with workspace.database.read() as connection:
        refs.check_repository(connection, workspace.repo_uid)
        return history(connection, workspace, default_branch, messages=messages)


def history(
    connection: Connection, workspace: Workspace, default_branch: str, *, messages: bool = False
) -> HistoryRead:
    """Read the history from a database snapshot, optionally with messages."""
    uid = workspace.repo_uid
    now = workspace.database.now(connection, workspace.clock)
    message = func.substr(commit_rows.c.message, 1, MESSAGE_LENGTH) if messages else literal("")
    query = select(
        commit_rows.c.id,
        commit_rows.c.parents,
        commit_rows.c.written_at,
        commit_rows.c.marked,
        message.label("message"),
    ).where(commit_rows.c.repo_uid == uid, commit_rows.c.state.in_(commits.STANDING))
    snapshots = tuple(
        Snapshot(
            SnapshotId(row.id),
            tuple([SnapshotId(parent) for parent in json.loads(row.parents)]),
            from_micros(row.written_at),
            row.marked,
            row.message,
        )
        for row in connection.execute(query, execution_options={"yield_per": 10_000})
    )
    named = tuple(
        Ref(ref.name, ref.kind, SnapshotId(ref.commit), ref.default)
        for ref in refs.list_all(connection, uid, default_branch)
    )
    editors = find_editors(connection, uid)
    return HistoryRead(
        snapshots,
        named,
        _busy(connection, uid),
        now,
        _count(connection, uid),
        history_compare.version(connection, uid),
        editors[0].id if editors else None,
        _returned(connection, uid, now, snapshots),
    )


def _returned(
    connection: Connection, repo_uid: str, now: datetime, snapshots: Sequence[Snapshot]
) -> tuple[Lease, ...]:
    valid = [
        lease
        for lease in leases.list_leases(connection, repo_uid)
        if lease.undone_run is not None and lease.valid_at(now)
    ]
    standing = {snapshot.id for snapshot in snapshots} if valid else ()
    return tuple(lease for lease in valid if lease.snapshot in standing)


def _count(connection: Connection, repo_uid: str) -> tuple[int, int]:
    """Count the commits of the history and those with a metarange, without reading them.

    Excluded states are listed explicitly, so an error in the included states is detected.
    """
    excluded = (CommitState.CONDEMNED, CommitState.QUARANTINED, CommitState.COLLECTED)
    query = select(func.count(), func.count(func.nullif(commit_rows.c.metarange, ""))).where(
        commit_rows.c.repo_uid == repo_uid, commit_rows.c.state.not_in(excluded)
    )
    standing, with_metarange = connection.execute(query).one()
    return standing, with_metarange


def edit_history(
    connection: Connection, workspace: Workspace, run_id: str, edit: HistoryEdit
) -> None:
    """Apply an edit in a run's transaction; parts already in place count as done."""
    uid = workspace.repo_uid
    refs.check_repository(connection, uid, lock=True)
    for batch in batches(edit.reparent.items(), BATCH):
        _reparent(connection, uid, run_id, dict(batch))
    for ref in edit.delete_refs:
        _delete_ref(connection, uid, run_id, ref)
    if edit.reparent or edit.delete_refs:
        bump(connection, uid)


def edit_under(
    workspace: Workspace, lock: RepositoryLock, edit: HistoryEdit, read: HistoryRead
) -> bool:
    """Apply the complete edit of the run that holds the lock.

    Returns False and changes nothing if the history has changed since it was read.
    """

    def work(connection: Connection) -> bool:
        lock.assure(connection)
        if not history_compare.is_as_read(connection, workspace.repo_uid, read):
            return False
        edit_history(connection, workspace, lock.run_id, edit)
        return True

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
    by_id = {row.id: row for row in connection.execute(query)}
    for commit_id, (old, new) in batch.items():
        row = by_id.get(commit_id)
        parents = tuple(json.loads(row.parents)) if row is not None else None
        if parents == new:
            continue
        if row is None or row.state != CommitState.LIVE or parents != old:
            raise TransactionFailed(
                f"the parents of commit {commit_id} changed since this was planned",
                hint="make a new plan",
                commit=commit_id,
            )
        commits.hold(connection, repo_uid, new)
        set_parents(connection, repo_uid, commit_id, new, marked=True)
        # A commit with an earlier edit of this run may have been restored by other means.
        note_edit(connection, run_id, commit_id, old=old, new=new, was_marked=row.marked)


def note_edit(
    connection: Connection,
    run_id: str,
    commit_id: str,
    *,
    old: Parents,
    new: Parents,
    was_marked: bool,
) -> None:
    """Record a run's change of a commit's parents for its undo."""
    connection.execute(
        delete(run_edits).where(run_edits.c.run_id == run_id, run_edits.c.commit_id == commit_id)
    )
    connection.execute(
        insert(run_edits).values(
            run_id=run_id,
            commit_id=commit_id,
            old_parents=json.dumps(old),
            new_parents=json.dumps(new),
            was_marked=was_marked,
        )
    )


def _delete_ref(connection: Connection, repo_uid: str, run_id: str, ref: Ref) -> None:
    deleted = select(run_refs.c.name).where(
        run_refs.c.run_id == run_id, run_refs.c.kind == ref.kind.value, run_refs.c.name == ref.name
    )
    if connection.execute(deleted).first() is not None:
        # Already deleted by this run: a ref of this name was created since.
        return
    if ref.kind is RefKind.TAG:
        query = select(tags.c.commit_id).where(tags.c.repo_uid == repo_uid, tags.c.name == ref.name)
    else:
        query = select(branches.c.head).where(
            branches.c.repo_uid == repo_uid, branches.c.name == ref.name
        )
    head = connection.execute(query.with_for_update()).scalar()
    if head is None:
        return
    if ref.kind is RefKind.BRANCH:
        view = tokens.lock_branch(connection, repo_uid, ref.name)
        tokens.lock_tokens(connection, view)
        if ref.default or _busy(connection, repo_uid, ref.name):
            raise Conflict(
                f"the branch {ref.name} has uncommitted changes or uploads, or is the default",
                hint="make a new plan; such branches are never deleted",
            )
    if head != ref.snapshot:
        raise TransactionFailed(
            f"the {ref.kind} {ref.name} moved since this was planned", hint="make a new plan"
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


def set_parents(
    connection: Connection,
    repo_uid: str,
    commit_id: str,
    parents: Parents | tuple[str, ...],
    *,
    marked: bool,
) -> None:
    """Set the parents of a commit."""
    connection.execute(
        update(commit_rows)
        .where(commit_rows.c.repo_uid == repo_uid, commit_rows.c.id == commit_id)
        .values(parents=json.dumps(parents), marked=marked)
    )


def bump(connection: Connection, repo_uid: str) -> None:
    """Increment the history version, so readers of several pages detect the edit."""
    connection.execute(
        update(repositories)
        .where(repositories.c.uid == repo_uid)
        .values(history_version=repositories.c.history_version + 1)
    )


def _busy(connection: Connection, repo_uid: str, branch: str | None = None) -> frozenset[str]:
    """Return the branches with staged changes or pending uploads."""
    selected = branches.c.repo_uid == repo_uid
    if branch is not None:
        selected &= branches.c.name == branch
    staged = select(staged_entries.c.path).where(staged_entries.c.token_id == staging_tokens.c.id)
    changed = (
        select(branches.c.name)
        .join(staging_tokens, staging_tokens.c.branch_uid == branches.c.uid)
        .where(selected)
        .where(
            (staging_tokens.c.state == TokenState.SEALED)
            | ((staging_tokens.c.state == TokenState.OPEN) & exists(staged))
        )
    )
    pending = (
        select(branches.c.name)
        .join(upload_tokens, upload_tokens.c.branch_uid == branches.c.uid)
        .where(selected, upload_tokens.c.state == UploadState.PENDING)
    )
    return frozenset(
        name for query in (changed, pending) for name in connection.execute(query).scalars()
    )
