"""``reclaim repo``: the repositories of a catalog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reclaim.cli.command import YesOption, command, group
from reclaim.cli.describe import instant
from reclaim.cli.output import Block, Done, Table
from reclaim.cli.places import parse_repository
from reclaim.cli.session import Session

if TYPE_CHECKING:
    from reclaim.catalog import RepositoryInfo

RepositoryArgument = Annotated[str, typer.Argument(metavar="REPO", show_default=False)]
AnyRepositoryArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="REPO", help="By default all of them, deleted ones too.", show_default=False
    ),
]


def register(app: typer.Typer) -> None:
    repo = group(app, "repo", "Create, list and delete repositories.")
    command(repo, "create", create)
    command(repo, "list", list_)
    command(repo, "delete", delete)


@dataclass(frozen=True, slots=True)
class Repositories:
    """The answer that lists repositories."""

    repositories: Sequence[RepositoryInfo]

    def document(self) -> Mapping[str, Any]:
        return {
            "repositories": [
                {
                    "name": info.name,
                    "uid": info.uid,
                    "default_branch": info.default_branch,
                    "created_at": info.created_at,
                }
                for info in self.repositories
            ]
        }

    def view(self) -> Iterable[Block]:
        if not self.repositories:
            return ["There is no repository yet. Create one with `reclaim repo create NAME`."]
        rows = (
            (info.name, info.default_branch, instant(info.created_at)) for info in self.repositories
        )
        return [Table(("repository", "default branch", "created (UTC)"), rows)]


def create(
    session: Session,
    name: RepositoryArgument,
    default_branch: Annotated[
        str, typer.Option("--default-branch", metavar="NAME", help="Its first branch.")
    ] = "main",
) -> None:
    """Make a repository with an empty first commit."""
    with session.open() as catalog:
        repo = catalog.create_repository(name, default_branch=default_branch)
        facts = {
            "name": repo.name,
            "uid": repo.uid,
            "default_branch": repo.default_branch,
            "created_at": repo.created_at,
        }
    session.output.answer(Done(f"Created repository {name} with branch {default_branch}.", facts))


def list_(session: Session) -> None:
    """List the repositories."""
    with session.open() as catalog:
        repositories = catalog.repositories()
    session.output.answer(Repositories(repositories))


def delete(session: Session, name: RepositoryArgument, yes: YesOption = False) -> None:
    """Delete a repository with all its history. Its bytes stay until they are collected."""
    repository = parse_repository(name)
    with session.open() as catalog:
        catalog.repository(repository)
        session.confirm(f"delete the repository {repository} with all its history", yes=yes)
        catalog.delete_repository(repository)
    session.output.answer(
        Done(
            f"Deleted the repository {repository}. Its bytes stay until they are collected.",
            {"deleted": repository},
        )
    )
