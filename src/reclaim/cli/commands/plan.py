"""``reclaim plan``: what could go, and why, written down for review."""

from __future__ import annotations

from typing import Annotated

import typer

from reclaim.cli.command import command
from reclaim.cli.options.plan_options import PlanningOptions
from reclaim.cli.options.rules import RuleOptions
from reclaim.cli.options.store_names import STORE
from reclaim.cli.running import RunOptions
from reclaim.cli.session import Session
from reclaim.cli.views.plan_view import Summary


def register(app: typer.Typer) -> None:
    command(app, "plan", plan)


def plan(
    session: Session,
    store: Annotated[str, typer.Argument(metavar="STORE", help=STORE, show_default=False)],
    rules: RuleOptions,
    planning: PlanningOptions,
    running: RunOptions,
) -> None:
    """Find what nothing reaches, or would reach under rules, and write a plan. Changes nothing."""
    from reclaim.run.plan.planning import make_plan

    options = planning.read(rules)
    with session.stores(store) as [opened], running.watched() as watcher:
        asked = options(opened)
        made = make_plan(opened, running.engine(watcher), asked, watcher=watcher)
    session.output.answer(Summary(made.place, made.document, made.not_recorded))
