"""The record of a run, in the store: what whoever goes on with the run has to know."""

from __future__ import annotations

from typing import Any

from reclaim.model import Run, RunState
from reclaim.run.admission import COLLECT
from reclaim.run.applying.context import ApplyContext
from reclaim.run.applying.first_facts import first_facts


class RunRecord:
    """The record of a run as one apply keeps it."""

    def __init__(self, context: ApplyContext) -> None:
        self._held = context.held
        self._run = context.run
        self._started_at = context.planned.started_at
        self._place = str(context.place)
        self.facts: dict[str, Any] = first_facts(context)
        self.may_be_promoted = False
        """Whether this apply is past the promotion, or may be: an error need not mean that it is
        not."""

    def start(self) -> None:
        """Record that the run has started, or goes on."""
        run = Run(self._run, COLLECT, RunState.STARTED, self._started_at, self.facts, self._place)
        self._held.start(run)

    def write(self) -> None:
        """Record the facts of now, of a run that is not at its end."""
        self._held.finish(self._run, RunState.STARTED, self.facts)

    def end(self, state: RunState, more: dict[str, Any]) -> None:
        """Record how far the run came, with what more is to be said of that."""
        self._held.finish(self._run, state, self.facts | more)
