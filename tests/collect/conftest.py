"""Fixtures for collecting: a catalog with something dead in it, and ranges of two entries or so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from reclaim.catalog.content import ranges
from tests.collect.helpers.versioned import on, set_versioning
from tests.collect.helpers.world import World
from tests.conftest import Backend
from tests.support.memory import folder_in_memory
from tests.support.servers import SeaweedFS


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with folder_in_memory() as folder:
        yield folder


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


@pytest.fixture(scope="session")
def versioned_bucket(s3: SeaweedFS) -> str:
    bucket = s3.new_bucket()
    set_versioning(bucket, "Enabled")
    return bucket


@pytest.fixture
def versioned(versioned_bucket: str, tmp_path: Path) -> Iterator[World]:
    yield from on(f"{versioned_bucket}/{uuid4().hex}", tmp_path)
