"""Errors of a command that makes several runs: they tell what the runs before had done."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from reclaim.errors import Partial, ReclaimError
from reclaim.run.apply.applied import Applied

BEFORE = "before"
"""A detail of such an error: the ids of the runs before."""


@dataclass(slots=True)
class DoneBefore:
    """The runs that a command has made so far."""

    _runs: dict[str, str] = field(default_factory=dict)

    def add(self, applied: Applied) -> None:
        """Note a run that came to its end."""
        done = applied.summary()
        how = "moved to quarantine" if applied.until else "deleted"
        said = f"run {applied.run} has {how} {done['objects']} objects ({done['bytes']} bytes)"
        if not applied.by_lifecycle_rules:
            said += f" and removed {done['collected']} {applied.noun}s"
        self._runs[applied.run] = said

    def add_partial(self, run_id: str, error: Partial) -> None:
        """Note a run that is not finished, and that the command passes over."""
        self._runs[run_id] = error.message

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Let an error of the block tell of the runs before: its hint speaks of its own run."""
        try:
            yield
        except ReclaimError as error:
            if self._runs:
                sentences = list(self._runs.values())
                if hint := error.hint:
                    sentences.append(f"since then {hint}" if hint.startswith("nothing") else hint)
                error.hint = "; ".join(sentences)
                told = error.details.get(BEFORE, [])
                error.details[BEFORE] = [*self._runs, *told]
            raise
