"""``reclaim runs`` and ``reclaim undo``: what changed the history, and the way back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reclaim.cli.command import command
from reclaim.cli.describe import instant
from reclaim.cli.output import Block, Done, Table
from reclaim.cli.places import parse_repository
from reclaim.cli.repo import RepositoryArgument
from reclaim.cli.session import Session

if TYPE_CHECKING:
    from reclaim.catalog import Run


def register(app: typer.Typer) -> None:
    command(app, "runs", runs)
    command(app, "undo", undo)


@dataclass(frozen=True, slots=True)
class Runs:
    """The answer that lists runs."""

    found: Sequence[Run]

    def document(self) -> Mapping[str, Any]:
        return {
            "runs": [
                {
                    "id": run.id,
                    "kind": run.kind,
                    "state": run.state,
                    "started_at": run.started_at,
                    "summary": dict(run.summary),
                }
                for run in self.found
            ]
        }

    def view(self) -> Iterable[Block]:
        rows = (
            (
                run.id,
                run.kind,
                run.state,
                instant(run.started_at),
                ", ".join(f"{key} {_short(value)}" for key, value in run.summary.items() if value),
            )
            for run in self.found
        )
        return [Table(("run", "kind", "state", "started (UTC)", "what"), rows)]


def _short(value: Any) -> str:
    return " ".join(value) if isinstance(value, list) else json.dumps(value)


def runs(session: Session, repository: RepositoryArgument) -> None:
    """List what changed the history of a repository, the newest first."""
    with session.open() as catalog:
        found = catalog.repository(parse_repository(repository)).runs()
    session.output.answer(Runs(found))


def undo(
    session: Session,
    run: Annotated[str, typer.Argument(metavar="RUN", help="Its id.", show_default=False)],
) -> None:
    """Take an expiration back, as long as nothing that it let go was collected."""
    with session.open() as catalog:
        left = catalog.repository_of_run(run).undo(run)
    sentence = f"Undid run {run}."
    if left:
        sentence += "\nChanged since, and left as it is: " + "; ".join(left) + "."
    session.output.answer(Done(sentence, {"run": run, "left": left}))
