"""``reclaim plan``: write a deletion plan for review."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from reclaim.cli.command import command
from reclaim.cli.options.kinds import KindOptions
from reclaim.cli.options.plan_options import PlanningOptions
from reclaim.cli.options.rules import RuleOptions
from reclaim.cli.options.store_names import STORE
from reclaim.cli.running import RunOptions
from reclaim.cli.session import Session
from reclaim.cli.views.plan_history import read_history
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
    """Find expired commits and unreferenced objects. Deletes nothing.

    Example: reclaim plan sales --keep-last 30

    Review the plan with `reclaim show latest --objects`; delete with `reclaim apply latest`.
    Without rules, the stored policy of the repository applies.
    """
    kind_arguments = kind.read(rules, planning, running)
    policy, arguments = rules.read(), planning.read(rules, kind_arguments)
    with session.open_stores(store, running.work()) as [opened]:
        made = opened.plan(policy, **arguments(opened.store))
    summary = Summary(made.place, made.document, made.not_recorded)
    if kind.history_only:
        summary = replace(summary, commits=read_history(made.located))
    session.output.answer(summary)
