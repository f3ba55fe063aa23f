"""``reclaim rm``: delete objects on a branch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, TypedDict

import typer

from reclaim.cli.command import YesOption, command
from reclaim.cli.options.places import below, parse_folder, parse_object, single
from reclaim.cli.session import Session
from reclaim.cli.views.describe import objects
from reclaim.cli.views.output import Done

TOGETHER = 1_000


class DeletedDocument(TypedDict):
    """Deleted paths on a branch."""

    repository: str
    branch: str
    deleted: Sequence[str]


def register(app: typer.Typer) -> None:
    command(app, "rm", rm)


def rm(
    session: Session,
    target: Annotated[str, typer.Argument(metavar="REPO/BRANCH/PATH", show_default=False)],
    recursive: Annotated[
        bool, typer.Option("--recursive", "-r", help="Delete everything below PATH.")
    ] = False,
    yes: YesOption = False,
) -> None:
    """Delete an object on a branch. It stays in earlier commits."""
    place = parse_folder(target) if recursive else parse_object(target)
    with session.open() as catalog:
        branch = catalog.repository(place.repository).branch(place.ref)
        if recursive:
            paths = [place.path + path for path in below(branch, place.path)]
            if not place.path:
                session.confirm(f"delete all {len(paths)} objects on {place.ref}", yes=yes)
            for start in range(0, len(paths), TOGETHER):
                branch.delete_many(paths[start : start + TOGETHER])
        else:
            paths = [place.path]
            with single(branch, place.path):
                branch.delete(place.path)
    deleted = objects(len(paths)) if recursive else place.path
    session.output.answer(
        Done(
            f"Deleted {deleted} on {place.ref}.",
            DeletedDocument(repository=place.repository, branch=place.ref, deleted=paths),
        )
    )
