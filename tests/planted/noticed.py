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
    """Run the bug's tests alone, with the bug planted: each of them must fail."""
    tests = plant.BUGS[name].tests
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", *tests),
            *("-p", plant.__name__, "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "--tb=line"),
        ],
        cwd=ROOT,
        # Plugins of libraries that happen to be installed take longer to load than most tests.
        env=os.environ | {plant.VARIABLE: name, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(rf"^{len(tests)} failed in", done.stdout.splitlines()[-1]), done.stdout
