"""Runs that die at a step, whatever store they work on.

After its death a process does nothing any more: each step after the fatal one is fatal too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Protocol

import pytest

from reclaim.errors import Conflict
from reclaim.storage import ObjectStorage
from reclaim.testing import FakeClock
from tests.support.soak import SOAK

MOST_STEPS = 600
WRITES = ("put", "copy", "move", "delete")

Work = Callable[..., object]
"""A run: takes the world, and how it is stepped through, which is nothing or all of it."""


class Died(BaseException):
    """A process that ends in the middle."""


class Countdown:
    """Dies at the nth step, and at every one after it, in every thread."""

    def __init__(self, fatal: int) -> None:
        self._left = fatal
        self._lock = threading.Lock()

    def __call__(self, *_: Any) -> None:
        with self._lock:
            self._left -= 1
            if self._left <= 0:
                raise Died


class Deaths(Countdown):
    """Dies once in each state that a process can leave behind, and after that at every step.

    Who dies at a step before which nothing was written leaves what the one before would have left,
    so that such a step is not another one.
    """

    def __init__(self, fatal: int) -> None:
        super().__init__(fatal)
        self._written = True

    def __call__(self, *_: Any) -> None:
        self._pass(writes=False)

    def write(self, *_: Any) -> None:
        """A step after which something is written."""
        self._pass(writes=True)

    def _pass(self, *, writes: bool) -> None:
        with self._lock:
            self._left -= self._written
            self._written = writes
            if self._left <= 0:
                raise Died


class Reached:
    """Dies at the first step whose name has a text in it, and at every one after it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._over = False

    def __call__(self, step: str = "", *_: Any) -> None:
        self._over = self._over or self._text in step
        if self._over:
            raise Died


def step_before(
    patch: pytest.MonkeyPatch, step: Callable[[], None], owner: object, *names: str
) -> None:
    """Make each call of some functions a step."""

    def stepped(inner: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            step()
            return inner(*args, **kwargs)

        return call

    for name in names:
        patch.setattr(owner, name, stepped(getattr(owner, name)))


def step_before_writes(patch: pytest.MonkeyPatch, step: Callable[[], None]) -> None:
    """Make each single write to a storage a step."""
    step_before(patch, step, ObjectStorage, *WRITES)


class Frozen(Protocol):
    """A world that can be set back."""

    def thaw(self) -> object: ...


def each_death(
    frozen: Frozen, dies: Callable[[int], bool], *, stride: int = 1, first: int = 1
) -> Iterator[int]:
    """Set the world back and die in it, once at each step; ends with a life.

    With a stride that is some of the steps, from ``first`` on; ``make soak`` takes all of them.
    """
    for fatal in range(1, MOST_STEPS) if SOAK else range(first, MOST_STEPS, stride):
        frozen.thaw()
        died = dies(fatal)
        yield fatal
        if not died:
            assert fatal > 20
            return
    pytest.fail("there are more steps than the test goes through")


class World(Protocol):
    """A store, and the time in it."""

    @property
    def clock(self) -> FakeClock: ...


def again(world: World, work: Work) -> None:
    """Do it again, when the lock of the one that died is over."""
    with suppress(Conflict):
        work(world)
        return
    world.clock.advance(minutes=17)
    work(world)
