"""A deterministic scheduler: tasks that take turns, one step at a time, in an order that is given.

A *step* is what a task does between two announcements: one transaction, or one call to the storage.
A *schedule* is the order of the steps, as the number of the task that does each. The same tasks
with the same schedule do the same again.

Tasks are threads, of which exactly one runs: the others wait for their turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import groupby
from typing import Any

from reclaim.errors import ReclaimError
from tests.support.footprints import Footprint
from tests.support.known_ids import known_ids
from tests.support.one_thread import one_thread

PATIENCE_SECONDS = 120
"""A task that does not reach its next step in that time waits for something that cannot come."""

Schedule = tuple[int, ...]
"""For each step the number of the task that does it; who comes after the last is not said."""


class Died(BaseException):
    """A task that ends in the middle, as a process that was killed. It does nothing any more."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment between two steps, when somebody has to be chosen for the next."""

    state: Hashable
    """All that the future follows from: what there is, and what each task has seen."""
    ready: tuple[int, ...]
    """The tasks that are not at their end."""
    done: tuple[int, ...]
    """The steps that each task has done."""
    whole: bool
    """Whether no task is in the middle of a transaction."""
    stepped: Footprint | None = None
    """What the last step has touched so far; None at the begin."""


Guide = Callable[[Moment], int | None]
"""Says who does the next step; None for nobody, which ends the run before its time."""
StateOf = Callable[[Footprint | None], Hashable]
"""What there is now, for all tasks; it is told what the last step has touched, None at first."""


class Stuck(AssertionError):
    """No task reaches its next step."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step that was done: by which task, what, and who could have done one instead."""

    task: int
    name: str
    footprint: Footprint
    ready: tuple[int, ...]
    """The tasks that were not at their end."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Tasks that were run to their end: their steps, and what became of each."""

    names: tuple[str, ...]
    steps: tuple[Step, ...]
    results: tuple[Any, ...]
    """What each task returned, or the ``ReclaimError`` or ``Died`` that it ended with."""
    moments: tuple[Moment, ...] = ()
    """What there was before each step and after the last, if somebody guided them."""
    stopped: bool = False
    """Whether the guide ended the run before the tasks did."""

    @property
    def schedule(self) -> Schedule:
        return tuple(step.task for step in self.steps)

    @property
    def outcome(self) -> str:
        """How each task ended, in a few words."""
        ends = zip(self.names, self.results, strict=True)
        return ", ".join(f"{name}: {_ending(result)}" for name, result in ends)

    def __str__(self) -> str:
        """The schedule for people: who does how many steps in a row."""
        runs = [(task, len(list(steps))) for task, steps in groupby(self.schedule)]
        turns = ", ".join(f"{self.names[task]} {count}" for task, count in runs)
        return f"{turns} (schedule {describe(self.schedule)})"


def describe(schedule: Schedule) -> str:
    """A schedule as text that ``parse`` takes."""
    return " ".join(f"{task}x{len(list(steps))}" for task, steps in groupby(schedule))


def parse(text: str) -> Schedule:
    """The schedule that ``describe`` has written down."""
    turns = [turn.split("x") for turn in text.split()]
    return tuple(int(task) for task, count in turns for _ in range(int(count)))


def _ending(result: Any) -> str:
    if isinstance(result, Died):
        return "died"
    return result.kind if isinstance(result, ReclaimError) else "done"


@dataclass(eq=False)
class Task:
    """An operation under a scheduler. Its database and its storage tell it of each step."""

    name: str
    number: int
    work: Callable[[], Any] = lambda: None
    dies_at: int | None = None
    """The number of the step at which it dies, counted from 1."""
    result: Any = None
    failure: BaseException | None = None
    ended: bool = True
    dead: bool = False
    done: int = 0
    footprint: Footprint = field(default_factory=Footprint)
    """What the last step has touched so far; before the first it is added to that one's."""
    holds: int = 0
    """Transactions that are open."""
    lasting: Callable[[], object] = lambda: None
    """What it never forgets, as it is at the time."""
    _seen: Any = field(default_factory=lambda: blake2b(digest_size=16))
    _snapshots: tuple[Hashable, ...] = ()
    _floor: Any = None
    """What to go back to when a part ends of what is forgotten altogether."""
    thread: threading.Thread | None = None
    _gate: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    _turns: Turns | None = None

    def reach(self, name: str, footprint: Footprint) -> None:
        """Wait for the turn to do the next step. Outside of an execution nothing waits."""
        if self.dead:
            raise Died
        if self._turns is None:
            return
        if threading.current_thread() is not self.thread:
            raise AssertionError(f"{self.name} does a step in another thread: {name}")
        if self.holds and not self._snapshots:
            raise AssertionError(f"{self.name} has a transaction open that keeps nothing: {name}")
        self._turns.wait_for(self)
        if self.done == 0:
            footprint.add(self.footprint)
        self.footprint = footprint
        self._remember(name)
        self.done += 1
        if self.done == self.dies_at:
            self.dead = True
            self._turns.on_death()
            raise Died
        self._turns.note(self, name, footprint)

    def see(self, seen: object, *, reads: Collection[str] = ()) -> None:
        """Note what the task has seen: what it does from here on follows from that."""
        if self._turns is not None and threading.current_thread() is self.thread:
            self._remember(repr(seen))
            self.footprint.reads.update(reads)

    def _remember(self, seen: str) -> None:
        # With its length: one and twenty-three is not twelve and three.
        self._seen.update(f"{len(seen)} {seen}".encode())

    def keep_snapshot(self) -> None:
        if self._turns is not None and threading.current_thread() is self.thread:
            self._snapshots += (self._turns.snapshot,)

    def release_snapshot(self) -> None:
        self._snapshots = ()

    @contextmanager
    def forgetting(self, *, everything: bool = False) -> Iterator[list[object]]:
        """Forget in the end what was seen meanwhile, but for what is put into the list.

        What is put there must tell by its ``repr`` all that the task goes on with. With
        ``everything`` it is forgotten as soon as a part of it ends, too.
        """
        before, floor = self._seen.copy(), self._floor
        self._floor = before if everything else floor
        # Whoever is in there remembers so: what comes after a part is not what comes after all.
        self._remember("within")
        kept: list[object] = []
        try:
            yield kept
        finally:
            self._floor = floor
        self._seen = (floor or before).copy()
        if floor is None:
            self._remember(repr([*kept, self.lasting()]))

    @property
    def state(self) -> Hashable:
        """All that the task remembers; of one that has ended only how."""
        return _ending(self.result) if self.ended else (self._seen.digest(), self._snapshots)

    def start(self, turns: Turns) -> None:
        self.ended = self.dead = False
        self.done = 0
        self.result = self.failure = None
        self._turns = turns
        self.thread = threading.Thread(target=self._run, name=f"task {self.name}", daemon=True)
        self.thread.start()

    def go(self) -> None:
        self._gate.release()

    def pause(self) -> None:
        if not self._gate.acquire(timeout=PATIENCE_SECONDS):
            raise Stuck(f"{self.name} waits for a turn that does not come")

    def close(self) -> None:
        """Join the thread. Whoever uses the task from here on does not wait for turns."""
        if self.thread is not None:
            self.thread.join()
        self._turns = self.thread = None

    def _run(self) -> None:
        turns = self._turns
        assert turns is not None
        _local.task = self
        self.pause()
        try:
            self.result = self.work()
        except (ReclaimError, Died) as error:
            self.result = error
        except BaseException as error:
            self.failure = error
        self.ended = True
        turns.pass_on()


_local = threading.local()


def current_task() -> Task | None:
    """The task that asks."""
    return getattr(_local, "task", None)


class Turns:
    """Who has the next turn, and what was done so far."""

    def __init__(
        self,
        tasks: Sequence[Task],
        schedule: Schedule,
        on_death: Callable[[], object],
        guide: Guide | None = None,
        state_of: StateOf = lambda _footprint: None,
    ) -> None:
        self._tasks = tasks
        self._schedule = schedule
        self._over = threading.Semaphore(0)
        self._current: Task | None = None
        self._guide = guide
        self._state_of = state_of
        self.on_death = on_death
        self.steps: list[Step] = []
        self.moments: list[Moment] = []
        self.stopped = False
        """Whether the guide has ended the run."""
        self.snapshot: Hashable = None
        """What there was for all tasks at the last moment."""

    def run(self) -> None:
        for task in self._tasks:
            task.start(self)
        self._next().go()
        if not self._over.acquire(timeout=PATIENCE_SECONDS):
            raise Stuck(f"{self._current.name if self._current else 'nobody'} does not go on")
        for task in self._tasks:
            task.close()

    def wait_for(self, task: Task) -> None:
        """Return when it is the task's turn to do its next step."""
        chosen = self._next()
        if chosen is not task:
            chosen.go()
            task.pause()
        if self.stopped:
            task.dead = True
            raise Died

    def pass_on(self) -> None:
        """Give the turn of a task that has ended to another."""
        if all(other.ended for other in self._tasks):
            if self._guide is not None and not self.stopped:
                self.note_moment()
            self._over.release()
        else:
            self._next().go()

    def note(self, task: Task, name: str, footprint: Footprint) -> None:
        ready = tuple(other.number for other in self._tasks if not other.ended)
        self.steps.append(Step(task.number, name, footprint, ready))

    def _next(self) -> Task:
        """The task of the schedule or of the guide; else who is at work, or the first."""
        at = len(self.steps)
        ready = [task for task in self._tasks if not task.ended]
        chosen = ready[0] if self._current not in ready else self._current
        if self._guide is not None and not self.stopped:
            number = self._guided(self._guide)
            if number is not None:
                chosen = self._tasks[number]
        elif at < len(self._schedule):
            wanted = self._tasks[self._schedule[at]]
            chosen = wanted if wanted in ready else chosen
        assert chosen is not None
        self._current = chosen
        return chosen

    def _guided(self, guide: Guide) -> int | None:
        """Whom the guide wants. It is asked once a step: who begins does so as a part of his."""
        if len(self.moments) > len(self.steps):
            return self._current.number if self._current else None
        self.note_moment()
        number = guide(self.moments[-1])
        if number is None:
            self.stopped = True
        return number

    def note_moment(self) -> None:
        """Note what there is, and what each task knows."""
        stepped = self.steps[-1].footprint if self.steps else None
        self.snapshot = self._state_of(stepped)
        self.moments.append(
            Moment(
                (self.snapshot, *(task.state for task in self._tasks)),
                tuple(task.number for task in self._tasks if not task.ended),
                tuple(task.done for task in self._tasks),
                not any(task.holds for task in self._tasks),
                stepped,
            )
        )


class Scheduler:
    """Runs operations in an order that is given. ``prepare`` brings the world back before each run.

    It is told the tasks, and returns the work of each. What it builds for a task, such as a
    ``SwitchingDatabase``, tells that task of its steps.
    """

    def __init__(
        self,
        names: Sequence[str],
        prepare: Callable[[Sequence[Task]], Sequence[Callable[[], Any]]],
        *,
        on_death: Callable[[], object] = lambda: None,
        state_of: StateOf = lambda _footprint: None,
    ) -> None:
        self.names = tuple(names)
        self._prepare = prepare
        self._on_death = on_death
        self._state_of = state_of

    def run(
        self,
        schedule: Schedule = (),
        deaths: Mapping[int, int] | None = None,
        guide: Guide | None = None,
    ) -> Trace:
        """Run the tasks once. ``deaths``: the step at which a task dies, by the task's number.

        A ``guide`` chooses instead of a schedule, and sees the state between the steps.
        """
        tasks = [Task(name, number) for number, name in enumerate(self.names)]
        with known_ids(tasks), one_thread():
            for task, work in zip(tasks, self._prepare(tasks), strict=True):
                task.work = work
                task.dies_at = (deaths or {}).get(task.number)
            turns = Turns(tasks, schedule, self._on_death, guide, self._state_of)
            turns.run()
        for task in tasks:
            if task.failure is not None:
                raise task.failure
        return Trace(
            self.names,
            tuple(turns.steps),
            tuple(task.result for task in tasks),
            tuple(turns.moments),
            turns.stopped,
        )
