"""Which schedules of some tasks to try.

A *preemption* takes the turn from a task that could go on. Where a task has ended, or none has
begun, the turn is given without one. A turn is taken from a task only before a step that could
notice another task's: before any other it would make no difference (``footprints``).
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tests.support.footprints import Footprint
from tests.support.scheduler import Died, Schedule, Scheduler, Trace


@dataclass(frozen=True, slots=True)
class _Branching:
    """A schedule that was not tried, because nothing was known that its order could change."""

    schedule: Schedule
    preempted: int
    footprint: Footprint
    preemptions: int


@dataclass
class Exploration:
    """The schedules of a scheduler's tasks, those with fewer preemptions first.

    What the steps of a task touch is learned while they run. A schedule that was left out is tried
    after all when a step turns up that it could matter to.
    """

    scheduler: Scheduler
    preemptions: int | None = None
    """The most preemptions; None for as many as there can be."""
    enough: int | None = None
    """With so many schedules, of those with one more preemption only a sample is tried, if any."""
    sample: int = 0
    """So many of them, spread over all."""
    reached: int = -1
    """Every schedule with so many preemptions was tried."""
    exhausted: bool = False
    """There is no other schedule."""
    _touched: dict[int, list[Footprint]] = field(default_factory=dict)
    _left_out: list[_Branching] = field(default_factory=list)

    def __iter__(self) -> Iterator[Trace]:
        levels: dict[int, list[Schedule]] = {0: [()]}
        count = 0
        while levels:
            level = min(levels)
            if self.preemptions is not None and level > self.preemptions:
                return
            if level and self.enough is not None and count + len(levels[level]) > self.enough:
                yield from map(self.scheduler.run, _spread(levels[level], self.sample))
                return
            while schedules := levels.get(level):
                schedule = schedules.pop(0)
                trace = self.scheduler.run(schedule)
                count += 1
                assert trace.schedule[: len(schedule)] == schedule, "a schedule was not repeated"
                for step in trace.steps:
                    self._touched.setdefault(step.task, []).append(step.footprint)
                self._left_out += self._branchings(trace, len(schedule), level)
                yield trace
                for branching in self._taken_up():
                    levels.setdefault(branching.preemptions, []).append(branching.schedule)
            del levels[level]
            self.reached = level
        self.exhausted = True

    def _branchings(self, trace: Trace, begin: int, used: int) -> Iterator[_Branching]:
        """What could have been done instead, at each step after the given ones."""
        for at in range(begin, len(trace.steps)):
            step = trace.steps[at]
            before = trace.steps[at - 1].task if at else None
            preempted = before in step.ready
            for other in step.ready:
                if other != step.task:
                    schedule = (*trace.schedule[:at], other)
                    yield _Branching(
                        schedule, step.task if preempted else -1, step.footprint, used + preempted
                    )

    def _taken_up(self) -> Iterator[_Branching]:
        left_out = self._left_out
        self._left_out = []
        for branching in left_out:
            if branching.preempted < 0 or self._matters(branching):
                yield branching
            else:
                self._left_out.append(branching)

    def _matters(self, branching: _Branching) -> bool:
        return any(
            branching.footprint.conflicts(other)
            for task, footprints in self._touched.items()
            if task != branching.preempted
            for other in footprints
        )


def crashes(scheduler: Scheduler, victim: int, *, stride: int = 1) -> Iterator[Trace]:
    """Let a task die at each of its steps, and the others go on after it; ends with a life."""
    at = 1
    while True:
        trace = scheduler.run((victim,) * at, deaths={victim: at})
        yield trace
        if not isinstance(trace.results[victim], Died):
            return
        at += stride


def _spread(schedules: Sequence[Schedule], count: int) -> Sequence[Schedule]:
    """So many of the schedules: equally many that interrupt each task, at even distances.

    Among them is always the last of a task: what it has looked at by then is oldest.
    """
    by_interrupted: dict[int, list[Schedule]] = {}
    for schedule in schedules:
        by_interrupted.setdefault(schedule[-2], []).append(schedule)
    chosen: list[Schedule] = []
    groups = sorted(by_interrupted.values(), key=len)
    for number, group in enumerate(groups):
        share = min(len(group), (count - len(chosen)) // (len(groups) - number))
        chosen += [group[len(group) - 1 - at * len(group) // share] for at in range(share)]
    return chosen


def random_schedule(seed: str, tasks: int, turns: int) -> Schedule:
    """A schedule with so many turns, each of some steps; the same for the same seed."""
    chance = random.Random(seed)
    schedule: list[int] = []
    for _ in range(turns):
        schedule += [chance.randrange(tasks)] * chance.choice((1, 1, 2, 3, 5, 13, 34))
    return tuple(schedule)
