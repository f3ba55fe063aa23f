"""``reclaim reap``: delete unreferenced uploads without a run."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from reclaim.cli.command import command
from reclaim.cli.options.ages import parse_age
from reclaim.cli.session import Session
from reclaim.cli.views.describe import objects
from reclaim.cli.views.output import Block, Table
from reclaim.errors import InvalidInput, Partial
from reclaim.text import size

if TYPE_CHECKING:
    from reclaim.catalog import Backlog, Catalog, Reaped

EVERY = "5min"

log = logging.getLogger(__name__)


def register(app: typer.Typer) -> None:
    command(app, "reap", reap)


class RepositoryReaped(TypedDict):
    """A repository, its deleted objects, and objects still due."""

    name: str
    uid: str
    objects: int
    bytes: int
    failed: int
    rows: int
    """Unused rows removed from the database."""
    due: int
    """Objects due, but not deleted yet."""
    oldest: datetime | None
    """Time of the oldest due object's mark for deletion."""


class ReapDocument(TypedDict):
    """A round: each repository with hard_delete=on."""

    repositories: Sequence[RepositoryReaped]


@dataclass(frozen=True, slots=True)
class Round:
    """Answer of a round: each repository with hard_delete=on, by name."""

    repositories: Sequence[tuple[str, Reaped, Backlog]]
    failures: int
    """Number of repositories with an error."""

    def document(self) -> ReapDocument:
        return {
            "repositories": [
                {
                    "name": name,
                    "uid": done.repo_uid,
                    "objects": done.objects,
                    "bytes": done.bytes,
                    "failed": done.failed,
                    "rows": done.rows,
                    "due": backlog.due,
                    "oldest": backlog.oldest,
                }
                for name, done, backlog in self.repositories
            ]
        }

    def view(self) -> Iterable[Block]:
        if not self.repositories and self.failures:
            return []
        if not self.repositories:
            return [
                "No repository deletes online. To enable it: "
                "`reclaim repo set REPO hard_delete=on`."
            ]
        rows = (
            (
                name,
                f"{objects(done.objects)} ({size(done.bytes)})",
                str(done.failed),
                str(done.rows),
            )
            for name, done, _ in self.repositories
        )
        return [Table(("repository", "deleted", "failed", "rows removed"), rows)]


def reap(
    session: Session,
    once: Annotated[
        bool, typer.Option("--once", help="Go through all repositories once.", show_default=False)
    ] = False,
    every: Annotated[
        str,
        typer.Option("--every", metavar="DURATION", help="Pause between two rounds, such as 5min."),
    ] = EVERY,
) -> None:
    """Delete never committed uploads, without a run.

    Only in repositories with hard_delete=on, 15 minutes after the last staged reference is gone.
    Open catalogs do this too, in the background; several processes may do it at once. Without
    --once it runs until interrupted and answers after every round; errors are logged.
    """
    pause = parse_age("--every", every).total_seconds()
    if pause <= 0:
        raise InvalidInput("--every must be longer than zero", hint="use --once for a single round")
    with session.open() as catalog:
        while not once:
            done, failures = catalog.reap_each()
            session.output.answer(_answer(catalog, done, len(failures)))
            for failure in failures:
                log.error("nothing was deleted: %s", failure)
            time.sleep(pause)
        done, failures = catalog.reap_each()
        answer = _answer(catalog, done, len(failures))
    if failures:
        raise failures[0]
    if failed := sum(reaped.failed for reaped in done):
        raise Partial(
            f"{objects(failed)} could not be deleted",
            hint="-v logs the reasons; the next round tries them again",
            **answer.document(),
        )
    session.output.answer(answer)


def _answer(catalog: Catalog, done: Sequence[Reaped], failures: int) -> Round:
    names = {workspace.repo_uid: workspace.name for workspace in catalog.workspaces()}
    return Round(
        [(names[reaped.repo_uid], reaped, catalog.backlog(reaped.repo_uid)) for reaped in done],
        failures,
    )
