"""Verbosity: progress and logs on stderr."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from reclaim.cli.config.settings import Settings


@dataclass(frozen=True, slots=True)
class Verbosity:
    """Verbosity set by options, variables and files."""

    quiet: bool = False
    """Show no progress, neither a bar nor lines."""
    level: str = ""
    """Lowest level to log; empty for no log."""
    format: str = "text"

    @classmethod
    def of(cls, settings: Settings) -> Verbosity:
        return cls(bool(settings["quiet"]), str(settings["log"] or ""), str(settings["log_format"]))


CURRENT: ContextVar[Verbosity] = ContextVar("verbosity", default=Verbosity())  # noqa: B039
"""Verbosity of the running command."""
