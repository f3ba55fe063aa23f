"""Verbosity: how much a command tells on stderr while it works, and in which form."""

from __future__ import annotations

import os
from contextvars import ContextVar
from dataclasses import dataclass

from reclaim.errors import InvalidInput

LOG_VARIABLE = "RECLAIM_LOG"
LOG_FORMAT_VARIABLE = "RECLAIM_LOG_FORMAT"
LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")


@dataclass(frozen=True, slots=True)
class Verbosity:
    """What was asked for by options and variables."""

    quiet: bool = False
    """No progress, neither a bar nor lines."""
    level: str = ""
    """The least level that is logged; empty if nothing is."""
    format: str = "text"


CURRENT: ContextVar[Verbosity] = ContextVar("verbosity", default=Verbosity())  # noqa: B039
"""The verbosity of the command that runs."""


def find_verbosity(*, quiet: bool, verbose: int, log_format: str | None) -> Verbosity:
    """The verbosity that the options of a command ask for, or else the environment."""
    if quiet and verbose:
        raise InvalidInput("-q and -v exclude each other")
    level = _one_of(LOG_VARIABLE, os.environ.get(LOG_VARIABLE, ""), LEVELS, "")
    if verbose:
        level = "debug" if verbose > 1 else "info"
    given = log_format or os.environ.get(LOG_FORMAT_VARIABLE, "")
    name = "--log-format" if log_format else LOG_FORMAT_VARIABLE
    return Verbosity(quiet, level, _one_of(name, given, FORMATS, "text"))


def _one_of(name: str, given: str, known: tuple[str, ...], default: str) -> str:
    value = given.strip().lower()
    if value and value not in known:
        raise InvalidInput(f"{name} is {given!r}", hint=f"set it to one of {', '.join(known)}")
    return value or default
