"""``reclaim undo``: the way back from an expiration, or from a run that set objects aside."""

from __future__ import annotations

from typing import Annotated

import typer

from reclaim.cli.command import command
from reclaim.cli.describe import commits, objects, size
from reclaim.cli.output import Done
from reclaim.cli.running import RunOptions
from reclaim.cli.session import Session


def register(app: typer.Typer) -> None:
    command(app, "undo", undo)


def undo(
    session: Session,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Its id.", show_default=False)],
    running: RunOptions,
) -> None:
    """Take a run back: an expiration, or an apply with --quarantine. Again, to finish the rest."""
    from reclaim.catalog.undoing import EXPIRE
    from reclaim.run.undo import check_undo, undo_run
    from reclaim.stores.find import find

    with session.open() as catalog:
        repository = catalog.repository_of_run(run)
        found = next(one for one in repository.runs() if one.id == run)
        if found.kind == EXPIRE:
            left = repository.undo(run)
            said, told = f"Undid run {run}.", {"run": run, "left": left}
        else:
            check_undo(found)
            store = find(catalog, repository.uid)
            with running.watched() as watcher:
                done = undo_run(store, running.engine(watcher), run, watcher=watcher)
            left = list(done.left)
            told = {"run": run, **done.summary()}
            what = f"{objects(done.objects)} ({size(done.bytes)}) and {commits(done.snapshots)}"
            said = f"Undid run {run}: brought back {what}."
    if left:
        said += "\nChanged since, and left as it is: " + "; ".join(left) + "."
    session.output.answer(Done(said, told))
