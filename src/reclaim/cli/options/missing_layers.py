"""Option to continue although layers are missing."""

from __future__ import annotations

from typing import Annotated

import typer

from reclaim.cli.options.panels import SAFETY

MissingOption = Annotated[
    bool,
    typer.Option(
        "--unsafe-allow-missing-layers",
        help="Continue if layers or snapshots referenced by live data are missing.",
        rich_help_panel=SAFETY,
    ),
]
