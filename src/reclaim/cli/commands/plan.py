"""``reclaim plan``: the data that could go, and why, written down for review."""

from __future__ import annotations

from typing import Annotated

import typer

from reclaim.cli.command import command
from reclaim.cli.options.kinds import KindOptions
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
    kind: KindOptions,
    rules: RuleOptions,
    planning: PlanningOptions,
    running: RunOptions,
) -> None:
    """Find unreferenced objects and expired commits and write a deletion plan. Read-only.

    Example: reclaim plan sales --keep-last 30

    Review the plan with `reclaim show PLAN`, and delete with `reclaim apply PLAN`. Without rules
    the policy counts that is stored with the repository.
    """
    from reclaim.run.gc import plan_request

    asked = kind.read(rules, planning)
    options = planning.read(kind.rules(rules))
    with session.stores(store) as [opened], running.watched() as watcher:
        wanted = options(opened)
        made = plan_request(opened, running.engine(watcher), wanted, asked, watcher=watcher)
    session.output.answer(Summary(made.place, made.document, made.not_recorded))
