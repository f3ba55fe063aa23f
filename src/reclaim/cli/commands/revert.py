"""``reclaim revert``: revert a commit."""

from __future__ import annotations

from typing import Annotated

import typer

from reclaim.cli.command import CommitterOption, command
from reclaim.cli.options.places import parse_ref
from reclaim.cli.session import Session, login_name
from reclaim.cli.views.describe import commit_document
from reclaim.cli.views.output import Done
from reclaim.ids import SHORT


def register(app: typer.Typer) -> None:
    command(app, "revert", revert)


def revert(
    session: Session,
    branch: Annotated[str, typer.Argument(metavar="REPO/BRANCH", show_default=False)],
    ref: Annotated[
        str, typer.Argument(metavar="COMMIT", help="The commit to undo.", show_default=False)
    ],
    parent: Annotated[
        int | None,
        typer.Option("--parent", min=1, metavar="N", help="For a merge: number of the parent."),
    ] = None,
    message: Annotated[str, typer.Option("--message", "-m", metavar="TEXT")] = "",
    committer: CommitterOption = None,
) -> None:
    """Create a commit that reverts another commit."""
    place = parse_ref(branch)
    with session.open() as catalog:
        made = (
            catalog.repository(place.repository)
            .branch(place.ref)
            .revert(
                ref,
                parent=parent,
                message=message,
                committer=login_name() if committer is None else committer,
            )
        )
    session.output.answer(
        Done(f"Reverted {ref} on {place.ref} as {made.id[:SHORT]}.", commit_document(made))
    )
