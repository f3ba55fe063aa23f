"""The sample stores, unpacked once; stores that are collected, in memory and with a clock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reclaim.testing import FakeClock
from tests.support.memory import folder_in_memory
from tests.terminus.samples import FORMATS, Contents, Sample, read_store, unpack
from tests.terminus.world import World, make_world


@pytest.fixture(scope="session", params=FORMATS)
def sample(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return unpack(request.param, tmp_path_factory.mktemp("terminus"))


@pytest.fixture(scope="session")
def contents(sample: Sample) -> Contents:
    return read_store(sample.folder)


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    with folder_in_memory() as folder:
        yield folder


@pytest.fixture
def world(tmp_path: Path, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> World:
    return make_world(tmp_path, clock, monkeypatch)
