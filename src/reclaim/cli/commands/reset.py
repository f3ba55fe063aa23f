"""``reclaim reset``: discard uncommitted changes, or move a branch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from reclaim.cli.command import command
from reclaim.cli.options.places import parse_object, parse_ref_name
from reclaim.cli.session import Session
from reclaim.cli.views.documents import Id
from reclaim.cli.views.output import Done
from reclaim.errors import InvalidInput
from reclaim.ids import SHORT

if TYPE_CHECKING:
    from reclaim.catalog import Branch


class ResetDocument(TypedDict):
    """A reset branch."""

    repository: str
    branch: str
    commit: Id | None
    """With --to: new commit of the branch."""
    path: str | None
    prefix: str | None
    changes: int | None
    """With --prefix."""


def register(app: typer.Typer) -> None:
    command(app, "reset", reset)


def reset(
    session: Session,
    target: Annotated[
        str,
        typer.Argument(
            metavar="REPO/BRANCH[/PATH]", help="With PATH: path of the object.", show_default=False
        ),
    ],
    prefix: Annotated[
        str | None,
        typer.Option("--prefix", metavar="P", help="Only the changes below this prefix."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="REF", help="Also move the branch to this commit."),
    ] = None,
) -> None:
    """Discard uncommitted changes for good."""
    place = parse_object(target)
    if sum((bool(place.path), prefix is not None, to is not None)) > 1:
        raise InvalidInput("PATH, --prefix and --to exclude each other", hint="give one of them")
    with session.open() as catalog:
        branch = catalog.repository(place.repository).branch(place.ref)
        if to is not None:
            commit = branch.reset_to(parse_ref_name(to))
            done = Done(
                f"Moved {place.ref} to {commit.id[:SHORT]}; no uncommitted changes are left.",
                _facts(place.repository, place.ref, commit=commit.id),
            )
        else:
            done = _reset(branch, place.repository, place.path, prefix)
    session.output.answer(done)


def _reset(branch: Branch, repository: str, path: str, prefix: str | None) -> Done:
    if path:
        branch.reset_path(path)
        facts = _facts(repository, branch.name, path=path)
        return Done(f"Reset {path} on {branch.name}.", facts)
    if prefix is not None:
        changes = branch.reset_prefix(prefix)
        return Done(
            f"Reset {changes} changes below {prefix} on {branch.name}.",
            _facts(repository, branch.name, prefix=prefix, changes=changes),
        )
    branch.reset()
    facts = _facts(repository, branch.name)
    return Done(f"Reset {branch.name}: no uncommitted changes are left.", facts)


def _facts(
    repository: str,
    branch: str,
    *,
    commit: str | None = None,
    path: str | None = None,
    prefix: str | None = None,
    changes: int | None = None,
) -> ResetDocument:
    """Return the fields of a reset; fields of other forms are null."""
    return {
        "repository": repository,
        "branch": branch,
        "commit": commit,
        "path": path,
        "prefix": prefix,
        "changes": changes,
    }
