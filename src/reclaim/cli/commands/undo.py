"""``reclaim undo``: take back an expiration, or a run with quarantine."""

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
            help="The store of the run, if it is not of the catalog: SCHEME:LOCATION.",
            show_default=False,
            rich_help_panel=LOOK_AT,
        ),
    ] = None,
) -> None:
    """Undo a run: restore its objects and its history.

    Example: reclaim undo latest

    Objects come back from quarantine; those that were deleted for good do not. Of a lifecycle run
    that was cut off, objects that are not deleted yet are released. Safe to run again.
    """
    from reclaim.api.run import Run
    from reclaim.api.store import OpenStore
    from reclaim.stores.registry import find, find_all, find_foreign

    work = running.work()
    foreign = None if store is None else find_foreign(store)
    if foreign is not None:
        own, run = foreign, find_id([foreign], run)
        done = Run.of(OpenStore(own, work), run).undo()
        session.output.answer(UndoAnswer.of(own, done))
        return
    with ExitStack() as opened:
        with _naming_other_stores():
            catalog = opened.enter_context(session.open())
            stores = find_all(catalog) if store is None else [find(catalog, store)]
            run = find_id(list(stores), run)
            own = find(catalog, catalog.repository_of_run(run).uid)
        done = Run.of(OpenStore(own, work), run).undo()
        answer = UndoAnswer.of(own, done)
    session.output.answer(answer)


class DeletedForGood(TypedDict):
    """What a run had deleted for good."""

    objects: int
    bytes: int
    snapshots: int


class HeldSnapshot(TypedDict):
    """A snapshot that a lease holds."""

    snapshot: str
    lease: str
    until: InstantText


class UndoDocument(TypedDict):
    """What came back."""

    run: Id
    store: str
    objects: int
    """Objects that came back; 0 if the run had only edited history."""
    bytes: int
    restored: int
    """Snapshots that came back."""
    left: Sequence[str]
    """What has changed since, and was left as it is."""
    released: int
    """Objects of a lifecycle run that are where they belong and can be used again: of one that was
    cut off all that it had not deleted, of one that could not be brought back whole what was."""
    gone: int
    """Objects that a lifecycle run had deleted for good when it was given up."""
    deleted: DeletedForGood
    """What the run had deleted for good, where only its edit of the history could be taken back."""
    until: datetime | None
    """Until when no run takes what came back, unless the leases of the undo are released; null if
    nothing is held."""
    held: Sequence[HeldSnapshot]
    """Snapshots that came back and that no branch or tag reaches: leases hold them."""


@dataclass(frozen=True, slots=True)
class UndoAnswer:
    """The answer that says what came back."""

    store: str
    noun: str
    done: Undone
    until: datetime | None = None
    """When the hold of what came back ends; None if nothing is held."""
    release: str = ""
    """The command that ends the hold sooner."""

    @classmethod
    def of(cls, store: Store, done: Undone) -> UndoAnswer:
        from reclaim.run.expire.released import find_hold, release_command
        from reclaim.stores.registry import name_of

        until = find_hold(store, done.run)
        release = release_command(name_of(store.kind, store.name, store.uid), done.run)
        return cls(store.name, store.noun, done, until, release)

    @property
    def deleted(self) -> DeletedForGood:
        """Objects, bytes and snapshots that the run deleted for good."""
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
                f"Gave up run {short(done.run)}: {objects(done.released)} that it had not "
                f"deleted can be used again, {objects(done.gone)} are gone for good."
            )
        elif self.done.edited is None:
            what = f"{objects(done.objects)} ({size(done.bytes)})"
            what = f"{what} and {snapshots(done.snapshots, self.noun)}"
            yield f"Undid run {short(done.run)}: brought back {what}."
        elif any(deleted.values()):
            what = f"{objects(deleted['objects'])} ({size(deleted['bytes'])})"
            yield (
                f"Took back what run {short(done.run)} edited in the history. What it deleted is "
                f"gone: {what} and {snapshots(deleted['snapshots'], self.noun)}."
            )
        else:
            yield f"Undid run {short(done.run)}."
        if done.left:
            yield f"Changed or gone since, and left as it is: {'; '.join(done.left)}."
        if done.held:
            yield f"{done.held_until[:1].upper()}{done.held_until[1:]}."
        if self.until is not None:
            yield f"No run takes what came back before {instant(self.until)} UTC."
            yield f"To allow it sooner: {self.release}"


@contextmanager
def _naming_other_stores() -> Iterator[None]:
    """Where the catalog does not know a run, or is not there, the run may be another store's."""
    try:
        yield
    except NotFound as error:
        if OTHER_STORE in (error.hint or ""):
            raise
        hint = f"{error.hint}; {OTHER_STORE}" if error.hint else OTHER_STORE
        raise NotFound(error.message, hint=hint, **error.details) from error
