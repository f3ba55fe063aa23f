"""The option that lets a run go on although layers are missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reclaim.cli.options.panels import SAFETY
from reclaim.errors import InvalidInput

if TYPE_CHECKING:
    from reclaim.stores.base import Store

MissingOption = Annotated[
    bool,
    typer.Option(
        "--unsafe-allow-missing-layers",
        help="Continue although layers or snapshots that live ones name are missing.",
        rich_help_panel=SAFETY,
    ),
]


def allow_missing(store: Store, *, asked: bool) -> None:
    """Tell a store that what is missing is lost for good, if a person said so."""
    from reclaim.stores.abilities import NeedsOtherSnapshots

    if not asked:
        return
    if not isinstance(store, NeedsOtherSnapshots):
        raise InvalidInput(
            f"a {store.kind} store does not tell what is missing",
            hint="leave --unsafe-allow-missing-layers out",
        )
    store.allow_missing()
