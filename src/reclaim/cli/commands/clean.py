"""``reclaim clean``: remove rows that nobody reads any more."""

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
    """A repository, and how much was removed of it."""

    name: str
    rows: int
    tokens: int


class CleanedDocument(TypedDict):
    """Each repository that was cleaned."""

    repositories: Sequence[CleanedRepository]


def register(app: typer.Typer) -> None:
    command(app, "clean", clean)


def clean(session: Session, repository: AnyRepositoryArgument = None) -> None:
    """Remove the database rows of changes that were committed or reset. No bytes are deleted."""
    with session.open() as catalog:
        if repository is None:
            cleaned = catalog.clean()
        else:
            name = parse_repository(repository)
            cleaned = {name: catalog.repository(name).clean()}
    rows = sum(counts.rows for counts in cleaned.values())
    session.output.answer(
        Done(
            f"Removed {rows} rows that nobody reads any more.",
            CleanedDocument(
                repositories=[
                    {"name": name, "rows": counts.rows, "tokens": counts.tokens}
                    for name, counts in cleaned.items()
                ]
            ),
        )
    )
