"""The machine of quarantine: known sequences that once lost something, and random ones.

``RECLAIM_SOAK=1`` makes it run for long.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from tests.collect.helpers.quarantine_machine import QuarantineMachine
from tests.collect.helpers.removals import (
    ENABLED,
    OFF,
    SUSPENDED,
    BucketDriver,
    Buckets,
    Driver,
    FolderDriver,
    MarkersDriver,
)
from tests.collect.helpers.sequences import (
    BUCKET,
    LOCAL,
    MARKERS,
    MARKERS_OFF,
    SEQUENCES,
    SUSPENDED_MARKERS,
    follow,
)
from tests.support.servers import SeaweedFS
from tests.support.soak import SOAK

pytestmark = pytest.mark.repeats(first=2)

DRIVERS: dict[str, Callable[[Buckets], Driver]] = {
    BUCKET: lambda buckets: BucketDriver(buckets, OFF),
    MARKERS: lambda buckets: MarkersDriver(buckets, ENABLED),
    MARKERS_OFF: lambda buckets: MarkersDriver(buckets, OFF),
    SUSPENDED_MARKERS: lambda buckets: MarkersDriver(buckets, SUSPENDED),
}
EXAMPLES, STEPS = (1_000, 40) if SOAK else (3, 10)
SERVER_EXAMPLES, SERVER_STEPS = (300, 40) if SOAK else (2, 6)
"""Hypothesis begins with the shortest sequence that there is; the rest are random."""
SEARCHED = [LOCAL, *DRIVERS] if SOAK else [LOCAL, MARKERS_OFF]


@pytest.fixture(scope="session")
def buckets(s3: SeaweedFS) -> Buckets:
    return Buckets(s3)


def make_driver(kind: str, request: pytest.FixtureRequest) -> Driver:
    return FolderDriver() if kind == LOCAL else DRIVERS[kind](request.getfixturevalue("buckets"))


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_known_sequence(name: str, request: pytest.FixtureRequest) -> None:
    kind, steps = SEQUENCES[name]
    follow(QuarantineMachine(make_driver(kind, request)), steps)


@pytest.mark.parametrize("kind", SEARCHED)
def test_any_sequence(kind: str, request: pytest.FixtureRequest) -> None:
    driver = make_driver(kind, request)
    examples, steps = (EXAMPLES, STEPS) if kind == LOCAL else (SERVER_EXAMPLES, SERVER_STEPS)
    run_state_machine_as_test(
        lambda: QuarantineMachine(driver),  # type: ignore[arg-type]
        settings=settings(settings.default, max_examples=examples, stateful_step_count=steps),
    )
