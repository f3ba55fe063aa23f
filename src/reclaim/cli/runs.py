"""``reclaim runs`` and ``reclaim undo``: what was done to repositories, and the way back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reclaim.cli.command import command
from reclaim.cli.describe import instant, objects, size
from reclaim.cli.output import Block, Done, Table
from reclaim.cli.places import parse_repository
from reclaim.cli.repo import AnyRepositoryArgument
from reclaim.cli.session import Session

if TYPE_CHECKING:
    from reclaim.catalog import Run


def register(app: typer.Typer) -> None:
    command(app, "runs", runs)
    command(app, "undo", undo)


@dataclass(frozen=True, slots=True)
class Runs:
    """The answer that lists runs, by repository."""

    found: Sequence[tuple[str, Run]]
    named: bool
    """Whether all are of one repository, which was named."""

    def document(self) -> Mapping[str, Any]:
        return {
            "runs": [
                {
                    "id": run.id,
                    "repository": repository,
                    "kind": run.kind,
                    "state": run.state,
                    "started_at": run.started_at,
                    "summary": dict(run.summary),
                    "plan": run.place or None,
                }
                for repository, run in self.found
            ]
        }

    def view(self) -> Iterable[Block]:
        rows = (
            (
                run.id,
                *([] if self.named else [repository]),
                run.kind,
                run.state,
                instant(run.started_at),
                _what(run),
            )
            for repository, run in self.found
        )
        names = [] if self.named else ["repository"]
        return [Table(("run", *names, "kind", "state", "started (UTC)", "what"), rows)]


def _what(run: Run) -> str:
    done = run.summary
    if run.kind != "collect":
        return ", ".join(f"{key} {_short(value)}" for key, value in done.items() if value)
    if not done:
        return "not finished: apply it again" if run.state == "started" else ""
    if not any(done.values()):
        return "nothing to collect"
    said = f"deleted {objects(done.get('objects', 0))} ({size(done.get('bytes', 0))})"
    others = ("failed", "dropped", "collected")
    return ", ".join([said, *(f"{name} {done[name]}" for name in others if done.get(name))])


def _short(value: Any) -> str:
    return " ".join(value) if isinstance(value, list) else json.dumps(value)


def runs(session: Session, repository: AnyRepositoryArgument = None) -> None:
    """List what changed history or deleted bytes, the newest first."""
    with session.open() as catalog:
        if repository is None:
            stores = catalog.collectable()
        else:
            stores = [catalog.collecting(parse_repository(repository))]
        found = [(store.name, run) for store in stores for run in store.runs()]
    found.sort(key=lambda one: one[1].started_at, reverse=True)
    session.output.answer(Runs(found, repository is not None))


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
