"""Seeing a check fail: its test, run with the bug planted that it guards against."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.collect.planted.bugs import Bug

ROOT = Path(__file__).parents[3]


def check_noticed(name: str, bug: Bug, *, plugin: str, variable: str) -> None:
    """Run the bug's test alone, with the plugin that plants what the variable names."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", bug.test),
            *("-p", plugin, "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "--tb=line"),
        ],
        cwd=ROOT,
        env=os.environ | {variable: name},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"^1 failed", done.stdout.splitlines()[-1]), done.stdout
