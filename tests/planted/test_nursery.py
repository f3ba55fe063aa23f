"""Where no bug is planted none is noticed: otherwise it would say nothing that one is.

Each test is alone, as it is with a bug.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.planted.noticed import run_cold, run_warm
from tests.planted.plant import BUGS
from tests.support.soak import SOAK

pytestmark = pytest.mark.repeats(first=6)

TESTS = sorted({test for bug in BUGS.values() for test in bug.tests})
SOME = TESTS[:: 1 if SOAK else 25]


@pytest.mark.parametrize("test", SOME)
def test_in_a_process_that_has_loaded_everything(test: str, servers: Mapping[str, str]) -> None:
    done = run_warm([test], servers)
    assert done.code == 0, done.output


@pytest.mark.parametrize("test", SOME if SOAK else SOME[::10])
def test_in_a_process_that_has_loaded_only_libraries(test: str, servers: Mapping[str, str]) -> None:
    done = run_cold([test], servers)
    assert done.code == 0, done.output
