"""Every order of the steps of some tasks, up to those that cannot differ.

Two orders that lead to the same state go on in the same ways, so what comes after a state is tried
once. A *state* is all that there is, and for each task all that it remembers: what it does next
follows from that.

- Where the next step of a task touches nothing that another one will touch, it goes first: any
  other order leads to the same ends. Of two tasks all that counts is what the other one would do
  if it went on alone: it may end early, because a lock is held.
- A step that was tried *sleeps* while others do what neither notices of the other: in which order
  they come makes no difference.

What the steps touch is learned while they run. What was left out is tried after all when a step
turns up that it could matter to. docs/decisions/0047 has the argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import takewhile

from tests.support.footprints import Footprint
from tests.support.scheduler import Moment, Schedule, Scheduler, Trace
from tests.support.states import Alone, Node, Offer

_STRIDE = 7_919
"""Where not all is tried, what is tried lies far apart."""


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
    runs_alone: int = 0
    """Runs that were done only to see what a task does alone."""
    exhausted: bool = False
    """Nothing was left out, within the bound."""
    nodes: dict[Hashable, Node] = field(default_factory=dict)
    _futures: dict[int, list[Footprint]] = field(default_factory=dict)
    """Of each task what its steps touch, from the first, the second, ... on."""
    _undecided: deque[Node] = field(default_factory=deque)
    """States of which it is to be found out anew what is to be tried there."""
    _offers: list[Offer] = field(default_factory=list)
    """A heap. Some of them were tried since, or need not be tried any more."""

    def __iter__(self) -> Iterator[Trace]:
        schedule: Schedule | None = ()
        while schedule is not None:
            if self.runs == self.most:
                return
            trace: Trace | None = self._run(schedule)
            while trace is not None:
                self.runs += 1
                # Whoever looks at the end does so before anything else is run.
                yield trace
                self._learn(trace)
                trace = self._decide()
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
            closed = heappop(self._offers)
            closed.node.offered.discard(closed.task)
        if not self._offers:
            return None
        offer = self._offers[0]
        if self.preemptions is not None and offer.cost > self.preemptions:
            return None
        if self.most is not None:
            offer = self._spread(offer.cost)
        return (*offer.node.schedule(), offer.task)

    def _spread(self, cost: int) -> Offer:
        """One of many, where only some are tried."""
        pending = [offer for offer in {*self._offers} if offer.cost == cost and offer.is_open]
        pending.sort(reverse=True)
        if self.runs == 1:
            # Whoever was second is to be first.
            return min(pending, key=lambda offer: len(offer.node.schedule()))
        return pending[self.runs * _STRIDE % len(pending)]

    def _offer(self, node: Node) -> None:
        for task in node.untried - node.offered:
            heappush(self._offers, Offer(node.cost(task), -node.number, -task, node))
            node.offered.add(task)

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
        """Note the states and steps of a run."""
        news = grown = False
        passed: list[Node] = []
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
        if grown:
            for node in self.nodes.values():
                node.alone.clear()
        lowered = self._lower(self._linked(passed))
        self._undecided += self.nodes.values() if news or grown else (*passed, *lowered)
        self._wake(self.nodes.values() if grown else passed)

    def _decide(self) -> Trace | None:
        """Find out what is to be tried; returns a run that was made for it and tells more."""
        while self._undecided:
            trace = self._want(self._undecided[0])
            if trace is not None:
                return trace
            self._offer(self._undecided.popleft())
        return None

    def _linked(self, passed: Sequence[Node]) -> Iterator[Node]:
        """The states after those that a run has passed, which know from where they were reached."""
        for node in passed:
            for task, key in node.after.items():
                after = self.nodes.get(key)
                if after is not None:
                    after.before.add((node, task))
                    yield after

    def _lower(self, nodes: Iterable[Node]) -> Sequence[Node]:
        """Let no state have done more than one that comes after it; returns those that had.

        What a task forgets may have taken it more steps in one order than in another. The state
        after that has the fewer, and what is touched from there on counts for those on both ways.
        """
        pending = list(nodes)
        lowered: list[Node] = []
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

    def _node(self, trace: Trace, at: int, passed: Sequence[Node]) -> Node:
        moment = trace.moments[at]
        key = self._key(moment, trace.steps[at - 1].task if at else None)
        if key not in self.nodes:
            node = Node(len(self.nodes), None, moment.ready, moment.done, 0)
            if at:
                before, task = passed[-1], trace.steps[at - 1].task
                node.reached = before, task
                node.preemptions = before.cost(task)
                node.sleeping = self._asleep(before, task)
            self.nodes[key] = node
        return self.nodes[key]

    def _asleep(self, node: Node, task: int) -> dict[int, Footprint]:
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

    def _wake(self, nodes: Iterable[Node]) -> None:
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
                    self._undecided.append(child)
                    pending.append(child)

    def _touch(self, task: int, index: int, footprint: Footprint) -> bool:
        """Note what a step touches; says whether it was news."""
        futures = self._futures.setdefault(task, [])
        futures += [Footprint() for _ in range(len(futures), index + 1)]
        news = [future.add(footprint) for future in futures[: index + 1]]
        return any(news)

    def _want(self, node: Node) -> Trace | None:
        """One task is enough if what it does is noticed by nobody, now or later.

        Returns a run if one was made to find that out, and both are wanted.
        """
        if len(node.wanted) == len(node.ready) > 1:
            return None
        if self.preemptions is not None and node.is_free:
            # What costs nothing here would cost a preemption later.
            node.wanted = set(node.ready)
            return None
        for task, footprint in node.tried.items():
            others = [other for other in node.ready if other != task]
            if not any(footprint.conflicts(self._future(node, other)) for other in others):
                node.wanted = {task}
                return None
        if self.preemptions is None and self.most is None and len(node.ready) == 2:
            return self._want_by_what_is_done_alone(node)
        node.wanted = set(node.ready)
        return None

    def _want_by_what_is_done_alone(self, node: Node) -> Trace | None:
        """Of two tasks, one is enough if the other does not notice it while going on alone."""
        task = next(iter(node.tried))
        other = next(other for other in node.ready if other != task)
        trace = None
        if other not in node.sleeping:
            if self._told_by_neighbours(node, other) is None:
                trace = self._go_on_alone(node, other)
            if node.tried[task].conflicts(node.alone[other].whole):
                node.wanted = set(node.ready)
                return trace
        node.wanted = {task}
        return None

    def _told_by_neighbours(self, node: Node, task: int) -> Alone | None:
        """What a task does if it goes on alone, if a state before or after this one tells.

        A step that changes nothing which the other touches makes no difference to what that does.
        """
        known = node.alone.get(task) or self._told_before(node, task)
        known = known or self._told_after(node, task)
        if known is not None:
            node.alone[task] = known
        return known

    def _told_before(self, node: Node, task: int) -> Alone | None:
        way: list[Node] = []
        first = node
        while task not in first.alone and first.reached is not None:
            way.append(first)
            first, _ = first.reached
        known = first.alone.get(task)
        for reached in reversed(way):
            assert reached.reached is not None
            before, stepped = reached.reached
            if known is not None and stepped == task:
                known = known.rest
            elif known is not None and before.tried[stepped].disturbs(known.whole):
                known = None
            if known is None:
                return None
            reached.alone[task] = known
        return known

    def _told_after(self, node: Node, task: int) -> Alone | None:
        for stepped, key in node.after.items():
            after = self.nodes.get(key)
            known = None if after is None else after.alone.get(task)
            if known is None:
                continue
            if stepped == task:
                return Alone(node.tried[task], known)
            if not node.tried[stepped].disturbs(known.whole):
                return known
        return None

    def _go_on_alone(self, node: Node, task: int) -> Trace | None:
        """Let a task go on alone, to see what it does; returns the run if the other notices it."""
        noticing = [footprint for other, footprint in node.tried.items() if other != task]
        schedule, taken = node.schedule(), list[int]()
        touched = Footprint()
        noticed: bool | None = None

        def guide(moment: Moment) -> int | None:
            nonlocal noticed
            if len(taken) > len(schedule) and noticed is None and moment.stepped is not None:
                touched.add(moment.stepped)
            if len(taken) < len(schedule):
                chosen: int | None = schedule[len(taken)]
            elif noticed is None and task in moment.ready:
                chosen = task
            else:
                if noticed is None:
                    noticed = any(one.conflicts(touched) for one in noticing)
                chosen = self._choose(moment, (), taken) if noticed else None
            if chosen is not None:
                taken.append(chosen)
            return chosen

        trace = self.scheduler.run(guide=guide)
        alone: Alone | None = None
        of_task = takewhile(lambda step: step.task == task, trace.steps[len(schedule) :])
        for step in reversed([*of_task]):
            alone = Alone(step.footprint, alone)
        assert alone is not None
        self._tell_before(node, task, alone)
        if noticed:
            return trace
        self.runs_alone += 1
        return None

    def _tell_before(self, node: Node, task: int, alone: Alone) -> None:
        """Note what a task does alone in a state, and in those before it as far as it is known."""
        node.alone[task] = alone
        while node.reached is not None:
            before, stepped = node.reached
            if task in before.alone:
                return
            if stepped == task:
                alone = Alone(before.tried[task], alone)
            elif before.tried[stepped].disturbs(alone.whole):
                return
            before.alone[task] = alone
            node = before

    def _future(self, node: Node, task: int) -> Footprint:
        """What a task may touch from here on."""
        futures = self._futures.get(task, [])
        return futures[node.done[task]] if node.done[task] < len(futures) else Footprint()
