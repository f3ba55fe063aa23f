"""``reclaim undo``: take back an expiration, or a run with quarantine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from reclaim.cli.command import command
from reclaim.cli.describe import objects, size, snapshots
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
    """Take a run back: an expiration, or an apply with --quarantine. Safe to run again."""
    from reclaim.catalog.collection.taking_back import EXPIRE
    from reclaim.run.undo_edit import stopped_early

    if store is not None:
        with session.stores(store) as [foreign]:
            done, noun = _bring_back(foreign, run, running), foreign.noun
    else:
        with session.open() as catalog:
            repository = catalog.repository_of_run(run)
            record = next(listed for listed in repository.runs() if listed.id == run)
            if record.kind == EXPIRE or stopped_early(record):
                left = _undo_history(session, repository, record)
                said = f"Undid run {run}.{_left(left)}"
                session.output.answer(Done(said, {"run": run, "left": list(left)}))
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


def _bring_back(store: Store, run: str, running: RunOptions) -> Undone:
    from reclaim.run.undo import check_undo, undo_run

    record = store.find_run(run)
    if record is None:
        raise NotFound(f"there is no run {run} of {store.name}", hint="see `reclaim runs`")
    check_undo(record)
    with running.watched() as watcher:
        return undo_run(store, running.engine(watcher), run, watcher=watcher)


def _left(names: Sequence[str]) -> str:
    return "\nChanged since, and left as it is: " + "; ".join(names) + "." if names else ""
