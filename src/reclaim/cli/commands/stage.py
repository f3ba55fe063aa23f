"""``reclaim stage``: add an external object without a copy."""

from __future__ import annotations

from typing import Annotated

import typer

from reclaim.cli.command import command
from reclaim.cli.options.places import parse_object
from reclaim.cli.session import Session
from reclaim.cli.views.describe import entry_document
from reclaim.cli.views.output import Done
from reclaim.text import size


def register(app: typer.Typer) -> None:
    command(app, "stage", stage)


def stage(
    session: Session,
    target: Annotated[str, typer.Argument(metavar="REPO/BRANCH/PATH", show_default=False)],
    url: Annotated[
        str,
        typer.Argument(
            metavar="URL",
            help="The object, such as s3://bucket/key or file:///folder/file.",
            show_default=False,
        ),
    ],
) -> None:
    """Add an external object to a branch without a copy. Reclaim never deletes it."""
    place = parse_object(target)
    with session.open() as catalog:
        entry = catalog.repository(place.repository).branch(place.ref).stage(place.path, url)
    session.output.answer(
        Done(f"Staged {entry.path} ({size(entry.size)}) on {place.ref}.", entry_document(entry))
    )
