"""``reclaim lock``: the lock of a store, held by a single run at a time."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, TypedDict

import typer

from reclaim.cli.command import command, group
from reclaim.cli.options.store_names import STORE
from reclaim.cli.session import Session
from reclaim.cli.views.describe import instant
from reclaim.cli.views.output import Done
from reclaim.ids import short


class LockReleased(TypedDict):
    """The released lock of a store."""

    store: str
    run: str | None
    """Run that held the lock; null without a lock."""
    free_at: datetime | None
    """Start of the next run at the earliest."""


def register(app: typer.Typer) -> None:
    lock = group(app, "lock", "Release the lock of a dead run.")
    command(lock, "release", release)


def release(
    session: Session,
    store: Annotated[str, typer.Argument(metavar="STORE", help=STORE, show_default=False)],
) -> None:
    """Release the lock of a dead run of this machine.

    Refused unless the process with the lock, and all its tasks, have ended on this machine. An
    abandoned lock is free 11 minutes after its last renewal, or 16 in stores outside the catalog.
    """
    with session.stores(store) as [opened]:
        lock = opened.lock_state()
        if lock is None:
            released: LockReleased = {"store": opened.name, "run": None, "free_at": None}
            answer = Done(f"No run holds the lock of {opened.name}.", released)
        else:
            free_at = opened.release_lock(lock)
            released = {"store": opened.name, "run": lock.run, "free_at": free_at}
            answer = Done(
                f"Released the lock of run {short(lock.run)} on {opened.name}: "
                f"{lock.process} has ended. The next run can start at {instant(free_at)} UTC, "
                "when the last requests of that process are over.",
                released,
            )
    session.output.answer(answer)
