"""The option that lets a plan name old copies that a store keeps of what it replaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reclaim.cli.options.panels import LOOK_AT
from reclaim.errors import InvalidInput

if TYPE_CHECKING:
    from reclaim.stores.base import Store

BackupsOption = Annotated[
    bool,
    typer.Option(
        "--old-backups",
        help="Also collect copies that the store kept of what it replaced (Icechunk).",
        rich_help_panel=LOOK_AT,
    ),
]


def collect_backups(store: Store, *, asked: bool) -> None:
    """Tell a store that old copies may go, if a person said so."""
    from reclaim.stores.abilities import KeepsBackups

    if not asked:
        return
    if not isinstance(store, KeepsBackups):
        raise InvalidInput(
            f"a {store.kind} store keeps no copies of what it replaces",
            hint="leave --old-backups out",
        )
    store.collect_backups()
