"""``reclaim mv``: give objects of a branch another path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypedDict

import typer

from reclaim.cli.command import command
from reclaim.cli.options.places import below, parse_folder, parse_object, refuse_nesting, single
from reclaim.cli.session import Session
from reclaim.cli.views.describe import entry_document, objects
from reclaim.cli.views.output import Done
from reclaim.errors import InvalidInput


class MovedDocument(TypedDict):
    """With -r."""

    repository: str
    branch: str
    moved: Sequence[str]


def register(app: typer.Typer) -> None:
    command(app, "mv", mv)


def mv(
    session: Session,
    source: Annotated[str, typer.Argument(metavar="REPO/BRANCH/PATH", show_default=False)],
    target: Annotated[str, typer.Argument(metavar="REPO/BRANCH/PATH", show_default=False)],
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Move all that is below PATH.")
    ] = False,
) -> None:
    """Move an object on a branch; it keeps its creation date."""
    parse = parse_folder if recursive else parse_object
    taken, given = parse(source), parse(target)
    if (taken.repository, taken.ref) != (given.repository, given.ref):
        raise InvalidInput("mv works inside one branch", hint="use `reclaim cp`, then `reclaim rm`")
    with session.open() as catalog:
        branch = catalog.repository(taken.repository).branch(taken.ref)
        if recursive:
            refuse_nesting(taken, given)
            paths = below(branch, taken.path)
            for path in paths:
                branch.move(taken.path + path, given.path + path)
            done = Done(
                f"Moved {objects(len(paths))} on {given.ref}.",
                MovedDocument(
                    repository=given.repository,
                    branch=given.ref,
                    moved=[given.path + path for path in paths],
                ),
            )
        else:
            with single(branch, taken.path):
                entry = branch.move(taken.path, given.path)
            done = Done(
                f"Moved {taken.path} to {entry.path} on {given.ref}.", entry_document(entry)
            )
    session.output.answer(done)
