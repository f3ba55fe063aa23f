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

from reclaim.testing.footprints import Footprint
from reclaim.testing.scheduler import Moment, Schedule, Scheduler, Trace

_STRIDE = 7_919
"""Where not all is tried, what is tried lies far apart."""


@dataclass(eq=False)
class _Node:
    """A state that was reached, and the steps that were tried from there."""

    schedule: Schedule
    ready: tuple[int, ...]
    done: tuple[int, ...]
    """The steps that each task has done, at least."""
    preemptions: int
    """Those that it takes to get here."""
    sleeping: dict[int, Footprint] = field(default_factory=dict)
    tried: dict[int, Footprint] = field(default_factory=dict)
    """What the next step of a task touches, in the order in which they were tried."""
    after: dict[int, Hashable] = field(default_factory=dict)
    """The state after the step of a task."""
    wanted: set[int] = field(default_factory=set)

    @property
    def untried(self) -> set[int]:
        return self.wanted - self.tried.keys() - self.sleeping.keys()

    @property
    def is_free(self) -> bool:
        """Whether nobody is at work whose turn could be taken."""
        return not self.schedule or self.schedule[-1] not in self.ready

    def cost(self, task: int) -> int:
        """The preemptions that a schedule has that goes on with this task."""
        return self.preemptions + (not self.is_free and self.schedule[-1] != task)


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
        pending = [
            (node.cost(task), node, task)
            for node in self.nodes.values()
            for task in sorted(node.untried)
        ]
        fewest = min((cost for cost, _, _ in pending), default=0)
        pending = [entry for entry in pending if entry[0] == fewest]
        if not pending or (self.preemptions is not None and fewest > self.preemptions):
            return None
        if self.most is None:
            _, node, task = pending[-1]
        elif self.runs == 1:
            # Whoever was second is to be first.
            _, node, task = min(pending, key=lambda entry: len(entry[1].schedule))
        else:
            _, node, task = pending[self.runs * _STRIDE % len(pending)]
        return (*node.schedule, task)

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
        for node in self.nodes.values() if news or grown else passed:
            self._want(node)
        self._wake(self.nodes.values() if grown else passed)

    def _node(self, trace: Trace, at: int, passed: Sequence[_Node]) -> _Node:
        moment = trace.moments[at]
        key = self._key(moment, trace.steps[at - 1].task if at else None)
        if key not in self.nodes:
            node = _Node(trace.schedule[:at], moment.ready, moment.done, 0)
            if at:
                before, task = passed[-1], trace.steps[at - 1].task
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
