"""``reclaim mv``: move objects on a branch."""

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
        bool, typer.Option("--recursive", "-r", help="Move everything below PATH.")
    ] = False,
) -> None:
    """Move an object on a branch. It keeps its creation date."""
    parse = parse_folder if recursive else parse_object
    from_, to = parse(source), parse(target)
    if (from_.repository, from_.ref) != (to.repository, to.ref):
        raise InvalidInput("mv works inside one branch", hint="use `reclaim cp`, then `reclaim rm`")
    with session.open() as catalog:
        branch = catalog.repository(from_.repository).branch(from_.ref)
        if recursive:
            refuse_nesting(from_, to)
            paths = below(branch, from_.path)
            for path in paths:
                branch.move(from_.path + path, to.path + path)
            done = Done(
                f"Moved {objects(len(paths))} on {to.ref}.",
                MovedDocument(
                    repository=to.repository,
                    branch=to.ref,
                    moved=[to.path + path for path in paths],
                ),
            )
        else:
            with single(branch, from_.path):
                entry = branch.move(from_.path, to.path)
            done = Done(f"Moved {from_.path} to {entry.path} on {to.ref}.", entry_document(entry))
    session.output.answer(done)
