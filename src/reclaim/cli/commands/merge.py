"""``reclaim merge``: merge the commits of a ref into a branch."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

import typer

from reclaim.cli.command import CommitterOption, MetaOption, command
from reclaim.cli.options.places import parse_ref, parse_ref_name
from reclaim.cli.session import Session, login_name, parse_metadata
from reclaim.cli.views.describe import commit_document
from reclaim.cli.views.documents import CommitDocument
from reclaim.cli.views.output import Done
from reclaim.ids import SHORT


class MergeDocument(TypedDict):
    """A merge into a branch."""

    merged: bool
    """False if the branch was up to date."""
    commit: CommitDocument


def register(app: typer.Typer) -> None:
    command(app, "merge", merge)


def merge(
    session: Session,
    source: Annotated[str, typer.Argument(metavar="REPO/SOURCE", show_default=False)],
    into: Annotated[
        str,
        typer.Option(
            "--into", metavar="BRANCH", help="The branch to merge into.", show_default=False
        ),
    ],
    prefer: Annotated[
        Literal["source", "target"] | None,
        typer.Option("--prefer", help="The side to prefer for paths changed on both."),
    ] = None,
    message: Annotated[str, typer.Option("--message", "-m", metavar="TEXT")] = "",
    meta: MetaOption = None,
    committer: CommitterOption = None,
) -> None:
    """Merge a ref into a branch of the same repository."""
    from reclaim.catalog import Side

    place, into = parse_ref(source), parse_ref_name(into)
    with session.open() as catalog:
        repo = catalog.repository(place.repository)
        head = repo.commit(into).id
        made = repo.branch(into).merge(
            place.ref,
            message=message,
            committer=login_name() if committer is None else committer,
            prefer=Side(prefer) if prefer else None,
            metadata=parse_metadata(meta or []),
        )
    merged = made.id != head
    sentence = (
        f"Merged {place.ref} into {into} as {made.id[:SHORT]}."
        if merged
        else f"{into} is already up to date with {place.ref}."
    )
    session.output.answer(
        Done(sentence, MergeDocument(merged=merged, commit=commit_document(made)))
    )
