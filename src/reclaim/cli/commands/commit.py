"""``reclaim commit``: commit the uncommitted changes of a branch."""

from __future__ import annotations

from typing import Annotated

import typer

from reclaim.cli.command import CommitterOption, MetaOption, command
from reclaim.cli.options.places import parse_ref
from reclaim.cli.session import Session, login_name, parse_metadata
from reclaim.cli.views.describe import commit_document
from reclaim.cli.views.documents import CommitDocument
from reclaim.cli.views.output import Done
from reclaim.errors import InvalidInput, NothingToCommit
from reclaim.ids import SHORT


class CommitMade(CommitDocument):
    """Newest commit of a branch."""

    changed: bool
    """False with --if-changed without changes; then it is the unchanged head of the branch."""


def register(app: typer.Typer) -> None:
    command(app, "commit", commit)


def commit(
    session: Session,
    branch: Annotated[str, typer.Argument(metavar="REPO/BRANCH", show_default=False)],
    message: Annotated[str, typer.Option("--message", "-m", metavar="TEXT", show_default=False)],
    meta: MetaOption = None,
    allow_empty: Annotated[
        bool, typer.Option("--allow-empty", help="Commit even without changes.")
    ] = False,
    if_changed: Annotated[
        bool,
        typer.Option("--if-changed", help="Exit with code 0 if there is nothing to commit."),
    ] = False,
    committer: CommitterOption = None,
) -> None:
    """Commit the uncommitted changes of a branch."""
    if allow_empty and if_changed:
        raise InvalidInput("--allow-empty and --if-changed exclude each other")
    place = parse_ref(branch)
    metadata = parse_metadata(meta or [])
    with session.open() as catalog:
        repository = catalog.repository(place.repository)
        changed = True
        try:
            made = repository.branch(place.ref).commit(
                message,
                committer=login_name() if committer is None else committer,
                metadata=metadata,
                allow_empty=allow_empty,
            )
        except NothingToCommit:
            if not if_changed:
                raise
            made, changed = repository.commit(place.ref), False
    sentence = f"Committed {made.id[:SHORT]} on {place.ref}."
    if not changed:
        sentence = f"There is nothing to commit on {place.ref}; it stays at {made.id[:SHORT]}."
    session.output.answer(Done(sentence, CommitMade(**commit_document(made), changed=changed)))
