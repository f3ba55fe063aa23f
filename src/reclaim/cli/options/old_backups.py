"""Option to collect the old copies of replaced files."""

from __future__ import annotations

from typing import Annotated

import typer

from reclaim.cli.options.panels import LOOK_AT

BackupsOption = Annotated[
    bool,
    typer.Option(
        "--old-backups",
        help="Also collect old copies of replaced files (Icechunk).",
        rich_help_panel=LOOK_AT,
    ),
]
