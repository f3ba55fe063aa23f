"""Leftovers of a dead run: its provisional marks and claims, and its edit of the history.

The next holder of the lock reverts all of them. They are leftovers if their run does not hold the
lock; while a run holds the lock, they are its own work.
"""

from __future__ import annotations

from sqlalchemy import Connection, select

from reclaim.catalog.collection import locks
from reclaim.catalog.collection.condemn import claimed_addresses, commit_states
from reclaim.catalog.collection.edit import provisional, rollback
from reclaim.catalog.collection.locks import RepositoryLock
from reclaim.catalog.database.schema import CommitState, commits
from reclaim.catalog.workspace import Workspace
from reclaim.errors import Conflict
from reclaim.ids import new_uid


def release(workspace: Workspace) -> int:
    """Revert leftovers, if any, when the lock is free; return the number of marks."""
    if not _any(workspace):
        return 0
    try:
        # Only the holder can be sure that no marks are made meanwhile.
        with locks.hold(workspace, new_uid()) as lock:
            return release_under(workspace, lock)
    except Conflict:
        return 0


def release_under(workspace: Workspace, lock: RepositoryLock) -> int:
    """Revert everything other runs left over, as the holder of the lock."""
    uid = workspace.repo_uid

    def work(connection: Connection) -> tuple[int, bool]:
        lock.assure(connection)
        marks = commit_states.release_marks(connection, uid)
        return marks, claimed_addresses.release_all(connection, uid, besides=lock.run_id)

    released, is_any_void = workspace.database.transact(work)
    if is_any_void:
        claimed_addresses.remove_released(workspace, lock)
    rollback.roll_back_left_over(workspace, lock)
    return released


def _any(workspace: Workspace) -> bool:
    query = select(commits.c.id).where(
        commits.c.repo_uid == workspace.repo_uid, commits.c.state == CommitState.PROVISIONAL
    )
    with workspace.database.read() as connection:
        if connection.execute(query.limit(1)).first() is not None:
            return True
        if provisional.find_editors(connection, workspace.repo_uid):
            return True
        return claimed_addresses.is_any_left(connection, workspace.repo_uid)
