"""See each check fail once: with a bug planted, the test that guards against it must fail."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.terminus import planted
from tests.terminus.planted import BUGS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_noticed(name: str) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", BUGS[name].test),
            *("-p", planted.__name__, "-p", "no:cacheprovider", "-p", "no:xdist"),
            *("-q", "--tb=line"),
        ],
        cwd=ROOT,
        env=os.environ | {planted.VARIABLE: name},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^1 failed", done.stdout.splitlines()[-1]), done.stdout
