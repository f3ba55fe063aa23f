"""``reclaim init``: make a catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from reclaim.cli.command import command
from reclaim.cli.output import Done
from reclaim.cli.session import DEFAULT_CATALOG, Session
from reclaim.errors import InvalidInput


def register(app: typer.Typer) -> None:
    command(app, "init", init)


def init(
    session: Session,
    folder: Annotated[
        str | None,
        typer.Argument(metavar="DIR", help="Where to make it.", show_default=False),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where the objects go. Default: beside the database."),
    ] = None,
) -> None:
    """Make a new catalog: a database and a place for objects."""
    from reclaim.catalog import Catalog

    if folder is not None and session.named:
        raise InvalidInput("DIR and --catalog both name the catalog", hint="give one of them")
    location = session.location if folder is None else folder
    with Catalog.init(location, storage=storage) as catalog:
        facts = {"catalog": _whole(location), "storage": catalog.storage_url}
    sentence = f"Made a catalog at {facts['catalog']}; its objects are in {facts['storage']}."
    if folder is not None and folder != DEFAULT_CATALOG:
        sentence += f"\nTo use it: export RECLAIM_CATALOG={facts['catalog']}"
    session.output.answer(Done(sentence, facts))


def _whole(location: str) -> str:
    return location if "://" in location else str(Path(location).expanduser().absolute())
