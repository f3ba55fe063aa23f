"""The option that lets a plan name old copies that a store keeps of what it replaces."""

from __future__ import annotations

from typing import Annotated

import typer

from reclaim.cli.options.panels import LOOK_AT

BackupsOption = Annotated[
    bool,
    typer.Option(
        "--old-backups",
        help="Also collect copies that the store kept of what it replaced (Icechunk).",
        rich_help_panel=LOOK_AT,
    ),
]
