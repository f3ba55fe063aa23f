"""Fixtures for collecting: a catalog with something dead in it, and ranges of two entries or so."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from reclaim.catalog import ranges
from tests.collect.world import World
from tests.conftest import Backend

MEMORY = Path("/dev/shm")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A folder in memory where there is one: thousands of small commits would wait for a disk."""
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small histories have many ranges, shared by commits and not."""
    monkeypatch.setattr(ranges, "TARGET_ROWS", 2)


@pytest.fixture
def world(backend: Backend) -> World:
    """On each back end."""
    return World.make(backend)


@pytest.fixture
def local(embedded: Backend) -> World:
    """On SQLite and a folder."""
    return World.make(embedded)
