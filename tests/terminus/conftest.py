"""The sample stores, unpacked once."""

from __future__ import annotations

import pytest

from tests.terminus.samples import FORMATS, Contents, Sample, read_store, unpack


@pytest.fixture(scope="session", params=FORMATS)
def sample(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Sample:
    return unpack(request.param, tmp_path_factory.mktemp("terminus"))


@pytest.fixture(scope="session")
def contents(sample: Sample) -> Contents:
    return read_store(sample.folder)
