"""The backlog of the reaper, and the number of objects that it has deleted so far."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, Select, func, insert, select, update

from reclaim.catalog.collection.records import list_runs
from reclaim.catalog.database.schema import LedgerState, ledger, reaped
from reclaim.clock import MICROSECOND, from_micros, to_micros
from reclaim.safety import SAFETY

MARGIN = SAFETY.reap_margin
LATE = MARGIN + 2 * SAFETY.reap_interval
"""No condemned object is there for longer, where a reaper is at work."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Condemned objects of a repository whose margin is over, and totals of all that went."""

    due: int
    oldest: datetime | None
    """When the oldest of them was condemned."""
    objects: int
    bytes: int
    last_at: datetime | None
    """When the reaper deleted something last."""

    def behind(self, now: datetime) -> timedelta:
        """For how long the oldest one has been due."""
        return now - self.oldest - MARGIN if self.oldest else timedelta(0)

    def is_late(self, now: datetime) -> bool:
        """Whether something is there that a reaper would have deleted by now."""
        return self.oldest is not None and now - self.oldest > LATE


def promised_until(connection: Connection, repo_uid: str) -> int:
    """The instant up to which uploads may have been set aside by a run that can be undone.

    A run sets aside what was there when it was planned, and nothing later. When something was
    condemned says nothing: of a reset branch the cleaner does it, later.
    """
    undoable = (
        to_micros(run.started_at) for run in list_runs(connection, repo_uid) if run.may_quarantine
    )
    return max(undoable, default=0)


def due_rows(repo_uid: str, now: int, promised: int) -> Select[str, int, int | None]:
    """Condemned addresses that no run owns or may have set aside, and whose margin is over.

    The oldest come first.
    """
    return (
        select(ledger.c.address, ledger.c.condemned_at, ledger.c.size)
        .where(
            ledger.c.repo_uid == repo_uid,
            ledger.c.state == LedgerState.CONDEMNED,
            ledger.c.run_id.is_(None),
            ledger.c.condemned_at <= now - MARGIN // MICROSECOND,
            ledger.c.created_at > promised,
        )
        .order_by(ledger.c.condemned_at, ledger.c.address)
    )


def read_backlog(connection: Connection, repo_uid: str, now: int) -> Backlog:
    """The backlog of a repository."""
    promised = promised_until(connection, repo_uid)
    waiting = due_rows(repo_uid, now, promised).order_by(None).subquery()
    count = select(func.count(), func.min(waiting.c.condemned_at)).select_from(waiting)
    due, oldest = connection.execute(count).one()
    done = connection.execute(select(reaped).where(reaped.c.repo_uid == repo_uid)).first()
    return Backlog(
        due,
        None if oldest is None else from_micros(oldest),
        done.objects if done else 0,
        done.bytes if done else 0,
        from_micros(done.last_at) if done else None,
    )


def add_reaped(connection: Connection, repo_uid: str, objects: int, size: int, now: int) -> None:
    """Count what was deleted just now."""
    more = (
        update(reaped)
        .where(reaped.c.repo_uid == repo_uid)
        .values(objects=reaped.c.objects + objects, bytes=reaped.c.bytes + size, last_at=now)
    )
    if not connection.execute(more).rowcount:
        connection.execute(
            insert(reaped).values(
                repo_uid=repo_uid, objects=objects, bytes=size, first_at=now, last_at=now
            )
        )
