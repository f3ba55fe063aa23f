"""Options of a plan, except the retention rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from reclaim.cli.config.settings import BY_KEY, OPTION, current
from reclaim.cli.options.ages import parse_age
from reclaim.cli.options.missing_layers import MissingOption
from reclaim.cli.options.old_backups import BackupsOption
from reclaim.cli.options.panels import LOOK_AT, OUTPUT, SAFETY

if TYPE_CHECKING:
    from reclaim.api.options import PlanArguments
    from reclaim.cli.options.rules import RuleOptions
    from reclaim.stores.base import Store

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
    """Options of a plan, except the retention rules."""

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

    def read(self, rules: RuleOptions, kind: PlanArguments) -> Callable[[Store], PlanArguments]:
        """Check the options common to all stores, and return the plan options by store."""
        source = current().chosen["min_age"].where or "--min-age"
        min_age = parse_age(source, self.min_age)
        by_option = current().chosen["min_age"].origin == OPTION

        def arguments(store: Store) -> PlanArguments:
            return {
                **kind,
                "min_age": min_age if by_option else _safe_age(min_age, store),
                "inventory": self.inventory,
                "out": self.out,
                "unsafe_allow_fraction": self.unsafe_allow_fraction,
                "unsafe_allow_missing_layers": self.unsafe_allow_missing_layers,
                "old_backups": self.old_backups,
                "delete_expired_tags": rules.delete_expired_tags,
                "delete_expired_branches": rules.delete_expired_branches,
            }

        return arguments


def _safe_age(min_age: timedelta, store: Store) -> timedelta:
    """Return the age of a setting, which applies to all stores.

    Writers of some stores take no leases and are protected by the minimum age alone. There only an
    option can shorten it.
    """
    if not store.quarantine_by_default:
        return min_age
    return max(min_age, parse_age("min_age", str(BY_KEY["min_age"].default)))
