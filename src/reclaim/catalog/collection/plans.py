"""What plans hashed to when they were made: whoever can change their files cannot change this."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Connection, delete, insert, select

from reclaim.catalog.database.schema import plans
from reclaim.clock import to_micros

KEPT = timedelta(days=31)
"""A little longer than the files of a plan."""


def note_plan(
    connection: Connection, repo_uid: str, run_id: str, digest: str, now: datetime
) -> None:
    """Note the digest of a plan, and forget those of plans that are too old, of any repository."""
    connection.execute(delete(plans).where(plans.c.made_at < to_micros(now - KEPT)))
    connection.execute(
        insert(plans).values(
            run_id=run_id, repo_uid=repo_uid, digest=digest, made_at=to_micros(now)
        )
    )


def noted_plan(connection: Connection, repo_uid: str, run_id: str) -> str | None:
    """The digest that was noted of a plan, if one was."""
    query = select(plans.c.digest).where(plans.c.repo_uid == repo_uid, plans.c.run_id == run_id)
    digest: str | None = connection.execute(query).scalar()
    return digest
