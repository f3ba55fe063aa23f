"""Limits to what a plan may take, as options."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from reclaim.cli.options.panels import SAFETY
from reclaim.errors import InvalidInput

if TYPE_CHECKING:
    from reclaim.run.apply.limits import Limits

_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(?:([kmgtp])(i?)b?|b)?", re.IGNORECASE)
_POWERS = {unit: power for power, unit in enumerate("kmgtp", start=1)}


@dataclass(frozen=True, slots=True)
class LimitOptions:
    """The most that a plan may take."""

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

    def read(self) -> Limits:
        from reclaim.run.apply.limits import Limits

        size = None if self.max_bytes is None else parse_size("--max-bytes", self.max_bytes)
        return Limits(self.max_objects, size)


def parse_size(option: str, text: str) -> int:
    """A number of bytes: MB are a million, MiB and M are 1024 times 1024."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise InvalidInput(
            f"{option}: {text!r} is not a size", hint="write for example 5000000, 500MB or 2GiB"
        )
    number, unit, binary = match.groups()
    if not unit:
        factor = 1
    else:
        decimal = not binary and text.strip().lower().endswith("b")
        factor = (1000 if decimal else 1024) ** _POWERS[unit.lower()]
    return int(float(number) * factor) if "." in number else int(number) * factor
