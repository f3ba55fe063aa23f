"""Verbosity: how much a command tells on stderr while it works, and in which form."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from reclaim.cli.config.settings import Settings


@dataclass(frozen=True, slots=True)
class Verbosity:
    """The verbosity that options, variables and files ask for."""

    quiet: bool = False
    """No progress, neither a bar nor lines."""
    level: str = ""
    """The least level that is logged; empty if nothing is."""
    format: str = "text"

    @classmethod
    def of(cls, settings: Settings) -> Verbosity:
        return cls(bool(settings["quiet"]), str(settings["log"] or ""), str(settings["log_format"]))


CURRENT: ContextVar[Verbosity] = ContextVar("verbosity", default=Verbosity())  # noqa: B039
"""The verbosity of the command that runs."""
