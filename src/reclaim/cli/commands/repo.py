"""``reclaim repo``: the repositories of a catalog."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict, cast

import typer

from reclaim.cli.command import YesOption, command, group
from reclaim.cli.options.places import parse_repository
from reclaim.cli.session import Session
from reclaim.cli.views.describe import instant
from reclaim.cli.views.documents import RepositoryDocument
from reclaim.cli.views.output import Block, Done, Table

if TYPE_CHECKING:
    from reclaim.catalog import Repository, RepositoryInfo

RepositoryArgument = Annotated[str, typer.Argument(metavar="REPO", show_default=False)]
AnyRepositoryArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="REPO",
        help="Default: all, including deleted ones.",
        show_default=False,
    ),
]


class RepositoriesDocument(TypedDict):
    """The repositories of a catalog."""

    repositories: Sequence[RepositoryDocument]


class SettingWords(TypedDict):
    """The settings of a repository, as words."""

    hard_delete: Literal["on", "off"]
    protect: str
    """Globs with commas between them; empty for none."""


class RepositoryShown(RepositoryDocument):
    """A repository with its settings."""

    settings: SettingWords


class RepositoryDeleted(TypedDict):
    """Name of the deleted repository."""

    deleted: str


def register(app: typer.Typer) -> None:
    repo = group(app, "repo", "Create, list, set up and delete repositories.")
    command(repo, "create", create)
    command(repo, "list", list_)
    command(repo, "show", show)
    command(repo, "set", set_)
    command(repo, "delete", delete)


@dataclass(frozen=True, slots=True)
class Repositories:
    """Answer that lists repositories."""

    repositories: Sequence[RepositoryInfo]

    def document(self) -> RepositoriesDocument:
        return {"repositories": [_document(info) for info in self.repositories]}

    def view(self) -> Iterable[Block]:
        if not self.repositories:
            return ["There is no repository yet. Create one with `reclaim repo create NAME`."]
        rows = (
            (info.name, info.default_branch, instant(info.created_at)) for info in self.repositories
        )
        return [Table(("repository", "default branch", "created (UTC)"), rows)]


def _document(repo: RepositoryInfo | Repository) -> RepositoryDocument:
    return {
        "name": repo.name,
        "uid": repo.uid,
        "default_branch": repo.default_branch,
        "created_at": repo.created_at,
    }


def create(
    session: Session,
    name: RepositoryArgument,
    default_branch: Annotated[
        str, typer.Option("--default-branch", metavar="NAME", help="The first branch.")
    ] = "main",
) -> None:
    """Create a repository with an empty first commit."""
    with session.open() as catalog:
        repo = catalog.create_repository(name, default_branch=default_branch)
        facts = _document(repo)
    session.output.answer(Done(f"Created repository {name} with branch {default_branch}.", facts))


def list_(session: Session) -> None:
    """List the repositories."""
    with session.open() as catalog:
        repositories = catalog.repositories()
    session.output.answer(Repositories(repositories))


@dataclass(frozen=True, slots=True)
class OneRepository:
    """Answer that shows a repository with its settings."""

    name: str
    uid: str
    default_branch: str
    created_at: datetime
    settings: Mapping[str, str]

    @classmethod
    def of(cls, repo: Repository) -> OneRepository:
        settings = repo.settings().words()
        return cls(repo.name, repo.uid, repo.default_branch, repo.created_at, settings)

    def document(self) -> RepositoryShown:
        return {
            "name": self.name,
            "uid": self.uid,
            "default_branch": self.default_branch,
            "created_at": self.created_at,
            "settings": cast(SettingWords, dict(self.settings)),
        }

    def view(self) -> Iterable[Block]:
        rows = [
            ("repository", self.name),
            ("uid", self.uid),
            ("default branch", self.default_branch),
            ("created (UTC)", instant(self.created_at)),
            *self.settings.items(),
        ]
        return [Table(("", ""), rows)]


def show(session: Session, name: RepositoryArgument) -> None:
    """Show a repository and its settings."""
    with session.open() as catalog:
        answer = OneRepository.of(catalog.repository(parse_repository(name)))
    session.output.answer(answer)


def set_(
    session: Session,
    name: RepositoryArgument,
    changes: Annotated[
        list[str],
        typer.Argument(metavar="NAME=VALUE", help="Such as hard_delete=on.", show_default=False),
    ],
) -> None:
    """Change the stored settings of a repository.

    hard_delete=on|off: delete unreferenced, never committed bytes soon, by open catalogs and
    `reclaim reap`. If off, a run deletes them.

    protect=GLOBS: bytes that runs never delete, by comma-separated globs, such as
    protect='raw/*,*.csv'. Globs match addresses and every path an object ever had; * also matches
    /. An empty value protects nothing. It does not keep commits: use a tag or a branch.
    """
    from reclaim.catalog.settings import parse

    pairs = [change.partition("=") for change in changes]
    changed = parse({key: value for key, _, value in pairs})
    if globs := changed.get("protect"):
        from reclaim.globs import check_globs

        check_globs(globs, named="protect")
    with session.open() as catalog:
        repo = catalog.repository(parse_repository(name))
        repo.change_settings(**changed)
        answer = OneRepository.of(repo)
    session.output.answer(answer)


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
            RepositoryDeleted(deleted=repository),
        )
    )
