"""``reclaim uncommitted``: what was uploaded and is in no commit, found from what changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypedDict

import typer

from reclaim.cli.command import command
from reclaim.cli.options.plan_bounds import PlanBounds
from reclaim.cli.options.rules import RuleOptions
from reclaim.cli.running import RunOptions
from reclaim.cli.session import Session
from reclaim.cli.views.plan_view import Summary
from reclaim.errors import InvalidInput

REPEATED = ("mode", "why", "partitions_listed", "objects_listed", "bytes_read", "ranges_read")
"""Fields that the answer has at its top as well."""
MODES = ("clean", "optimized", "auto")


def register(app: typer.Typer) -> None:
    command(app, "uncommitted", uncommitted)


@dataclass(frozen=True, slots=True)
class ScopeOptions:
    """Options of a plan of uncommitted data."""

    branch: Annotated[
        str | None,
        typer.Option(
            metavar="BRANCH",
            help="List only what was uploaded to this branch, which may be deleted.",
            show_default=False,
        ),
    ] = None
    mode: Annotated[
        str,
        typer.Option(
            metavar="MODE",
            help="clean looks at everything; optimized and auto at what may have changed since "
            "the last run, where its checkpoint counts.",
        ),
    ] = "auto"


class Scope(TypedDict):
    """The size of the search for uncommitted data; its fields are in the plan as well."""

    mode: Literal["clean", "optimized"]
    why: str
    partitions_listed: int
    objects_listed: int
    bytes_read: int
    ranges_read: int


class UncommittedSummary(Summary):
    """The answer that shows such a plan."""

    def document(self) -> Mapping[str, Any]:
        document = super().document()
        return {name: document["uncommitted"][name] for name in REPEATED} | dict(document)


def uncommitted(
    session: Session,
    repository: Annotated[
        str,
        typer.Argument(
            metavar="REPO", help="A repository; a deleted one by its uid.", show_default=False
        ),
    ],
    options: ScopeOptions,
    bounds: PlanBounds,
    running: RunOptions,
) -> None:
    """Find what was uploaded and nothing refers to any more, and write a plan. Changes nothing.

    The plan is reviewed and applied like any other. An apply of it leaves a checkpoint, from which
    the next run looks only at what may have changed.
    """
    from reclaim.run.uncommitted.planning import UncommittedOptions, plan_uncommitted
    from reclaim.run.uncommitted.scope import Mode

    if options.mode not in MODES:
        raise InvalidInput(f"--mode cannot be {options.mode!r}", hint=f"say {', '.join(MODES)}")
    find = bounds.planning().read(RuleOptions(no_policy=True))
    asked = UncommittedOptions(Mode(options.mode), options.branch)
    with session.stores(repository) as [opened], running.watched() as watcher:
        engine = running.engine(watcher)
        made = plan_uncommitted(opened, engine, find(opened), asked, watcher=watcher)
    session.output.answer(UncommittedSummary(made.place, made.document, made.not_recorded))
