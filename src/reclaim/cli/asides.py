"""Options of commands that take objects away: for good, or aside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from reclaim.cli.ages import parse_age
from reclaim.errors import InvalidInput

if TYPE_CHECKING:
    from reclaim.run.removal import Way
    from reclaim.stores.base import Store


@dataclass(frozen=True, slots=True)
class AsideOptions:
    """Whether objects are set aside instead of deleted, how, and for how long."""

    quarantine: Annotated[
        bool | None,
        typer.Option(
            "--quarantine/--no-quarantine",
            help="Move objects to quarantine, for `reclaim undo`, or delete them. Default: delete "
            "those of a catalog, move those of other stores.",
            show_default=False,
        ),
    ] = None
    markers: Annotated[
        bool,
        typer.Option(
            "--markers",
            help="With --quarantine, in a bucket with versioning: delete markers, no copies.",
        ),
    ] = False
    keep: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="With --quarantine: how long before `reclaim purge` may delete them. Default: 7d.",
            show_default=False,
        ),
    ] = None

    def way(self, store: Store) -> Way:
        """How objects of a store are taken away."""
        from reclaim.run.removal import DELETE, KEEP, Markers, Move

        if not (store.quarantine_by_default if self.quarantine is None else self.quarantine):
            if self.markers or self.keep is not None:
                raise InvalidInput("--markers and --keep need --quarantine")
            return DELETE
        keep = KEEP if self.keep is None else parse_age("--keep", self.keep)
        return Markers(keep) if self.markers else Move(keep)
