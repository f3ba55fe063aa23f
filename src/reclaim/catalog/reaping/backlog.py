"""Backlog of the reaper, and the number of objects it has deleted so far."""

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
"""Maximum age of a condemned object while a reaper is running."""


@dataclass(frozen=True, slots=True)
class Backlog:
    """Condemned objects of a repository past their margin, and totals of all deletions."""

    due: int
    oldest: datetime | None
    """Time at which the oldest of them was condemned."""
    objects: int
    bytes: int
    last_at: datetime | None
    """Time of the reaper's last deletion."""

    def behind(self, now: datetime) -> timedelta:
        """How long the oldest object has been overdue."""
        return now - self.oldest - MARGIN if self.oldest else timedelta(0)

    def is_late(self, now: datetime) -> bool:
        """Whether an object remains past the time at which a running reaper deletes it."""
        return self.oldest is not None and now - self.oldest > LATE


def promised_until(connection: Connection, repo_uid: str) -> int:
    """Time up to which an undoable run may have moved uploads to quarantine.

    A run quarantines objects present when it was planned, never later ones. The time of
    condemnation is no criterion: the cleaner condemns objects of a reset branch later.
    """
    undoable = (
        to_micros(run.started_at) for run in list_runs(connection, repo_uid) if run.may_quarantine
    )
    return max(undoable, default=0)


def due_rows(repo_uid: str, now: int, promised: int) -> Select[str, int, int | None]:
    """Condemned addresses past their margin, neither owned nor possibly quarantined by a run.

    Oldest first.
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
    """Backlog of a repository."""
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
    """Add recent deletions to the totals."""
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
