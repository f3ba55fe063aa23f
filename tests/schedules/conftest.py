"""The past of all schedules, built once a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from reclaim.testing.scheduler import known_ids
from tests.schedules.checks import Checks
from tests.schedules.exploring import Golden
from tests.schedules.past import Past


@pytest.fixture(scope="session")
def past() -> Iterator[Past]:
    with known_ids([]):
        made = Past()
    yield made
    made.close()


@pytest.fixture(scope="session")
def checks(past: Past) -> Checks:
    return Checks(past)


@pytest.fixture(scope="session")
def golden() -> Golden:
    return Golden()
