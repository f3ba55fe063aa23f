"""``reclaim undo``: undo an expiration, or a run with quarantine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, TypedDict, cast

import typer

from reclaim.cli.command import command
from reclaim.cli.options.panels import LOOK_AT
from reclaim.cli.options.run_names import OTHER_STORE, RUN_HELP, find_id
from reclaim.cli.running import RunOptions
from reclaim.cli.session import Session
from reclaim.cli.views.describe import instant, objects, snapshots
from reclaim.cli.views.documents import Id, InstantText
from reclaim.cli.views.output import Block
from reclaim.errors import NotFound
from reclaim.ids import short
from reclaim.text import size

if TYPE_CHECKING:
    from reclaim.run.undo.undo_run import Undone
    from reclaim.stores.base import Store


def register(app: typer.Typer) -> None:
    command(app, "undo", undo)


def undo(
    session: Session,
    run: Annotated[str, typer.Argument(metavar="RUN", help=RUN_HELP, show_default=False)],
    running: RunOptions,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="STORE",
            help="The store of the run, if it is outside the catalog: SCHEME:LOCATION.",
            show_default=False,
            rich_help_panel=LOOK_AT,
        ),
    ] = None,
) -> None:
    """Undo a run: restore its objects and its history.

    Example: reclaim undo latest

    Objects are restored from quarantine; objects deleted for good are not. For an interrupted
    lifecycle run, objects not deleted yet are released. Safe to run again.
    """
    from reclaim.api.run import Run
    from reclaim.api.store import OpenStore
    from reclaim.stores.registry import find, find_all, find_foreign

    work = running.work()
    foreign = None if store is None else find_foreign(store)
    if foreign is not None:
        opened_store, run = foreign, find_id([foreign], run)
        done = Run.of(OpenStore(opened_store, work), run).undo()
        session.output.answer(UndoAnswer.of(opened_store, done))
        return
    with ExitStack() as opened:
        with _naming_other_stores():
            catalog = opened.enter_context(session.open())
            stores = find_all(catalog) if store is None else [find(catalog, store)]
            run = find_id(list(stores), run)
            opened_store = find(catalog, catalog.repository_of_run(run).uid)
        done = Run.of(OpenStore(opened_store, work), run).undo()
        answer = UndoAnswer.of(opened_store, done)
    session.output.answer(answer)


class DeletedForGood(TypedDict):
    """Counts of objects and snapshots deleted for good."""

    objects: int
    bytes: int
    snapshots: int


class HeldSnapshot(TypedDict):
    """A snapshot held by a lease."""

    snapshot: str
    lease: str
    until: InstantText


class UndoDocument(TypedDict):
    """Result of an undo."""

    run: Id
    store: str
    objects: int
    """Restored objects; 0 if the run had only edited history."""
    bytes: int
    restored: int
    """Restored snapshots."""
    left: Sequence[str]
    """Later changes, left unchanged by the undo."""
    released: int
    """Objects of a lifecycle run released for use: objects not deleted by an interrupted run, or
    objects restored from a partly restorable run."""
    gone: int
    """Objects deleted for good by an abandoned lifecycle run."""
    deleted: DeletedForGood
    """Deleted for good by the run, if only its edit of the history could be undone."""
    until: datetime | None
    """Runs leave restored objects alone until then, unless the leases of the undo are released;
    null without a hold."""
    held: Sequence[HeldSnapshot]
    """Restored snapshots unreachable from branches and tags; leases hold them."""


@dataclass(frozen=True, slots=True)
class UndoAnswer:
    """Answer with the result of an undo."""

    store: str
    noun: str
    done: Undone
    until: datetime | None = None
    """End of the hold on restored objects; None without a hold."""
    release: str = ""
    """Command to end the hold early."""

    @classmethod
    def of(cls, store: Store, done: Undone) -> UndoAnswer:
        from reclaim.run.expire.released import find_hold, release_command
        from reclaim.stores.registry import name_of

        until = find_hold(store, done.run)
        release = release_command(name_of(store.kind, store.name, store.uid), done.run)
        return cls(store.name, store.noun, done, until, release)

    @property
    def deleted(self) -> DeletedForGood:
        """Objects, bytes and snapshots deleted for good by the run."""
        if self.done.edited is None:
            return {"objects": 0, "bytes": 0, "snapshots": 0}
        counts = self.done.edited.counts
        return {
            "objects": counts.objects,
            "bytes": counts.bytes,
            "snapshots": max(counts.condemned, counts.collected),
        }

    def document(self) -> UndoDocument:
        done = {
            "run": self.done.run,
            "store": self.store,
            **self.done.summary(),
            "until": self.until,
            "deleted": self.deleted,
        }
        return cast(UndoDocument, done)

    def view(self) -> Iterator[Block]:
        done, deleted = self.done, self.deleted
        if done.given_up:
            yield (
                f"Gave up run {short(done.run)}: released {objects(done.released)} not deleted "
                f"yet; {objects(done.gone)} are deleted for good."
            )
        elif self.done.edited is None:
            amount = f"{objects(done.objects)} ({size(done.bytes)})"
            amount = f"{amount} and {snapshots(done.snapshots, self.noun)}"
            yield f"Undid run {short(done.run)}: restored {amount}."
        elif any(deleted.values()):
            amount = f"{objects(deleted['objects'])} ({size(deleted['bytes'])})"
            yield (
                f"Undid the history edit of run {short(done.run)}. Deleted for good: "
                f"{amount} and {snapshots(deleted['snapshots'], self.noun)}."
            )
        else:
            yield f"Undid run {short(done.run)}."
        if done.left:
            yield f"Changed or gone since, left unchanged: {'; '.join(done.left)}."
        if done.held:
            yield f"{done.held_until[:1].upper()}{done.held_until[1:]}."
        if self.until is not None:
            yield f"No run deletes the restored data before {instant(self.until)} UTC."
            yield f"To end this hold: {self.release}"


@contextmanager
def _naming_other_stores() -> Iterator[None]:
    """Add a hint to a missing run or catalog: the run may be of another store."""
    try:
        yield
    except NotFound as error:
        if OTHER_STORE in (error.hint or ""):
            raise
        hint = f"{error.hint}; {OTHER_STORE}" if error.hint else OTHER_STORE
        raise NotFound(error.message, hint=hint, **error.details) from error
