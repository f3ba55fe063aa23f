"""Options of commands that remove objects: for good, or to quarantine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from reclaim.cli.config.settings import OPTION, current
from reclaim.cli.options.ages import parse_age
from reclaim.cli.options.panels import SAFETY
from reclaim.errors import InvalidInput

if TYPE_CHECKING:
    from reclaim.api.options import ApplyArguments
    from reclaim.run.sweep.removal import Removal
    from reclaim.stores.base import Store


@dataclass(frozen=True, slots=True)
class QuarantineOptions:
    """Whether objects go to quarantine instead of being deleted, how, and for how long."""

    quarantine: Annotated[
        bool | None,
        typer.Option(
            "--quarantine/--no-quarantine",
            help="Move objects to quarantine, for `reclaim undo`, or delete them. Default: delete "
            "those of a catalog, move those of other stores.",
            show_default=False,
            rich_help_panel=SAFETY,
        ),
    ] = None
    markers: Annotated[
        bool,
        typer.Option(
            "--markers",
            help="With --quarantine, in a bucket with versioning: delete markers, no copies.",
            rich_help_panel=SAFETY,
        ),
    ] = False
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="With --quarantine: how long before `reclaim purge` may delete them. Default: 7d,"
            " or what an earlier apply of the plan promised if that is longer.",
            show_default=False,
            rich_help_panel=SAFETY,
        ),
    ] = None

    def arguments(self, store: Store, limits: ApplyArguments) -> ApplyArguments:
        """The options of an apply to a store."""
        return {**limits, "quarantine": self.removal(store)}

    def removal(self, store: Store) -> Removal:
        """How objects of a store are removed."""
        from reclaim.run.sweep.removal import DELETE, KEEP, DeleteMarkers, MoveToQuarantine

        asked = self.quarantine
        if store.quarantine_by_default and current().chosen["quarantine"].origin != OPTION:
            # Others write there without leases: only who names the store may do without.
            asked = None
        if not (store.quarantine_by_default if asked is None else asked):
            if self.markers or self.keep is not None:
                raise InvalidInput("--markers and --keep need --quarantine")
            return DELETE
        chosen = current().chosen["keep"]
        keep = parse_age(chosen.where or "--keep", str(chosen.value)) if chosen.where else KEEP
        if store.quarantine_by_default and chosen.origin != OPTION:
            keep = max(keep, KEEP)
        removal = DeleteMarkers if self.markers else MoveToQuarantine
        # A setting speaks for all plans; only who names this one may shorten its window.
        return removal(keep, may_shorten=chosen.origin == OPTION)
