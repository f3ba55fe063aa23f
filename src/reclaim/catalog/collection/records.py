"""Records of runs: changes to a repository with their time and outcome."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, delete, insert, select, update

from reclaim.catalog.collection.locks import RepositoryLock
from reclaim.catalog.database.schema import plans, runs
from reclaim.catalog.workspace import Workspace
from reclaim.clock import from_micros, to_micros
from reclaim.operators import with_current
from reclaim.run_record import RunRecord, unreadable
from reclaim.run_record import decode as decode_record
from reclaim.safety import SAFETY


def start(workspace: Workspace, lock: RepositoryLock, run: RunRecord) -> None:
    """Record the start of a run, or the continuation of an earlier start."""

    def work(connection: Connection) -> None:
        lock.assure(connection)
        if find_run(connection, workspace.repo_uid, run.id) is None:
            insert_run(connection, workspace, run)
        else:
            save_run(connection, workspace.repo_uid, run)

    workspace.database.transact(work)


def finish(workspace: Workspace, lock: RepositoryLock, run: RunRecord) -> None:
    """Record the progress of a run, unless it lost its lock: another run may have continued."""

    def work(connection: Connection) -> None:
        lock.assure(connection)
        save_run(connection, workspace.repo_uid, run)

    workspace.database.transact(work)


def add(workspace: Workspace, run: RunRecord) -> None:
    """Record a run without changes."""
    workspace.database.transact(lambda connection: insert_run(connection, workspace, run))


def find(workspace: Workspace, run_id: str) -> RunRecord | None:
    with workspace.database.read() as connection:
        return find_run(connection, workspace.repo_uid, run_id)


def all_runs(workspace: Workspace) -> list[RunRecord]:
    """Return the runs of a repository, newest first."""
    with workspace.database.read() as connection:
        return list_runs(connection, workspace.repo_uid)


def insert_run(connection: Connection, workspace: Workspace, run: RunRecord) -> None:
    """Record a run, in the transaction of its change."""
    connection.execute(
        insert(runs).values(
            id=run.id,
            repo_uid=workspace.repo_uid,
            started_at=to_micros(run.started_at),
            record=_encode(run),
        )
    )


def _encode(run: RunRecord) -> str:
    """Encode a record with the current operator of the run."""
    return replace(run, operators=with_current(run.operators)).encode()


def find_run(connection: Connection, repo_uid: str, run_id: str) -> RunRecord | None:
    query = select(runs).where(runs.c.repo_uid == repo_uid, runs.c.id == run_id)
    row = connection.execute(query).first()
    return None if row is None else decode(row)


def save_run(connection: Connection, repo_uid: str, run: RunRecord) -> None:
    """Replace the record of a run, if it exists."""
    own = (runs.c.repo_uid == repo_uid, runs.c.id == run.id)
    values = {"record": _encode(run), "started_at": to_micros(run.started_at)}
    connection.execute(update(runs).where(*own).values(values))


def list_runs(connection: Connection, repo_uid: str) -> list[RunRecord]:
    """Return the runs of a repository, newest first."""
    query = select(runs).where(runs.c.repo_uid == repo_uid)
    return [decode(row) for row in connection.execute(query.order_by(runs.c.started_at.desc()))]


def decode(row: Row[Any]) -> RunRecord:
    """Decode the record of a run from its row."""
    try:
        document = json.loads(row.record)
        if not isinstance(document, dict):
            raise ValueError("it is not a JSON object")
        return decode_record(document | {"id": row.id})
    except ValueError as error:
        return unreadable(
            row.id,
            from_micros(row.started_at),
            f"the record of run {row.id} in the database cannot be read: {error}",
            "restore the database from a backup",
        )


def record_plan(workspace: Workspace, run_id: str, digest: str) -> None:
    """Record the digest of a plan, and delete expired digests of all repositories.

    A recorded digest never changes: the same plan is not created twice.
    """
    now = workspace.clock.now()
    too_old = plans.c.made_at < to_micros(now - SAFETY.plan_digests)
    values = {"run_id": run_id, "repo_uid": workspace.repo_uid, "digest": digest}

    def work(connection: Connection) -> None:
        connection.execute(delete(plans).where(too_old))
        connection.execute(insert(plans).values(made_at=to_micros(now), **values))

    workspace.database.transact(work)


def recorded_plan(workspace: Workspace, run_id: str) -> str | None:
    """Recorded digest of a plan, if any."""
    uid = workspace.repo_uid
    query = select(plans.c.digest).where(plans.c.repo_uid == uid, plans.c.run_id == run_id)
    with workspace.database.read() as connection:
        digest: str | None = connection.execute(query).scalar()
    return digest
