"""The window of lifecycle rules: their steps from the first claim to the promotion of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from reclaim.catalog.database.schema import claimed_addresses, claims
from tests.schedules.exploring import scheduler
from tests.schedules.past import Past
from tests.support.scheduler import Guide, Moment, Schedule, Step

MAKER, OTHERS, RULES = range(3)
"""The tasks: who makes a reference, who holds other objects, and the rules."""


@dataclass(frozen=True)
class Window:
    """The steps of the rules from the first claim to the promotion.

    Right before it others come to hold two of the three objects that the rules are to take, so that
    there is something to judge again and to drop in it.
    """

    before: int
    """The steps of the rules before it."""
    others: int
    """The steps of those who hold the others."""
    steps: tuple[Step, ...]
    claimed: int
    """The number of the step that claims."""

    @property
    def drops(self) -> list[int]:
        """The numbers of the steps that drop claims."""
        return [at for at, step in enumerate(self.steps) if at > self.claimed and _claims(step)]

    def stopped_at(self, number: int) -> Schedule:
        """The rules are stopped before a step of the window; the maker does all that it does."""
        return (*[RULES] * self.before, *[OTHERS] * self.others, *[RULES] * number, MAKER)

    def goes_by(self, done: int, is_promoted: Callable[[], bool]) -> Guide:
        """The maker is stopped when it has done some steps, and the window goes by."""

        def guide(moment: Moment) -> int:
            if moment.done[RULES] < self.before:
                return RULES
            if OTHERS in moment.ready:
                return OTHERS
            if MAKER not in moment.ready:
                return RULES
            if moment.done[MAKER] < done:
                return MAKER
            return MAKER if is_promoted() or RULES not in moment.ready else RULES

        return guide


@cache
def find_window(past: Past) -> Window:
    """Find the window in a run that nobody else disturbs; once a process, it is always the same."""
    alone = scheduler(past, ["lifecycle"]).run().steps
    claimed = next(at for at, step in enumerate(alone) if _claims(step))
    before = max(at for at in range(claimed) if changes_state(alone[at]))
    steps = scheduler(past, ["hold others", "lifecycle"]).run((*[1] * before, 0)).steps
    of_rules = [step for step in steps if step.task == 1][before:]
    promoted = next(at for at, step in enumerate(of_rules) if at and changes_state(step))
    others = sum(step.task == 0 for step in steps)
    return Window(before, others, tuple(of_rules[: promoted + 1]), claimed - before)


def _claims(step: Step) -> bool:
    return claimed_addresses.name in step.footprint.writes


def changes_state(step: Step) -> bool:
    """Whether a step opens the claims of a run, or makes them final."""
    return claims.name in step.footprint.writes
