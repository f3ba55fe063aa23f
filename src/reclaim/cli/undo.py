"""``reclaim undo``: take back an expiration, or a run with quarantine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from reclaim.cli.command import command
from reclaim.cli.describe import commits, objects, size, snapshots
from reclaim.cli.output import Done
from reclaim.cli.running import RunOptions
from reclaim.cli.session import Session
from reclaim.errors import NotFound

if TYPE_CHECKING:
    from reclaim.catalog import Repository
    from reclaim.model import Run
    from reclaim.run.undo import Undone
    from reclaim.stores.base import Store


def register(app: typer.Typer) -> None:
    command(app, "undo", undo)


def undo(
    session: Session,
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)],
    running: RunOptions,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="STORE",
            help="The store of the run, if it is not of the catalog: SCHEME:LOCATION.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Take a run back: an expiration, an apply with --quarantine, or the history edit of an apply
    that deleted. Safe to run again."""
    from reclaim.catalog.collection.taking_back import EXPIRE
    from reclaim.run.undo_edit import edits_alone

    if store is not None:
        with session.stores(store) as [foreign]:
            done, noun = _bring_back(foreign, run, running), foreign.noun
    else:
        with session.open() as catalog:
            repository = catalog.repository_of_run(run)
            record = next(listed for listed in repository.runs() if listed.id == run)
            if record.kind == EXPIRE or edits_alone(record):
                left = _undo_history(session, repository, record)
                session.output.answer(_history_answer(record, left))
                return
            with session.stores(repository.uid) as [own]:
                done, noun = _bring_back(own, run, running), own.noun
    what = f"{objects(done.objects)} ({size(done.bytes)}) and {snapshots(done.snapshots, noun)}"
    said = f"Undid run {run}: brought back {what}.{_left(done.left)}"
    session.output.answer(Done(said, {"run": run, **done.summary()}))


def _undo_history(session: Session, repository: Repository, run: Run) -> Sequence[str]:
    """Take back a run that did nothing but edit history; needs no Spark."""
    from reclaim.catalog.collection.taking_back import EXPIRE
    from reclaim.run.undo_edit import undo_edit

    if run.kind == EXPIRE:
        return repository.undo(run.id)
    with session.stores(repository.uid) as [store]:
        return undo_edit(store, run.id)


def _history_answer(run: Run, left: Sequence[str]) -> Done:
    """The answer for a run whose edit of the history was taken back; what it deleted stays so."""
    removed = max(run.summary.get(name, 0) for name in ("condemned", "collected"))
    deleted = {name: run.summary.get(name, 0) for name in ("objects", "bytes")}
    said = f"Undid run {run.id}."
    if removed or deleted["objects"]:
        what = f"{objects(deleted['objects'])} ({size(deleted['bytes'])}) and {commits(removed)}"
        said = (
            f"Took back what run {run.id} edited in the history. What it deleted is gone: {what}."
        )
    facts = {"run": run.id, "left": list(left), "deleted": {**deleted, "commits": removed}}
    return Done(f"{said}{_left(left)}", facts)


def _bring_back(store: Store, run: str, running: RunOptions) -> Undone:
    from reclaim.run.undo import Undone, check_undo, undo_run
    from reclaim.run.undo_edit import edits_alone, undo_edit

    record = store.find_run(run)
    if record is None:
        raise NotFound(f"there is no run {run} of {store.name}", hint="see `reclaim runs`")
    if edits_alone(record):
        return Undone(run, 0, 0, 0, tuple(undo_edit(store, run)))
    check_undo(record)
    with running.watched() as watcher:
        return undo_run(store, running.engine(watcher), run, watcher=watcher)


def _left(names: Sequence[str]) -> str:
    return "\nChanged or gone since, and left as it is: " + "; ".join(names) + "." if names else ""
