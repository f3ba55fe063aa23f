"""The pasts of all schedules, built once a process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.schedules.checks import Checks
from tests.schedules.exploring import Golden
from tests.schedules.forgetting import forgetful
from tests.schedules.past import Pasts
from tests.schedules.saving import saving


@pytest.fixture(scope="session")
def pasts() -> Iterator[Pasts]:
    made = Pasts()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def forgetful_calls() -> Iterator[None]:
    with forgetful():
        yield


@pytest.fixture(scope="package", autouse=True)
def saved_work() -> Iterator[None]:
    with saving():
        yield


@pytest.fixture(scope="session")
def checks() -> Checks:
    return Checks()


@pytest.fixture(scope="session")
def golden() -> Golden:
    return Golden()
