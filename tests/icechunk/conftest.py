"""Repositories of each spec that the installed library writes."""

from __future__ import annotations

from pathlib import Path

import icechunk
import pytest

from tests.icechunk.repositories import SPECS, WrittenRepository

# It warns of local disks, on each repository that is opened.
icechunk.set_logs_filter("error")


@pytest.fixture(params=SPECS, ids=[f"spec {spec}" for spec in SPECS])
def spec(request: pytest.FixtureRequest) -> int:
    number: int = request.param
    return number


@pytest.fixture
def written(tmp_path: Path, spec: int) -> WrittenRepository:
    return WrittenRepository.create(tmp_path / "repository", spec)
