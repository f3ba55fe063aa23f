"""``reclaim --version``."""

from __future__ import annotations

from reclaim import __version__
from reclaim.cli.output import Done
from reclaim.cli.session import output_for


def show_version(*, as_json: bool) -> None:
    output_for(as_json).answer(Done(f"reclaim {__version__}", {"version": __version__}))
