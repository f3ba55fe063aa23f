"""Seeing a check fail: its test, run with the bug planted that it guards against."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pytest

from tests.planted import plant
from tests.planted.nursery import OPTIONS, Ended, Nursery
from tests.support.soak import SOAK

WARM, COLD = Nursery(warm=True), Nursery(warm=False)


def check_noticed(name: str, servers: Mapping[str, str]) -> None:
    """Run the bug's tests alone, with the bug planted: each of them must fail.

    A soak loads all modules with the bug: what a test has computed as it was loaded is then wrong
    as well, and it may be that to which the test compares.
    """
    bug = plant.BUGS[name]
    tests = bug.tests if SOAK else bug.tests[:1]
    done = (run_cold if SOAK else run_warm)(tests, servers, name)
    for _ in range(bug.tries):
        if done.code != pytest.ExitCode.TESTS_FAILED:
            # It could not be planted there, or something was done before that remembers.
            done = run_cold(tests, servers, name)
    assert done.code == pytest.ExitCode.TESTS_FAILED, done.output
    assert re.search(rf"^{len(tests)} failed(, \d+ errors?)? in", done.output.splitlines()[-1]), (
        done.output
    )


def run_warm(tests: Sequence[str], servers: Mapping[str, str], bug: str = "") -> Ended:
    """Run tests where all is loaded already, with a bug or without."""
    return WARM.run([*tests, *OPTIONS], {**servers, **_planted(bug)}, bug)


def run_cold(tests: Sequence[str], servers: Mapping[str, str], bug: str = "") -> Ended:
    """Run tests where our modules are yet to be loaded, with a bug or without."""
    return COLD.run([*tests, *OPTIONS, "-p", plant.__name__], {**servers, **_planted(bug)})


def _planted(bug: str) -> dict[str, str]:
    return {plant.VARIABLE: bug} if bug else {}
