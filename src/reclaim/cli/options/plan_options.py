"""Options of a plan, beside the rules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from reclaim.cli.config.settings import BY_KEY, OPTION, current
from reclaim.cli.options.ages import parse_age
from reclaim.cli.options.backups import BackupsOption
from reclaim.cli.options.missing import MissingOption
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

    def read(self, rules: RuleOptions, kind: PlanArguments) -> Callable[[Store], PlanArguments]:
        """The options of a plan for a store; what does not depend on the store is checked now."""
        named = current().chosen["min_age"].where or "--min-age"
        min_age = parse_age(named, self.min_age)
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
    """The age of a setting, which speaks for all stores.

    Where others write without leases the margin alone protects, and only an option shortens it.
    """
    if not store.quarantine_by_default:
        return min_age
    return max(min_age, parse_age("min_age", str(BY_KEY["min_age"].default)))
