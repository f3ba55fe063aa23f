"""Plans where they lie: a folder or a URL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from reclaim.urls import path_of

if TYPE_CHECKING:
    from reclaim.engine.tasks.parts import Place

PlanArgument = Annotated[
    str, typer.Argument(metavar="PLAN", help="The plan's folder or URL.", show_default=False)
]


def shown(place: Place) -> str:
    """A place as people and shells name it."""
    text = str(place)
    return path_of(text) if text.startswith("file://") else text
