"""Rolling back: the edit of a run that never promoted anything did not happen.

A run edits history long before it makes its marks terminal. What the edit lets go is collected by
others, and nothing of it is promised; so the edit is as provisional as the marks. A run that stops
takes it back itself; one that died is rolled back by whoever has the lock next.
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
    """Take the edit of a run back that condemned nothing; returns what had to be left.

    What was left stays recorded, for ``undo``. None if the run condemned something: then its edit
    stands.
    """

    def work(connection: Connection) -> Sequence[str] | None:
        lock.assure(connection)
        refs.check_repository(connection, workspace.repo_uid, lock=True)
        if has_condemned(connection, workspace.repo_uid, run_id):
            return None
        return _roll_back(connection, workspace, run_id)

    # A commit that is marked cannot be a parent again.
    commit_states.release_all(workspace, lock)
    return workspace.database.transact(work)


def roll_back_left_over(workspace: Workspace, lock: RepositoryLock) -> int:
    """Take back the edits of runs that died before they promoted anything; returns how many.

    The run that holds the lock goes on with its own. Marks must be off: a commit that is marked
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
            # Nothing of a deleted repository is needed any more.
            return 0
        # The newest first: an edit is taken back only from what the run itself left.
        for run in left_over:
            left = _roll_back(connection, workspace, run.id)
            records.save_run(connection, workspace.repo_uid, run.rolled_back(tuple(left)))
        return len(left_over)

    return workspace.database.transact(work)


def _roll_back(connection: Connection, workspace: Workspace, run_id: str) -> Sequence[str]:
    outcome = take_back(connection, workspace, run_id, forget=True)
    history_edit.bump(connection, workspace.repo_uid)
    return [*outcome.changed, *outcome.gone, *outcome.waits]
