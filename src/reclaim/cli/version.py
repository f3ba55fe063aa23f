"""``reclaim --version``."""

from __future__ import annotations

from typing import TypedDict

from reclaim import __version__
from reclaim.cli.session import output_for
from reclaim.cli.views.output import Done


class VersionDocument(TypedDict):
    """The version of Reclaim."""

    version: str


def show_version(*, as_json: bool) -> None:
    output_for(as_json).answer(Done(f"reclaim {__version__}", VersionDocument(version=__version__)))
