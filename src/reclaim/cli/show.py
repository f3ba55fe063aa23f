"""``reclaim show``: a plan again, and the objects in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from reclaim.cli.command import command
from reclaim.cli.describe import size
from reclaim.cli.output import Block, Table
from reclaim.cli.plans import PlanArgument, Summary, find_plan
from reclaim.cli.session import Session

if TYPE_CHECKING:
    from reclaim.engine.tasks.parts import Place
    from reclaim.run.plan_file import PlanDocument

COLUMNS = ("address", "path", "size", "kind", "belongs_to", "last_modified", "reason")


def register(app: typer.Typer) -> None:
    command(app, "show", show)


def show(
    session: Session,
    plan: PlanArgument,
    objects: Annotated[
        bool, typer.Option("--objects", help="List every object that would go.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="With --objects: at most N.", show_default=False),
    ] = None,
) -> None:
    """Show a plan: what would go and why. Needs neither the catalog nor Spark."""
    place, document = find_plan(plan)
    answer = Summary(place, document)
    session.output.answer(ObjectsAnswer(answer, limit) if objects else answer)


@dataclass(frozen=True, slots=True)
class ObjectsAnswer:
    """The answer that lists the objects of a plan, one file after the other."""

    summary: Summary
    limit: int | None

    def document(self) -> Mapping[str, Any]:
        return {**self.summary.document(), "listed": list(self._rows())}

    def view(self) -> Iterable[Block]:
        rows = (
            (size(row["size"]), row["kind"], row["path"] or row["address"], row["reason"])
            for row in self._rows()
        )
        return [Table(("bytes", "kind", "path", "reason"), rows, frozenset({"bytes"}))]

    def _rows(self) -> Iterator[dict[str, Any]]:
        return islice(_rows(self.summary.place, self.summary.plan), self.limit)


def _rows(place: Place, document: PlanDocument) -> Iterator[dict[str, Any]]:
    from reclaim.engine.tasks.parts import open_storage, read_part

    for file in document.files:
        rows = read_part(open_storage(place.url), file.part, COLUMNS)
        shown = rows.rename_columns({"belongs_to": "branch"})
        for batch in shown.to_batches(max_chunksize=10_000):
            yield from batch.to_pylist()
