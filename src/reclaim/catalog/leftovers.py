"""Provisional marks that a run left which died: they are taken off by whoever comes next.

A mark is left over when the run that made it does not hold the lock. While somebody holds it,
marks are that run's own affair.
"""

from __future__ import annotations

from sqlalchemy import select

from reclaim.catalog import addresses, condemning, locks
from reclaim.catalog.schema import CommitState, commits
from reclaim.catalog.workspace import Workspace
from reclaim.errors import Conflict


def release(workspace: Workspace) -> int:
    """Take left over marks off, if there are any and the lock is free; returns how many."""
    if not _any(workspace):
        return 0
    try:
        # Only its holder knows that nobody makes a mark meanwhile.
        with locks.hold(workspace, addresses.new_uid()) as lock:
            return condemning.release_all(workspace, lock)
    except Conflict:
        return 0


def _any(workspace: Workspace) -> bool:
    query = select(commits.c.id).where(
        commits.c.repo_uid == workspace.repo_uid, commits.c.state == CommitState.PROVISIONAL
    )
    with workspace.database.read() as connection:
        return connection.execute(query.limit(1)).first() is not None
