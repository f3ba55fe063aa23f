"""Rollback of the edits of runs that never promoted anything.

A run edits the history long before it makes its marks final. Other runs collect the commits it
releases, and none of them is promised, so the edit is as provisional as the marks. A stopping run
reverts it itself; the edit of a dead run is rolled back by the next holder of the lock.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection

from reclaim.catalog.collection import records
from reclaim.catalog.collection.condemn import commit_states
from reclaim.catalog.collection.edit import history_edit
from reclaim.catalog.collection.edit.provisional import find_editors, has_condemned
from reclaim.catalog.collection.locks import RepositoryLock
from reclaim.catalog.collection.undo.taking_back import take_back
from reclaim.catalog.refs import refs
from reclaim.catalog.workspace import Workspace
from reclaim.errors import NotFound


def roll_back(workspace: Workspace, lock: RepositoryLock, run_id: str) -> Sequence[str] | None:
    """Revert the edit of a run that condemned nothing; return the parts left in place.

    Those parts stay recorded for ``undo``. Returns None if the run condemned a commit: then its
    edit stays.
    """

    def work(connection: Connection) -> Sequence[str] | None:
        lock.assure(connection)
        refs.check_repository(connection, workspace.repo_uid, lock=True)
        if has_condemned(connection, workspace.repo_uid, run_id):
            return None
        return _roll_back(connection, workspace, run_id)

    # A marked commit cannot become a parent again.
    commit_states.release_all(workspace, lock)
    return workspace.database.transact(work)


def roll_back_left_over(workspace: Workspace, lock: RepositoryLock) -> int:
    """Revert the edits of dead runs that promoted nothing; return the number of runs.

    The run holding the lock keeps its own edit. All marks must be removed before: a marked commit
    cannot be a parent.
    """

    def work(connection: Connection) -> int:
        lock.assure(connection)
        editors = find_editors(connection, workspace.repo_uid)
        left_over = [run for run in editors if run.id != lock.run_id]
        if not left_over:
            return 0
        try:
            refs.check_repository(connection, workspace.repo_uid, lock=True)
        except NotFound:
            # A deleted repository needs no rollback.
            return 0
        # Newest first: an edit is only reverted where it is unchanged.
        for run in left_over:
            left = _roll_back(connection, workspace, run.id)
            records.save_run(connection, workspace.repo_uid, run.rolled_back(tuple(left)))
        return len(left_over)

    return workspace.database.transact(work)


def _roll_back(connection: Connection, workspace: Workspace, run_id: str) -> Sequence[str]:
    outcome = take_back(connection, workspace, run_id, forget=True)
    history_edit.bump(connection, workspace.repo_uid)
    return [*outcome.changed, *outcome.gone, *outcome.waits]
