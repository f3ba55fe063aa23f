"""Seeing a check fail: its test, run with the bug planted that it guards against."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tests.planted import plant
from tests.planted.nursery import Ended, Nursery

NURSERY = Nursery()


def check_noticed(name: str) -> None:
    """Run the bug's tests alone, with the bug planted: each of them must fail."""
    bug = plant.BUGS[name]
    done = _run(name, bug.tests)
    for _ in range(1, bug.tries):
        if done.code == 0:
            done = _run(name, bug.tests)
    assert done.code == 1, done.output
    assert re.search(
        rf"^{len(bug.tests)} failed(, \d+ errors?)? in", done.output.splitlines()[-1]
    ), done.output


def _run(name: str, tests: Sequence[str]) -> Ended:
    return NURSERY.run(
        [
            *tests,
            *("-p", plant.__name__, "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "--tb=line"),
            # A test that fails may leave a connection open; that is not what is looked for.
            *("-p", "no:unraisableexception"),
        ],
        # Plugins of libraries that happen to be installed take longer to load than most tests.
        {plant.VARIABLE: name, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )
