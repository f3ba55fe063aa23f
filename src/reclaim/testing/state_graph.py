"""Every order of the steps of some tasks, up to those that cannot differ.

Two orders that lead to the same state go on in the same ways, so what comes after a state is tried
once. A *state* is all that there is, and for each task all that it remembers: what it does next
follows from that.

- Where the next step of a task touches nothing that another one will ever touch, it goes first: any
  other order leads to the same ends.
- A step that was tried *sleeps* while others do what neither notices of the other: in which order
  they come makes no difference.

What the steps touch is learned while they run. What was left out is tried after all when a step
turns up that it could matter to. docs/decisions/0047 has the argument.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import NamedTuple

from reclaim.testing.footprints import Footprint
from reclaim.testing.scheduler import Moment, Schedule, Scheduler, Trace

_STRIDE = 7_919
"""Where not all is tried, what is tried lies far apart."""


@dataclass(eq=False)
class _Node:
    """A state that was reached, and the steps that were tried from there."""

    number: int
    reached: tuple[_Node, int] | None
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
    before: set[tuple[_Node, int]] = field(default_factory=set)
    """The states from which a step of a task leads here."""

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


class _Offer(NamedTuple):
    """A step to try, in the order in which that is done: the cheapest, of the newest state."""

    cost: int
    minus_number: int
    minus_task: int
    node: _Node

    @property
    def is_open(self) -> bool:
        return self.task in self.node.untried

    @property
    def task(self) -> int:
        return -self.minus_task


@dataclass
class StateGraph:
    """The states that some tasks can reach together. To iterate runs them until all were reached.

    A trace that is ``stopped`` ended where others have gone on already.
    """

    scheduler: Scheduler
    preemptions: int | None = None
    """The most preemptions; None for as many as there can be."""
    most: int | None = None
    """The most runs."""
    runs: int = 0
    exhausted: bool = False
    """Nothing was left out, within the bound."""
    nodes: dict[Hashable, _Node] = field(default_factory=dict)
    _futures: dict[int, list[Footprint]] = field(default_factory=dict)
    """Of each task what its steps touch, from the first, the second, ... on."""
    _offers: list[_Offer] = field(default_factory=list)
    """A heap. Some of them were tried since, or need not be tried any more."""

    def __iter__(self) -> Iterator[Trace]:
        schedule: Schedule | None = ()
        while schedule is not None:
            if self.runs == self.most:
                return
            trace = self._run(schedule)
            self.runs += 1
            self._learn(trace)
            yield trace
            schedule = self._next_schedule()
        self.exhausted = True

    @property
    def conflicting(self) -> bool:
        """Whether the tasks touch anything in common."""
        wholes = [futures[0] for futures in self._futures.values() if futures]
        return any(
            whole.conflicts(other) for at, whole in enumerate(wholes) for other in wholes[:at]
        )

    def _next_schedule(self) -> Schedule | None:
        """A step that was not tried, and how to get there; those with few preemptions first."""
        while self._offers and not self._offers[0].is_open:
            heappop(self._offers)
        if not self._offers:
            return None
        offer = self._offers[0]
        if self.preemptions is not None and offer.cost > self.preemptions:
            return None
        if self.most is not None:
            offer = self._spread(offer.cost)
        return (*offer.node.schedule(), offer.task)

    def _spread(self, cost: int) -> _Offer:
        """One of many, where only some are tried."""
        pending = [offer for offer in {*self._offers} if offer.cost == cost and offer.is_open]
        pending.sort(reverse=True)
        if self.runs == 1:
            # Whoever was second is to be first.
            return min(pending, key=lambda offer: len(offer.node.schedule()))
        return pending[self.runs * _STRIDE % len(pending)]

    def _offer(self, node: _Node) -> None:
        for task in node.untried:
            heappush(self._offers, _Offer(node.cost(task), -node.number, -task, node))

    def _key(self, moment: Moment, last: int | None) -> Hashable:
        # With a bound it matters who is at work: to take the turn from him counts.
        return moment.state if self.preemptions is None else (moment.state, last)

    def _run(self, schedule: Schedule) -> Trace:
        taken: list[int] = []

        def guide(moment: Moment) -> int | None:
            task = self._choose(moment, schedule, taken)
            if task is not None:
                taken.append(task)
            return task

        return self.scheduler.run(guide=guide)

    def _choose(self, moment: Moment, schedule: Schedule, taken: Sequence[int]) -> int | None:
        """Follow the schedule, then go on to what was not tried; stop where all was."""
        if len(taken) < len(schedule):
            return schedule[len(taken)]
        last = taken[-1] if taken else None
        node = self.nodes.get(self._key(moment, last))
        if node is None:
            return last if last is not None and last in moment.ready else moment.ready[0]
        if self.preemptions is None and node.untried:
            return last if last in node.untried else min(node.untried)
        if moment.whole:
            return None
        return last if last is not None and last in node.tried else min(node.tried)

    def _learn(self, trace: Trace) -> None:
        """Note the states and steps of a run, and what is to be tried from there."""
        news = grown = False
        passed: list[_Node] = []
        for at, step in enumerate(trace.steps):
            node = self._node(trace, at, passed)
            passed.append(node)
            node.done = tuple(map(min, node.done, trace.moments[at].done))
            known = node.tried.get(step.task)
            if known is None:
                node.tried[step.task] = known = step.footprint
            else:
                grown |= known.add(step.footprint)
            if at + 1 < len(trace.moments):
                node.after[step.task] = self._key(trace.moments[at + 1], step.task)
            news |= self._touch(step.task, node.done[step.task], known)
        lowered = self._lower(self._linked(passed))
        for node in self.nodes.values() if news or grown else (*passed, *lowered):
            before = node.wanted
            self._want(node)
            if node.wanted != before:
                self._offer(node)
        self._wake(self.nodes.values() if grown else passed)

    def _linked(self, passed: Sequence[_Node]) -> Iterator[_Node]:
        """The states after those that a run has passed, which know from where they were reached."""
        for node in passed:
            for task, key in node.after.items():
                after = self.nodes.get(key)
                if after is not None:
                    after.before.add((node, task))
                    yield after

    def _lower(self, nodes: Iterable[_Node]) -> Sequence[_Node]:
        """Let no state have done more than one that comes after it; returns those that had.

        What a task forgets may have taken it more steps in one order than in another. The state
        after that has the fewer, and what is touched from there on counts for those on both ways.
        """
        pending = list(nodes)
        lowered: list[_Node] = []
        while pending:
            node = pending.pop()
            for before, task in node.before:
                done = list(map(min, before.done, node.done))
                done[task] = min(done[task], max(node.done[task] - 1, 0))
                if (least := tuple(done)) != before.done:
                    before.done = least
                    lowered.append(before)
                    pending.append(before)
        return lowered

    def _node(self, trace: Trace, at: int, passed: Sequence[_Node]) -> _Node:
        moment = trace.moments[at]
        key = self._key(moment, trace.steps[at - 1].task if at else None)
        if key not in self.nodes:
            node = _Node(len(self.nodes), None, moment.ready, moment.done, 0)
            if at:
                before, task = passed[-1], trace.steps[at - 1].task
                node.reached = before, task
                node.preemptions = before.cost(task)
                node.sleeping = self._asleep(before, task)
            self.nodes[key] = node
        return self.nodes[key]

    def _asleep(self, node: _Node, task: int) -> dict[int, Footprint]:
        """What sleeps after a step: what slept or was tried before it, and does not notice it."""
        if self.preemptions is not None:
            return {}
        asleep = dict(node.sleeping)
        for other, touched in node.tried.items():
            if other == task:
                break
            asleep[other] = touched
        return {
            other: touched
            for other, touched in asleep.items()
            if other != task and not touched.conflicts(node.tried[task])
        }

    def _wake(self, nodes: Iterable[_Node]) -> None:
        """Wake what sleeps in a state that was reached in an order in which it does not sleep."""
        pending = list(nodes)
        while pending:
            node = pending.pop()
            for task, key in node.after.items():
                child = self.nodes.get(key)
                if child is None or not child.sleeping:
                    continue
                awake = child.sleeping.keys() - self._asleep(node, task).keys()
                for other in awake:
                    del child.sleeping[other]
                if awake:
                    self._offer(child)
                    pending.append(child)

    def _touch(self, task: int, index: int, footprint: Footprint) -> bool:
        """Note what a step touches; says whether it was news."""
        futures = self._futures.setdefault(task, [])
        futures += [Footprint() for _ in range(len(futures), index + 1)]
        news = [future.add(footprint) for future in futures[: index + 1]]
        return any(news)

    def _want(self, node: _Node) -> None:
        """One task is enough if what it does is noticed by nobody, now or later."""
        if len(node.wanted) == len(node.ready) > 1:
            return
        if self.preemptions is not None and node.is_free:
            # What costs nothing here would cost a preemption later.
            node.wanted = set(node.ready)
            return
        for task, footprint in node.tried.items():
            others = [other for other in node.ready if other != task]
            if not any(footprint.conflicts(self._future(node, other)) for other in others):
                node.wanted = {task}
                return
        node.wanted = set(node.ready)

    def _future(self, node: _Node, task: int) -> Footprint:
        """What a task may touch from here on."""
        futures = self._futures.get(task, [])
        return futures[node.done[task]] if node.done[task] < len(futures) else Footprint()
