"""Options of commands that delete objects or move them to quarantine."""

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
    """Quarantine of removed objects: whether, how, and for how long."""

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
            help="With --quarantine: how long before `reclaim purge` may delete them. Default: 7d, "
            "or longer if an earlier apply of the plan promised it.",
            show_default=False,
            rich_help_panel=SAFETY,
        ),
    ] = None

    def arguments(self, store: Store, limits: ApplyArguments) -> ApplyArguments:
        """Return the options of an apply to a store."""
        return {**limits, "quarantine": self.removal(store)}

    def removal(self, store: Store) -> Removal:
        """Return the way to remove objects of a store."""
        from reclaim.run.sweep.removal import DELETE, KEEP, DeleteMarkers, MoveToQuarantine

        quarantine = self.quarantine
        if store.quarantine_by_default and current().chosen["quarantine"].origin != OPTION:
            # Writers there take no leases: only an option on the command line disables quarantine.
            quarantine = None
        if not (store.quarantine_by_default if quarantine is None else quarantine):
            if self.markers or self.keep is not None:
                raise InvalidInput("--markers and --keep need --quarantine")
            return DELETE
        chosen = current().chosen["keep"]
        keep = parse_age(chosen.where or "--keep", str(chosen.value)) if chosen.where else KEEP
        if store.quarantine_by_default and chosen.origin != OPTION:
            keep = max(keep, KEEP)
        removal = DeleteMarkers if self.markers else MoveToQuarantine
        # A setting applies to all plans: only an option may shorten the quarantine of this plan.
        return removal(keep, may_shorten=chosen.origin == OPTION)
