"""The records of runs: what was done to a repository, when, and with what outcome."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Row, insert, select, update

from reclaim.catalog.collection.locks import RepositoryLock
from reclaim.catalog.database.schema import runs
from reclaim.catalog.workspace import Workspace
from reclaim.clock import from_micros, to_micros
from reclaim.model import OPERATORS, Operator, Run, RunState
from reclaim.operators import with_current


def start(workspace: Workspace, lock: RepositoryLock, run: Run) -> None:
    """Record that a run has started; one that was started before goes on."""

    def work(connection: Connection) -> None:
        lock.assure(connection)
        uid = workspace.repo_uid
        if find_run(connection, uid, run.id) is None:
            insert_run(connection, workspace, run)
        else:
            finish_run(connection, uid, run.id, RunState.STARTED, {**run.summary})

    workspace.database.transact(work)


def finish(
    workspace: Workspace,
    lock: RepositoryLock,
    run_id: str,
    state: RunState,
    summary: Mapping[str, Any],
) -> None:
    """Record how far a run came; not one that lost its lock, for another may have gone on."""

    def work(connection: Connection) -> None:
        lock.assure(connection)
        finish_run(connection, workspace.repo_uid, run_id, state, summary)

    workspace.database.transact(work)


def add(workspace: Workspace, run: Run) -> None:
    """Record a run that changed nothing."""
    workspace.database.transact(lambda connection: insert_run(connection, workspace, run))


def find(workspace: Workspace, run_id: str) -> Run | None:
    with workspace.database.read() as connection:
        return find_run(connection, workspace.repo_uid, run_id)


def all_runs(workspace: Workspace) -> list[Run]:
    """The runs of a repository, the newest first."""
    with workspace.database.read() as connection:
        return list_runs(connection, workspace.repo_uid)


def insert_run(connection: Connection, workspace: Workspace, run: Run) -> None:
    """Record a run, in the transaction that changes something."""
    connection.execute(
        insert(runs).values(
            id=run.id,
            repo_uid=workspace.repo_uid,
            kind=run.kind,
            state=run.state,
            started_at=to_micros(run.started_at),
            summary=_encode(run.summary, with_current(run.operators)),
            place=run.place,
        )
    )


def _encode(summary: Mapping[str, Any], operators: tuple[Operator, ...]) -> str:
    listed = [operator.record() for operator in operators]
    return json.dumps({**summary, OPERATORS: listed}, sort_keys=True)


def find_run(connection: Connection, repo_uid: str, run_id: str) -> Run | None:
    query = select(runs).where(runs.c.repo_uid == repo_uid, runs.c.id == run_id)
    row = connection.execute(query).first()
    return None if row is None else decode(row)


def finish_run(
    connection: Connection, repo_uid: str, run_id: str, state: RunState, summary: Mapping[str, Any]
) -> None:
    """Record how far a run came, and who has worked on it."""
    before = find_run(connection, repo_uid, run_id)
    operators = with_current(() if before is None else before.operators)
    connection.execute(
        update(runs)
        .where(runs.c.repo_uid == repo_uid, runs.c.id == run_id)
        .values(state=state, summary=_encode(summary, operators))
    )


def list_runs(connection: Connection, repo_uid: str) -> list[Run]:
    """The runs of a repository, the newest first."""
    query = select(runs).where(runs.c.repo_uid == repo_uid)
    return [decode(row) for row in connection.execute(query.order_by(runs.c.started_at.desc()))]


def decode(row: Row[Any]) -> Run:
    """The record of a run, of its row."""
    started_at = from_micros(row.started_at)
    try:
        summary = json.loads(row.summary)
        operators = Operator.all_of(summary.pop(OPERATORS, ()))
        return Run(row.id, row.kind, row.state, started_at, summary, row.place, operators)
    except ValueError as error:
        # What it set aside, if anything, is not known: nobody takes it for a run that set none.
        damaged = RunState.UNREADABLE
        summary = {
            "error": f"the record of run {row.id} in the database cannot be read: {error}",
            "hint": "restore the database from a backup",
        }
        return Run(row.id, damaged, damaged, started_at, summary)
