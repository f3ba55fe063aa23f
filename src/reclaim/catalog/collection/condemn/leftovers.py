"""Leftovers of a run that died: its provisional marks and claims, and its edit of the history.

Whoever comes next takes all of it back. It is left over when the run that made it does not hold the
lock; while somebody holds it, it is that run's own affair.
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
    """Take back what is left over, if there is any and the lock is free; returns how many marks."""
    if not _any(workspace):
        return 0
    try:
        # Only its holder knows that nobody makes a mark meanwhile.
        with locks.hold(workspace, new_uid()) as lock:
            return release_under(workspace, lock)
    except Conflict:
        return 0


def release_under(workspace: Workspace, lock: RepositoryLock) -> int:
    """The same for the holder of the lock, to whom all that others made is left over."""
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
