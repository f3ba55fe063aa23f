"""``reclaim log``: the history of a ref."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from reclaim.cli.command import command
from reclaim.cli.options.places import parse
from reclaim.cli.session import Session
from reclaim.cli.views.describe import commit_document, first_line, instant
from reclaim.cli.views.documents import CommitDocument
from reclaim.cli.views.output import Block, Table
from reclaim.errors import InvalidInput
from reclaim.ids import SHORT

if TYPE_CHECKING:
    from reclaim.catalog import Commit


class CommitsDocument(TypedDict):
    """Commits, the newest first."""

    commits: Sequence[CommitDocument]


def register(app: typer.Typer) -> None:
    command(app, "log", log)


@dataclass(frozen=True, slots=True)
class LogAnswer:
    """Answer that lists commits."""

    commits: Sequence[Commit]
    oneline: bool = False

    def document(self) -> CommitsDocument:
        return {"commits": [commit_document(commit) for commit in self.commits]}

    def view(self) -> Iterator[Block]:
        if self.oneline:
            rows = (
                (commit.id[:SHORT], instant(commit.written_at), first_line(commit.message))
                for commit in self.commits
            )
            yield Table(("commit", "written (UTC)", "message"), rows)
            return
        for number, commit in enumerate(self.commits):
            yield ("\n" if number else "") + _paragraph(commit)


def _paragraph(commit: Commit) -> str:
    lines = [f"commit {commit.id}"]
    if len(commit.parents) > 1:
        lines.append("Merge:  " + " ".join(parent[:SHORT] for parent in commit.parents))
    if commit.committer:
        lines.append(f"Author: {commit.committer}")
    lines.append(f"Date:   {instant(commit.written_at)} UTC")
    lines += [f"Meta:   {key}={value}" for key, value in sorted(commit.metadata.items())]
    if commit.marked:
        lines.append("Marked: an expiration replaced or dropped parents")
    lines += ["", *(f"    {line}" for line in commit.message.split("\n"))]
    return "\n".join(lines)


def log(
    session: Session,
    place: Annotated[
        str,
        typer.Argument(
            metavar="REPO[/REF]", help="Default: the default branch.", show_default=False
        ),
    ],
    path: Annotated[
        str | None,
        typer.Argument(
            metavar="PATH",
            help="Only commits with changes to this object, or to this folder with a / at the end.",
            show_default=False,
        ),
    ] = None,
    number: Annotated[
        int | None,
        typer.Option("--number", "-n", min=1, metavar="N", help="At most N commits."),
    ] = None,
    first_parent: Annotated[
        bool, typer.Option("--first-parent", help="Follow only the first parent of a merge.")
    ] = False,
    oneline: Annotated[bool, typer.Option("--oneline", help="A line for each commit.")] = False,
) -> None:
    """Show the history of a ref, newest first.

    Example: reclaim log sales/main orders/

    Changes of a commit are relative to its first parent, even for a merge.
    """
    where = parse(place)
    if where.path:
        raise InvalidInput(
            f"{place!r} names a path",
            hint="write a space before the path: "
            f"reclaim log {place.removesuffix('/' + where.path)} {shlex.quote(where.path)}; "
            "a slash inside a ref is written %2F",
        )
    with session.open() as catalog:
        commits = catalog.repository(where.repository).log(
            where.ref or None, path=path or "", first_parent=first_parent, limit=number
        )
    session.output.answer(LogAnswer(commits, oneline))
