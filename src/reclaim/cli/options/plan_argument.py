"""Plans on the command line: a run id, a folder or a URL."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from reclaim.cli.options.panels import LOOK_AT
from reclaim.cli.options.store_names import store_option
from reclaim.ids import short
from reclaim.urls import path_of

if TYPE_CHECKING:
    from reclaim.api.plan import Plan
    from reclaim.cli.session import Session
    from reclaim.engine.tasks.parts import Place
    from reclaim.run.plan.plan_document import PlanDocument
    from reclaim.run.plan.plan_location import LocatedPlan
    from reclaim.stores.base import Store

PlanArgument = Annotated[
    str,
    typer.Argument(
        metavar="PLAN",
        help="The plan: its run id, the start of the id, `latest`, or its folder or URL.",
        show_default=False,
    ),
]
PlanStoreOption = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="STORE",
        help="The store of the plan, for a store outside the catalog. Write it as SCHEME:LOCATION.",
        show_default=False,
        rich_help_panel=LOOK_AT,
    ),
]


def shown(place: Place) -> str:
    """Return a place as people and shells write it."""
    text = str(place)
    return path_of(text) if text.startswith("file://") else text


def plan_name(document: PlanDocument, place: Place) -> str:
    """Return the short id of a plan, or its location if `--out` was given."""
    from reclaim.api.plan_names import is_by_default

    return short(document.run) if is_by_default(place, document.run) else shlex.quote(shown(place))


def to_show(document: PlanDocument, place: Place) -> str:
    """Return the arguments of ``reclaim show`` for a plan."""
    from reclaim.api.plan_names import is_by_default

    name = plan_name(document, place)
    if not is_by_default(place, document.run):
        return name
    return name + store_option(document.store.kind, document.store.uid)


def to_apply(document: PlanDocument, place: Place) -> str:
    """Return the arguments of ``reclaim apply`` for a plan."""
    return plan_name(document, place) + store_option(document.store.kind, document.store.uid)


def open_to_show(session: Session, name: str, store: str | None) -> Plan:
    """Open a plan to show it. Only a plan named by id needs its store."""
    from reclaim.api.plan import Plan, open_plan
    from reclaim.api.plan_names import check_name, find_named, is_location

    if is_location(name):
        return open_plan(name)
    check_name(name)
    with session.stores(store) as stores:
        return Plan(find_named(stores, name).find_anywhere())


@contextmanager
def open_to_apply(
    session: Session, name: str, store: str | None
) -> Iterator[tuple[LocatedPlan, Store]]:
    """Open a plan to apply it, and its store."""
    from reclaim.api.plan_names import check_name, find_named, is_location
    from reclaim.run.plan.plan_location import LocatedPlan, find_plan

    if is_location(name):
        plan = LocatedPlan.at(*find_plan(name))
        planned = plan.document.store
        with session.planned(store, planned.kind, planned.name, planned.uid) as opened:
            yield plan, opened
        return
    check_name(name)
    with session.stores(store) as stores:
        named = find_named(stores, name)
        yield named.find(), named.store
