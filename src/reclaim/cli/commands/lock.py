"""``reclaim lock``: the lock by which one run at a time changes a store."""

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
    """The lock of a store that was released."""

    store: str
    run: str | None
    """The run that held the lock; null if no run did."""
    free_at: datetime | None
    """When the next run can start."""


def register(app: typer.Typer) -> None:
    lock = group(app, "lock", "Release the lock of a run that has died.")
    command(lock, "release", release)


def release(
    session: Session,
    store: Annotated[str, typer.Argument(metavar="STORE", help=STORE, show_default=False)],
) -> None:
    """Release the lock of a run that died on this machine.

    Refused unless this machine shows that the process which took the lock, and all tasks that it
    started, have ended. Without a release a lock is free 11 minutes after its last renewal, or 16
    in stores outside the catalog.
    """
    with session.stores(store) as [opened]:
        seen = opened.lock_state()
        if seen is None:
            released: LockReleased = {"store": opened.name, "run": None, "free_at": None}
            answer = Done(f"No run holds the lock of {opened.name}.", released)
        else:
            free_at = opened.release_lock(seen)
            released = {"store": opened.name, "run": seen.run, "free_at": free_at}
            answer = Done(
                f"Released the lock of run {short(seen.run)} on {opened.name}: "
                f"{seen.process} has ended. The next run can start at {instant(free_at)} UTC, "
                "when the last requests of that process are over.",
                released,
            )
    session.output.answer(answer)
