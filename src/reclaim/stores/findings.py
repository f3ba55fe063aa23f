"""Findings: results of checks of a store, its storage or the machine, with hints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from reclaim.errors import ReclaimError

Advance = Callable[[int], None]
"""Called with the size of each object read."""

NAMED = 5
"""Maximum number of names listed in a sentence."""


class Level(StrEnum):
    OK = "ok"
    SKIPPED = "not checked"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of a check, with a hint."""

    level: Level
    check: str
    sentence: str
    hint: str = ""
    repository: str = ""
    exit_code: int = 0
    """Exit code of the error that a run would end with, if this is a problem."""


def failed(check: str, error: ReclaimError, repository: str = "") -> Finding:
    """Return a finding for an error."""
    return Finding(
        Level.PROBLEM, check, error.message, error.hint or "", repository, error.exit_code
    )


def abbreviate(names: Sequence[str]) -> str:
    shown = ", ".join(islice(names, NAMED))
    return shown if len(names) <= NAMED else f"{shown} and {len(names) - NAMED} more"
