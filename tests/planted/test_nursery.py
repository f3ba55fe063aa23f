"""Where no bug is planted none is noticed: otherwise it would say nothing that one is."""

from __future__ import annotations

from tests.planted.noticed import run_cold, run_warm
from tests.planted.plant import BUGS
from tests.soak import SOAK

TESTS = sorted({test for bug in BUGS.values() for test in bug.tests})
SOME = TESTS[:: 1 if SOAK else 25]


def test_in_a_process_that_has_loaded_everything() -> None:
    done = run_warm(SOME)
    assert done.code == 0, done.output


def test_in_a_process_that_has_loaded_only_libraries() -> None:
    done = run_cold(SOME)
    assert done.code == 0, done.output
