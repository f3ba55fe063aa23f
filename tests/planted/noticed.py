"""Seeing a check fail: its test, run with the bug planted that it guards against."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.planted import plant

ROOT = Path(__file__).parents[2]


def check_noticed(name: str) -> None:
    """Run the bug's test alone, with the bug planted."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", plant.BUGS[name].test),
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
