"""``reclaim init``: create a catalog."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from reclaim.catalog.location import DEFAULT_CATALOG
from reclaim.cli.command import command
from reclaim.cli.session import Session
from reclaim.cli.views.output import Done
from reclaim.errors import InvalidInput

if TYPE_CHECKING:
    from reclaim.catalog import Catalog


class InitDocument(TypedDict):
    """A created catalog."""

    catalog: str
    storage: str


def register(app: typer.Typer) -> None:
    command(app, "init", init)


def init(
    session: Session,
    folder: Annotated[
        str | None,
        typer.Argument(metavar="DIR", help="Folder of the catalog.", show_default=False),
    ] = None,
    storage: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Storage of the objects. Default: beside the database."),
    ] = None,
) -> None:
    """Create a catalog: a database and a storage for objects."""
    from reclaim.catalog import Catalog

    if folder is not None and session.named:
        raise InvalidInput("DIR and --catalog both name the catalog", hint="leave out --catalog")
    location = session.location if folder is None else folder
    with Catalog.init(location, storage=storage) as catalog:
        facts = InitDocument(catalog=_whole(location, catalog), storage=catalog.storage_url)
    sentence = f"Created a catalog at {facts['catalog']}; its objects are in {facts['storage']}."
    if folder is not None and folder != DEFAULT_CATALOG and "***" not in facts["catalog"]:
        sentence += f"\nTo use it: export RECLAIM_CATALOG={facts['catalog']}"
    session.output.answer(Done(sentence, facts))


def _whole(location: str, catalog: Catalog) -> str:
    """Return the location of the catalog, without a password."""
    if "://" in location:
        return catalog.database_name
    return str(Path(location).expanduser().absolute())
