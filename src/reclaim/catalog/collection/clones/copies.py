"""Detection of database copies during a run, by the epoch and the home of the storage."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection

from reclaim.catalog.collection import records
from reclaim.catalog.collection.clones import epochs
from reclaim.catalog.staging import partitions
from reclaim.catalog.workspace import Workspace
from reclaim.clock import from_micros
from reclaim.ids import new_uid
from reclaim.run_record import ADOPT, Phase, RunRecord


def check(workspace: Workspace) -> None:
    """Refuse if a newer copy of the database has written, or another database is the home."""
    check_epoch(workspace)
    workspace.home.check()


def check_epoch(workspace: Workspace) -> Collection[int]:
    """Refuse if a newer copy has written to the storage; return older epochs."""
    return epochs.check_epoch(workspace.database, workspace.storage, workspace.repo_uid)


def count_run(workspace: Workspace, run_id: str) -> None:
    """Check epoch and home, and count an epoch, so a clone of the database is detected."""
    older = check_epoch(workspace)
    workspace.home.claim()
    workspace.home.check()
    _count(workspace, run_id, older)


def adopt(workspace: Workspace, run_id: str, unknown: Collection[str]) -> None:
    """Register unknown partitions of the storage as closed, and continue from its epoch.

    The database becomes the home of the storage. Only for operators certain that it is the right
    database: objects in those partitions without a reference will be collected.
    """

    def register(connection: Connection) -> None:
        now = workspace.now()
        partitions.adopt(connection, workspace.repo_uid, unknown, now)
        # In the same transaction: older checkpoints become invalid.
        if records.find_run(connection, workspace.repo_uid, run_id) is None:
            run = RunRecord(run_id, ADOPT, Phase.DONE, from_micros(now), partitions=len(unknown))
            records.insert_run(connection, workspace, run)

    workspace.database.transact(register)
    older = epochs.adopt_epoch(workspace.database, workspace.storage, workspace.repo_uid)
    _count(workspace, run_id, older)
    workspace.home.register()


def _count(workspace: Workspace, run_id: str, older: Collection[int]) -> None:
    if workspace.deleted:
        # No further epochs: nothing can be written there any more.
        return
    # Two copies of the database may apply the same plan; the writer's name distinguishes them.
    writer = f"{run_id}:{new_uid()}"
    epoch = workspace.database.transact(
        lambda connection: epochs.count_epoch(connection, workspace.repo_uid, writer)
    )
    workspace.partitions.epochs.write_marker(workspace.repo_uid, epoch, writer, older)
