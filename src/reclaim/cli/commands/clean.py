"""``reclaim clean``: remove unused rows of the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

import typer

from reclaim.cli.command import command
from reclaim.cli.commands.repo import AnyRepositoryArgument
from reclaim.cli.options.places import parse_repository
from reclaim.cli.session import Session
from reclaim.cli.views.output import Done


class CleanedRepository(TypedDict):
    """A repository, and the number of removed rows."""

    name: str
    rows: int
    tokens: int


class CleanedDocument(TypedDict):
    """Cleaned repositories."""

    repositories: Sequence[CleanedRepository]


def register(app: typer.Typer) -> None:
    command(app, "clean", clean)


def clean(session: Session, repository: AnyRepositoryArgument = None) -> None:
    """Remove database rows of committed or reset changes. No bytes are deleted."""
    with session.open() as catalog:
        if repository is None:
            cleaned = catalog.clean()
        else:
            name = parse_repository(repository)
            cleaned = {name: catalog.repository(name).clean()}
    rows = sum(counts.rows for counts in cleaned.values())
    session.output.answer(
        Done(
            f"Removed {rows} unused rows.",
            CleanedDocument(
                repositories=[
                    {"name": name, "rows": counts.rows, "tokens": counts.tokens}
                    for name, counts in cleaned.items()
                ]
            ),
        )
    )
