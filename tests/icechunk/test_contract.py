"""The contract of stores, on repositories of both specs."""

from __future__ import annotations

from pathlib import Path

import pytest

from reclaim.testing.stores import AbilityContract, RunContract, StoreContract
from tests.icechunk.subject import IcechunkSubject

pytestmark = pytest.mark.fast


class TestIcechunkStore(StoreContract, AbilityContract, RunContract):
    @pytest.fixture
    def subject(self, tmp_path: Path, spec: int) -> IcechunkSubject:
        return IcechunkSubject(tmp_path, spec)
