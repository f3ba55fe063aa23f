"""Digests of plans, recorded when they are made: write access to the files cannot change these."""

from __future__ import annotations

from sqlalchemy import Connection, delete, insert, select

from reclaim.catalog.database.schema import plans
from reclaim.catalog.workspace import Workspace
from reclaim.clock import to_micros
from reclaim.safety import SAFETY

KEPT = SAFETY.plan_digests


def record_plan(workspace: Workspace, run_id: str, digest: str) -> None:
    """Record the digest of a plan, and forget those of plans that are too old, of any repository.

    One that was recorded is not changed: the same plan is not made twice.
    """
    now = workspace.clock.now()
    values = {"run_id": run_id, "repo_uid": workspace.repo_uid, "digest": digest}

    def work(connection: Connection) -> None:
        connection.execute(delete(plans).where(plans.c.made_at < to_micros(now - KEPT)))
        connection.execute(insert(plans).values(made_at=to_micros(now), **values))

    workspace.database.transact(work)


def recorded_plan(workspace: Workspace, run_id: str) -> str | None:
    """The digest that was recorded of a plan, if one was."""
    uid = workspace.repo_uid
    query = select(plans.c.digest).where(plans.c.repo_uid == uid, plans.c.run_id == run_id)
    with workspace.database.read() as connection:
        digest: str | None = connection.execute(query).scalar()
    return digest
