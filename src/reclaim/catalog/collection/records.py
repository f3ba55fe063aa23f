"""The records of runs: what was done to a repository, when, and with what outcome."""

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
    """Record that a run has started; one that was started before goes on."""

    def work(connection: Connection) -> None:
        lock.assure(connection)
        if find_run(connection, workspace.repo_uid, run.id) is None:
            insert_run(connection, workspace, run)
        else:
            save_run(connection, workspace.repo_uid, run)

    workspace.database.transact(work)


def finish(workspace: Workspace, lock: RepositoryLock, run: RunRecord) -> None:
    """Record how far a run came; not one that lost its lock, for another may have gone on."""

    def work(connection: Connection) -> None:
        lock.assure(connection)
        save_run(connection, workspace.repo_uid, run)

    workspace.database.transact(work)


def add(workspace: Workspace, run: RunRecord) -> None:
    """Record a run that changed nothing."""
    workspace.database.transact(lambda connection: insert_run(connection, workspace, run))


def find(workspace: Workspace, run_id: str) -> RunRecord | None:
    with workspace.database.read() as connection:
        return find_run(connection, workspace.repo_uid, run_id)


def all_runs(workspace: Workspace) -> list[RunRecord]:
    """The runs of a repository, the newest first."""
    with workspace.database.read() as connection:
        return list_runs(connection, workspace.repo_uid)


def insert_run(connection: Connection, workspace: Workspace, run: RunRecord) -> None:
    """Record a run, in the transaction that changes something."""
    connection.execute(
        insert(runs).values(
            id=run.id,
            repo_uid=workspace.repo_uid,
            started_at=to_micros(run.started_at),
            record=_encode(run),
        )
    )


def _encode(run: RunRecord) -> str:
    """A record as text, with the operator who works on the run now."""
    return replace(run, operators=with_current(run.operators)).encode()


def find_run(connection: Connection, repo_uid: str, run_id: str) -> RunRecord | None:
    query = select(runs).where(runs.c.repo_uid == repo_uid, runs.c.id == run_id)
    row = connection.execute(query).first()
    return None if row is None else decode(row)


def save_run(connection: Connection, repo_uid: str, run: RunRecord) -> None:
    """Replace the record of a run, if there is one."""
    own = (runs.c.repo_uid == repo_uid, runs.c.id == run.id)
    values = {"record": _encode(run), "started_at": to_micros(run.started_at)}
    connection.execute(update(runs).where(*own).values(values))


def list_runs(connection: Connection, repo_uid: str) -> list[RunRecord]:
    """The runs of a repository, the newest first."""
    query = select(runs).where(runs.c.repo_uid == repo_uid)
    return [decode(row) for row in connection.execute(query.order_by(runs.c.started_at.desc()))]


def decode(row: Row[Any]) -> RunRecord:
    """The record of a run, of its row."""
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
    """Record the digest of a plan, and forget those of plans that are too old, of any repository.

    One that was recorded is not changed: the same plan is not made twice.
    """
    now = workspace.clock.now()
    too_old = plans.c.made_at < to_micros(now - SAFETY.plan_digests)
    values = {"run_id": run_id, "repo_uid": workspace.repo_uid, "digest": digest}

    def work(connection: Connection) -> None:
        connection.execute(delete(plans).where(too_old))
        connection.execute(insert(plans).values(made_at=to_micros(now), **values))

    workspace.database.transact(work)


def recorded_plan(workspace: Workspace, run_id: str) -> str | None:
    """The digest that was recorded of a plan, if one was."""
    uid = workspace.repo_uid
    query = select(plans.c.digest).where(plans.c.repo_uid == uid, plans.c.run_id == run_id)
    with workspace.database.read() as connection:
        digest: str | None = connection.execute(query).scalar()
    return digest
