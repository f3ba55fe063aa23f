"""Options to limit the size of a deletion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from reclaim.cli.options.panels import SAFETY

if TYPE_CHECKING:
    from reclaim.api.options import ApplyArguments


@dataclass(frozen=True, slots=True)
class LimitOptions:
    """Limits on objects and bytes to delete."""

    max_objects: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=0,
            help="Abort if the plan would delete more than N objects.",
            show_default=False,
            rich_help_panel=SAFETY,
        ),
    ] = None
    max_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Abort if the plan would delete more bytes: 5000000, 500MB, 2GiB.",
            show_default=False,
            rich_help_panel=SAFETY,
        ),
    ] = None

    def read(self) -> ApplyArguments:
        from reclaim.api.options import parse_size

        size = None if self.max_bytes is None else parse_size("--max-bytes", self.max_bytes)
        return {"max_objects": self.max_objects, "max_bytes": size}
