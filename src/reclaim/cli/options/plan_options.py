"""Options of a plan, beside the rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from reclaim.cli.config.settings import BY_KEY, OPTION, current
from reclaim.cli.options.ages import parse_age
from reclaim.cli.options.backups import BackupsOption, collect_backups
from reclaim.cli.options.missing import MissingOption, allow_missing
from reclaim.cli.options.panels import LOOK_AT, OUTPUT, SAFETY
from reclaim.errors import AlreadyExists, InvalidInput
from reclaim.urls import normalize, split

if TYPE_CHECKING:
    from reclaim.cli.options.rules import RuleOptions
    from reclaim.engine.answers import Objects
    from reclaim.engine.tasks.parts import Place
    from reclaim.run.plan.planning import PlanOptions
    from reclaim.stores.base import Store
    from reclaim.stores.observation import Margins

MinAgeOption = Annotated[
    str,
    typer.Option(
        metavar="AGE",
        help="Never delete objects modified within AGE.",
        rich_help_panel=LOOK_AT,
    ),
]
OutOption = Annotated[
    str | None,
    typer.Option(
        metavar="PLACE",
        help="An empty folder or URL for the plan. Default: in the store.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
FractionOption = Annotated[
    float | None,
    typer.Option(
        "--unsafe-allow-fraction",
        metavar="F",
        min=0.0,
        max=1.0,
        help="Allow a plan to delete up to this fraction of all objects. Default: 0.9.",
        show_default=False,
        rich_help_panel=SAFETY,
    ),
]


@dataclass(frozen=True, slots=True)
class PlanningOptions:
    """Options of a plan, beside the rules."""

    min_age: MinAgeOption = "24h"
    inventory: Annotated[
        str | None,
        typer.Option(
            metavar="PLACE",
            help="Use a Parquet inventory (key, size, last_modified) instead of listing storage.",
            show_default=False,
            rich_help_panel=LOOK_AT,
        ),
    ] = None
    out: OutOption = None
    unsafe_allow_fraction: FractionOption = None
    unsafe_allow_missing_layers: MissingOption = False
    old_backups: BackupsOption = False

    def read(self, rules: RuleOptions) -> Callable[[Store], PlanOptions]:
        """The options of a plan for a store; what does not depend on the store is checked now."""
        from reclaim.run.plan.planning import MOST, PlanOptions
        from reclaim.run.plan.stored_policy import choose_policy, find_stored
        from reclaim.stores.observation import Margins

        given = rules.read()
        named = current().chosen["min_age"].where or "--min-age"
        margins = Margins(objects=parse_age(named, self.min_age))
        by_option = current().chosen["min_age"].origin == OPTION
        fraction = self.unsafe_allow_fraction

        def options(store: Store) -> PlanOptions:
            allow_missing(store, asked=self.unsafe_allow_missing_layers)
            collect_backups(store, asked=self.old_backups)
            stored = find_stored(store) if given is None else None
            chosen = choose_policy(given, stored)
            return PlanOptions(
                policy=chosen.policy,
                policy_source=chosen.source,
                margins=margins if by_option else _safe_margins(margins, store),
                place=None if self.out is None else _empty_place(self.out, store),
                inventory=None if self.inventory is None else _inventory(self.inventory, store),
                inventory_name=self.inventory,
                allowed_fraction=MOST if fraction is None else fraction,
                delete_expired_tags=rules.delete_expired_tags,
                delete_expired_branches=rules.delete_expired_branches,
            )

        return options


def _safe_margins(margins: Margins, store: Store) -> Margins:
    """Margins of a setting, which speaks for all stores.

    Where others write without leases the margin alone protects, and only an option shortens it.
    """
    if not store.quarantine_by_default:
        return margins
    shortest = parse_age("min_age", str(BY_KEY["min_age"].default))
    return replace(margins, objects=max(margins.objects, shortest))


def _empty_place(location: str, store: Store) -> Place:
    from reclaim.engine.tasks.parts import Place
    from reclaim.storage import ObjectStorage

    url = normalize(location)
    if f"{url}/".startswith(str(Place(store.storage.url, store.format.prefix)) + "/"):
        raise InvalidInput(f"{location} lies inside the store", hint="name a place outside it")
    storage = ObjectStorage.open(url, create=True)
    if next(storage.list(), None) is not None:
        raise AlreadyExists(f"{location} is not empty", hint="name a new place for the plan")
    return Place(storage.url, "")


def _inventory(location: str, store: Store) -> Objects:
    from reclaim.engine.tasks.inventory import find_inventory
    from reclaim.storage import ObjectStorage

    root, address = split(normalize(location))
    return find_inventory(ObjectStorage.open(root), address, store.format)
