"""The option that lets a run go on although layers are missing."""

from __future__ import annotations

from typing import Annotated

import typer

from reclaim.cli.options.panels import SAFETY

MissingOption = Annotated[
    bool,
    typer.Option(
        "--unsafe-allow-missing-layers",
        help="Continue although layers or snapshots that live ones name are missing.",
        rich_help_panel=SAFETY,
    ),
]
