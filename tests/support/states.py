"""States that orders of steps lead to, and what was tried from each."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.support.footprints import Footprint
from tests.support.scheduler import Schedule


@dataclass(eq=False, slots=True)
class Alone:
    """The steps that a task does if it goes on alone to its end."""

    first: Footprint
    rest: Alone | None
    whole: Footprint = field(default_factory=Footprint)
    """What all of them touch."""

    def __post_init__(self) -> None:
        self.whole.add(self.first)
        if self.rest is not None:
            self.whole.add(self.rest.whole)


@dataclass(eq=False)
class Node:
    """A state that was reached, and the steps that were tried from there."""

    number: int
    reached: tuple[Node, int] | None
    """The state before this one, and the task whose step led here; None at the begin."""
    ready: tuple[int, ...]
    done: tuple[int, ...]
    """The steps that each task has done, at least. No state that comes after has fewer."""
    preemptions: int
    """Those that it takes to get here."""
    sleeping: dict[int, Footprint] = field(default_factory=dict)
    tried: dict[int, Footprint] = field(default_factory=dict)
    """What the next step of a task touches, in the order in which they were tried."""
    after: dict[int, Hashable] = field(default_factory=dict)
    """The state after the step of a task."""
    wanted: set[int] = field(default_factory=set)
    before: set[tuple[Node, int]] = field(default_factory=set)
    """The states from which a step of a task leads here."""
    offered: set[int] = field(default_factory=set)
    """The tasks whose steps stand among the offers."""
    alone: dict[int, Alone] = field(default_factory=dict)
    """What a task does from here on if it goes on alone, as far as somebody has asked."""

    @property
    def untried(self) -> set[int]:
        return self.wanted - self.tried.keys() - self.sleeping.keys()

    @property
    def is_free(self) -> bool:
        """Whether nobody is at work whose turn could be taken."""
        return self.reached is None or self.reached[1] not in self.ready

    def cost(self, task: int) -> int:
        """The preemptions that a schedule has that goes on with this task."""
        taken_from = None if self.is_free or self.reached is None else self.reached[1]
        return self.preemptions + (taken_from not in (None, task))

    def schedule(self) -> Schedule:
        """A way to get here."""
        steps: list[int] = []
        node = self
        while node.reached is not None:
            node, task = node.reached
            steps.append(task)
        return tuple(reversed(steps))


class Offer(NamedTuple):
    """A step to try, in the order in which that is done: the cheapest, of the newest state."""

    cost: int
    minus_number: int
    minus_task: int
    node: Node

    @property
    def is_open(self) -> bool:
        return self.task in self.node.untried

    @property
    def task(self) -> int:
        return -self.minus_task
