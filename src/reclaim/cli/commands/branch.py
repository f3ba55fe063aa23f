"""``reclaim branch``: the branches of a repository."""

from __future__ import annotations

from typing import Annotated

import typer

from reclaim.cli.command import YesOption, command, group
from reclaim.cli.commands.repo import RepositoryArgument
from reclaim.cli.options.places import parse_ref, parse_ref_name, parse_repository
from reclaim.cli.session import Session
from reclaim.cli.views.documents import RefCreated, RefDeleted
from reclaim.cli.views.output import Done
from reclaim.cli.views.refs import Refs
from reclaim.errors import InvalidInput
from reclaim.ids import SHORT

NameArgument = Annotated[str, typer.Argument(metavar="REPO/NAME", show_default=False)]


def register(app: typer.Typer) -> None:
    branch = group(app, "branch", "Create, list and delete branches.")
    command(branch, "create", create)
    command(branch, "list", list_)
    command(branch, "delete", delete)


def create(
    session: Session,
    name: NameArgument,
    ref: Annotated[
        str | None,
        typer.Argument(
            metavar="REF", help="Where it starts. Default: the default branch.", show_default=False
        ),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="REF", help="Same as REF.", show_default=False),
    ] = None,
) -> None:
    """Create a branch at a commit. A slash in its name is written %2F."""
    if ref is not None and source is not None:
        raise InvalidInput("REF and --from exclude each other", hint="give one of them")
    place = parse_ref(name)
    with session.open() as catalog:
        repo = catalog.repository(place.repository)
        origin = ref or source
        repo.create_branch(place.ref, None if origin is None else parse_ref_name(origin))
        commit = repo.commit(place.ref).id
    session.output.answer(
        Done(
            f"Created branch {place.ref} at {commit[:SHORT]}.",
            RefCreated(repository=place.repository, name=place.ref, commit=commit),
        )
    )


def list_(session: Session, repository: RepositoryArgument) -> None:
    """List the branches of a repository."""
    with session.open() as catalog:
        branches = catalog.repository(parse_repository(repository)).branches()
    session.output.answer(Refs(branches))


def delete(session: Session, name: NameArgument, yes: YesOption = False) -> None:
    """Delete a branch. Asks first if it has uncommitted changes."""
    place = parse_ref(name)
    with session.open() as catalog:
        repo = catalog.repository(place.repository)
        if next(repo.branch(place.ref).uncommitted(), None) is not None:
            session.confirm(f"delete {place.ref} with its uncommitted changes", yes=yes)
        repo.delete_branch(place.ref)
    session.output.answer(
        Done(
            f"Deleted the branch {place.ref}.",
            RefDeleted(repository=place.repository, deleted=place.ref),
        )
    )
