"""Plans on the command line: the id of a run, or a folder or a URL."""

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
        help="The store of the plan. Needed for a store that is not of the catalog. "
        "Write it as SCHEME:LOCATION.",
        show_default=False,
        rich_help_panel=LOOK_AT,
    ),
]


def shown(place: Place) -> str:
    """A place as people and shells name it."""
    text = str(place)
    return path_of(text) if text.startswith("file://") else text


def plan_name(document: PlanDocument, place: Place) -> str:
    """The name of a plan for commands: the short id, or the location if `--out` chose it."""
    from reclaim.api.plan_names import is_by_default

    return short(document.run) if is_by_default(place, document.run) else shlex.quote(shown(place))


def to_show(document: PlanDocument, place: Place) -> str:
    """The arguments of ``reclaim show`` for a plan."""
    from reclaim.api.plan_names import is_by_default

    name = plan_name(document, place)
    if not is_by_default(place, document.run):
        return name
    return name + store_option(document.store.kind, document.store.uid)


def to_apply(document: PlanDocument, place: Place) -> str:
    """The arguments of ``reclaim apply`` for a plan."""
    return plan_name(document, place) + store_option(document.store.kind, document.store.uid)


def open_to_show(session: Session, name: str, store: str | None) -> Plan:
    """A plan to look at. Only a plan that is named by its id needs the store."""
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
    """A plan to apply, and its store."""
    from reclaim.api.plan_names import check_name, find_named, is_location
    from reclaim.run.plan.plan_location import LocatedPlan, find_plan

    if is_location(name):
        found = LocatedPlan.at(*find_plan(name))
        named = found.document.store
        with session.planned(store, named.kind, named.name, named.uid) as opened:
            yield found, opened
        return
    check_name(name)
    with session.stores(store) as stores:
        plan = find_named(stores, name)
        yield plan.find(), plan.store
