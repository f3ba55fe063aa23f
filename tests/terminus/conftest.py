"""The sample stores, unpacked once; stores that are collected, in memory and with a clock."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from reclaim.testing import FakeClock
from tests.terminus.samples import FORMATS, Contents, Sample, read_store, unpack
from tests.terminus.world import World

MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session", params=FORMATS)
def sample(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return unpack(request.param, tmp_path_factory.mktemp("terminus"))


@pytest.fixture(scope="session")
def contents(sample: Sample) -> Contents:
    return read_store(sample.folder)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory where there is one: thousands of small files would wait for a disk."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture
def world(tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> World:
    """A store without layers. What is touched gets the time of the test's clock."""
    real = os.utime

    def touch(path: Any, times: Any = None, **how: Any) -> None:
        now = clock.now().timestamp()
        real(path, times if times or how else (now, now), **how)

    monkeypatch.setattr(os, "utime", touch)
    folder = tmp_path / "store"
    folder.mkdir()
    return World(folder, clock)
