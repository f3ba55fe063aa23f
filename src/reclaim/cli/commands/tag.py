"""``reclaim tag``: the tags of a repository."""

from __future__ import annotations

from typing import Annotated

import typer

from reclaim.cli.command import command, group
from reclaim.cli.commands.branch import NameArgument
from reclaim.cli.commands.repo import RepositoryArgument
from reclaim.cli.options.places import parse_ref, parse_ref_name, parse_repository
from reclaim.cli.session import Session
from reclaim.cli.views.documents import RefCreated, RefDeleted
from reclaim.cli.views.output import Done
from reclaim.cli.views.refs import Refs
from reclaim.ids import SHORT


def register(app: typer.Typer) -> None:
    tag = group(app, "tag", "Create, list and delete tags.")
    command(tag, "create", create)
    command(tag, "list", list_)
    command(tag, "delete", delete)


def create(
    session: Session,
    name: NameArgument,
    ref: Annotated[
        str,
        typer.Argument(metavar="REF", help="The commit or ref of the tag.", show_default=False),
    ],
) -> None:
    """Create a tag, a fixed name of a commit. A slash in the name is written %2F."""
    place = parse_ref(name)
    with session.open() as catalog:
        commit = catalog.repository(place.repository).create_tag(place.ref, parse_ref_name(ref)).id
    session.output.answer(
        Done(
            f"Created tag {place.ref} at {commit[:SHORT]}.",
            RefCreated(repository=place.repository, name=place.ref, commit=commit),
        )
    )


def list_(session: Session, repository: RepositoryArgument) -> None:
    """List the tags of a repository."""
    with session.open() as catalog:
        tags = catalog.repository(parse_repository(repository)).tags()
    session.output.answer(Refs(tags))


def delete(session: Session, name: NameArgument) -> None:
    """Delete a tag. Its commit stays until it is collected."""
    place = parse_ref(name)
    with session.open() as catalog:
        catalog.repository(place.repository).delete_tag(place.ref)
    session.output.answer(
        Done(
            f"Deleted the tag {place.ref}.",
            RefDeleted(repository=place.repository, deleted=place.ref),
        )
    )
