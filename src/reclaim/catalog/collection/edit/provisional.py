"""Provisional edits of the history, by runs that have not promoted anything.

Until a run promotes, its edit may be reverted, by the run itself or by the next holder of the lock.
No decision is made on such an edit: the commits it hides may return to the history.
"""

from __future__ import annotations

from sqlalchemy import Connection, exists, or_, select

from reclaim.catalog.collection import records
from reclaim.catalog.database.schema import CommitState, run_edits, run_refs, runs
from reclaim.catalog.database.schema import commits as commit_rows
from reclaim.run_record import RunRecord

TAKEN = (CommitState.CONDEMNED, CommitState.QUARANTINED)


def has_condemned(connection: Connection, repo_uid: str, run_id: str) -> bool:
    """Whether a run has condemned a commit that was not restored."""
    condemned = select(commit_rows.c.id).where(
        commit_rows.c.repo_uid == repo_uid,
        commit_rows.c.run_id == run_id,
        commit_rows.c.state.in_((*TAKEN, CommitState.COLLECTED)),
    )
    return connection.execute(condemned.limit(1)).first() is not None


def find_editors(connection: Connection, repo_uid: str) -> list[RunRecord]:
    """Return the active or dead runs that edited the history without promoting anything.

    Newest first.
    """
    edited = [exists().where(table.c.run_id == runs.c.id) for table in (run_edits, run_refs)]
    query = (
        select(runs)
        .where(runs.c.repo_uid == repo_uid, or_(*edited))
        .order_by(runs.c.started_at.desc(), runs.c.id)
    )
    return [
        run
        for run in map(records.decode, connection.execute(query))
        if run.is_provisional and not has_condemned(connection, repo_uid, run.id)
    ]
