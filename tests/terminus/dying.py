"""Runs that die at a step.

A step is what a process could die between: every call of the store, every task of the plain
engine, every single write to the disk, and inside a directory every file of it. The lock of a
process that died stays taken.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reclaim.stores.sidecar.lock import SidecarLock
from tests.support.dying import Deaths, Died, Work, step_before, step_before_writes
from tests.terminus.world import World, stepped


def dies(world: World, work: Work, fatal: int) -> bool:
    """Do something and die at a step, with the lock in hand; False when there are fewer steps."""
    deaths = Deaths(fatal)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SidecarLock, "give_back", lambda *_: None)
            _step_through_writes(patch, deaths.write)
            work(world, store=stepped(world.store(), deaths), step=deaths)
    except Died:
        return True
    return False


def _step_through_writes(patch: pytest.MonkeyPatch, step: Callable[[], None]) -> None:
    step_before_writes(patch, step)
    step_before(patch, step, os, "utime")
    step_before(patch, step, Path, "rename")
    patch.setattr(shutil, "rmtree", lambda path: _remove(Path(path), step))


def _remove(folder: Path, step: Callable[[], None]) -> None:
    """As ``shutil.rmtree``, with a step for every tenth file and the last ones."""
    for number, path in enumerate(sorted(folder.iterdir())):
        if number % 10 == 0 or number > 40:
            step()
        path.unlink()
    step()
    folder.rmdir()
