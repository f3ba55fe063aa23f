"""``reclaim show``: a plan, its commits and its objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, NotRequired, TypedDict

import typer

from reclaim.cli.command import command
from reclaim.cli.options.panels import LOOK_AT, OUTPUT
from reclaim.cli.options.plan_argument import PlanArgument, PlanStoreOption, open_to_show
from reclaim.cli.session import Session
from reclaim.cli.views.output import Block, Table
from reclaim.cli.views.plan_export import export
from reclaim.cli.views.plan_history import read_history
from reclaim.cli.views.plan_view import Summary
from reclaim.cli.views.snapshot_rows import AllOption, ReasonsOption
from reclaim.errors import InvalidInput
from reclaim.text import size

if TYPE_CHECKING:
    from reclaim.api.plan import Plan
    from reclaim.run.plan.plan_location import LocatedPlan

HELD_COLUMNS = ("address", "matched_rules", "held_by")


def register(app: typer.Typer) -> None:
    command(app, "show", show)


class PlannedObject(TypedDict):
    """An object to delete."""

    address: str
    path: str | None
    size: int
    kind: str
    branch: str | None
    last_modified: datetime
    reason: str


class HeldAddress(TypedDict):
    """An address matched by lifecycle rules, but held."""

    address: str
    matched_rules: Sequence[str]
    """Matching rules."""
    held_by: Sequence[str]
    """The first few holders."""


class PlanLists(TypedDict):
    """Lists of a plan."""

    listed: NotRequired[Sequence[PlannedObject]]
    """With --objects."""
    held: NotRequired[Sequence[HeldAddress]]
    """With --held."""


def show(
    session: Session,
    plan: PlanArgument,
    store: PlanStoreOption = None,
    everything: AllOption = False,
    reasons: ReasonsOption = False,
    objects: Annotated[
        bool,
        typer.Option("--objects", help="List every object to delete.", rich_help_panel=LOOK_AT),
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="With --objects or --held: at most N.",
            show_default=False,
            rich_help_panel=LOOK_AT,
        ),
    ] = None,
    held: Annotated[
        bool,
        typer.Option(
            "--held",
            help="List addresses matched by lifecycle rules but held, with their holders.",
            rich_help_panel=LOOK_AT,
        ),
    ] = False,
    csv: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Write all objects to delete as CSV; - for standard output.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    parquet: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Write all objects to delete as Parquet.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
) -> None:
    """Show a plan: objects to be deleted, and the reasons. Needs no Spark.

    Example: reclaim show latest --objects

    The folder of a plan can be shown without the catalog, even a copy. `apply` needs the original
    folder.
    """
    modes = {
        "--objects": objects,
        "--held": held,
        "--csv": csv is not None,
        "--parquet": parquet is not None,
    }
    if len(chosen := [option for option, given in modes.items() if given]) > 1:
        raise InvalidInput(f"{' and '.join(chosen)} exclude each other")
    opened = open_to_show(session, plan, store)
    if csv is not None or parquet is not None:
        export(session, opened, csv=csv, parquet=parquet)
        return
    located = opened.located
    summary = Summary(located.place, located.document, moved_to=located.moved_to)
    if objects:
        session.output.answer(ObjectsAnswer(summary, opened, limit))
        return
    if held:
        session.output.answer(HeldAnswer(summary, located, limit))
        return
    history = read_history(located, everything=everything, all_reasons=reasons, listed_by="--all")
    session.output.answer(replace(summary, commits=history))


@dataclass(frozen=True, slots=True)
class ObjectsAnswer:
    """Answer that lists the objects of a plan, file by file."""

    summary: Summary
    plan: Plan
    limit: int | None

    def document(self) -> Mapping[str, Any]:
        return {**self.summary.document(), "listed": list(self._rows())}

    def view(self) -> Iterable[Block]:
        rows = (
            (size(row["size"]), row["kind"], row["path"] or row["address"], row["reason"])
            for row in self._rows()
        )
        return [Table(("bytes", "kind", "path", "reason"), rows, frozenset({"bytes"}))]

    def _rows(self) -> Iterator[PlannedObject]:
        return islice(self._every_row(), self.limit)

    def _every_row(self) -> Iterator[PlannedObject]:
        for table in self.plan.iter_objects():
            for batch in table.to_batches(max_chunksize=10_000):
                yield from batch.to_pylist()


@dataclass(frozen=True, slots=True)
class HeldAnswer:
    """Answer that lists held addresses matched by lifecycle rules."""

    summary: Summary
    located: LocatedPlan
    limit: int | None

    def document(self) -> Mapping[str, Any]:
        return {**self.summary.document(), "held": list(self._rows())}

    def view(self) -> Iterable[Block]:
        rows = (
            (row["address"], ", ".join(row["matched_rules"]), ", ".join(row["held_by"]))
            for row in self._rows()
        )
        return [Table(("address", "rules", "held by"), rows)]

    def _rows(self) -> Iterator[HeldAddress]:
        return islice(self._every_row(), self.limit)

    def _every_row(self) -> Iterator[HeldAddress]:
        section = self.located.document.lifecycle
        if section is None:
            raise InvalidInput(
                f"the plan at {self.summary.place} was not made by lifecycle rules",
                hint="leave --held out",
            )
        for file in section.held:
            table = self.located.read(file, HELD_COLUMNS)
            for batch in table.to_batches(max_chunksize=10_000):
                yield from batch.to_pylist()
