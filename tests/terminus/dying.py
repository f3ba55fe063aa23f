"""Runs that die at a step.

A step is what a process could die between: every call of the store, every task of the plain
engine, every single write to the disk, and inside a directory every file of it. After its death a
process does nothing any more; its lock stays taken.
"""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from reclaim.storage import ObjectStorage
from reclaim.stores.beside.lock import Lock
from tests.terminus.world import World, stepped

WRITES = ("put", "copy", "move", "delete")


class Died(BaseException):
    """A process that ends in the middle."""


class Countdown:
    """Dies at the nth step, and at every one after it."""

    def __init__(self, fatal: int) -> None:
        self._left = fatal
        self._lock = threading.Lock()

    def __call__(self, *_: Any) -> None:
        with self._lock:
            self._left -= 1
            if self._left <= 0:
                raise Died


class Work(Protocol):
    """A run: ``World.apply`` and its like, with everything but how it is stepped through."""

    def __call__(self, world: World, **how: Any) -> object: ...


def dies(world: World, work: Work, fatal: int) -> bool:
    """Do something and die at a step, with the lock in hand; False when there are fewer steps."""
    countdown = Countdown(fatal)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Lock, "give_back", lambda *_: None)
            _step_through_writes(patch, countdown)
            work(world, store=stepped(world.store(), countdown), step=countdown)
    except Died:
        return True
    return False


def _step_through_writes(patch: pytest.MonkeyPatch, step: Callable[..., None]) -> None:
    def before(inner: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            step()
            return inner(*args, **kwargs)

        return call

    for name in WRITES:
        patch.setattr(ObjectStorage, name, before(getattr(ObjectStorage, name)))
    patch.setattr(os, "utime", before(os.utime))
    patch.setattr(Path, "rename", before(Path.rename))
    patch.setattr(shutil, "rmtree", lambda path: _remove(Path(path), step))


def _remove(folder: Path, step: Callable[..., None]) -> None:
    """As ``shutil.rmtree``, with a step for every tenth file and the last ones."""
    for number, path in enumerate(sorted(folder.iterdir())):
        if number % 10 == 0 or number > 40:
            step()
        path.unlink()
    step()
    folder.rmdir()
