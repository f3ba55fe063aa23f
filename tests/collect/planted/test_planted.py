"""See each check fail once: with a bug planted, the test that guards against it must fail."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.collect.planted import plant
from tests.collect.planted.bugs import BUGS

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_noticed(name: str) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", BUGS[name].test),
            *("-p", plant.__name__, "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "--tb=line"),
        ],
        cwd=ROOT,
        env=os.environ | {plant.VARIABLE: name},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^1 failed", done.stdout.splitlines()[-1]), done.stdout
