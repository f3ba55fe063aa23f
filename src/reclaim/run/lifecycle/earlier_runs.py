"""Errors of commands that make several runs: add the results of earlier runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from reclaim.errors import Partial, ReclaimError
from reclaim.run.apply.applied import Applied

BEFORE = "before"
"""Detail of such an error: ids of the earlier runs."""


@dataclass(slots=True)
class EarlierRuns:
    """Runs made by a command so far."""

    _runs: dict[str, str] = field(default_factory=dict)

    def add(self, applied: Applied) -> None:
        """Add a finished run."""
        done = applied.summary()
        action = "moved to quarantine" if applied.until else "deleted"
        sentence = (
            f"run {applied.run} has {action} {done['objects']} objects ({done['bytes']} bytes)"
        )
        if not applied.by_lifecycle_rules:
            sentence += f" and removed {done['collected']} {applied.noun}s"
        self._runs[applied.run] = sentence

    def add_partial(self, run_id: str, error: Partial) -> None:
        """Add an unfinished run the command skips."""
        self._runs[run_id] = error.message

    @contextmanager
    def add_to_errors(self) -> Iterator[None]:
        """Add the earlier runs to errors of the block, whose hints describe their own run only."""
        try:
            yield
        except ReclaimError as error:
            if self._runs:
                sentences = list(self._runs.values())
                if hint := error.hint:
                    sentences.append(f"since then {hint}" if hint.startswith("nothing") else hint)
                error.hint = "; ".join(sentences)
                earlier = error.details.get(BEFORE, [])
                error.details[BEFORE] = [*self._runs, *earlier]
            raise
