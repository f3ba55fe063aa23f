"""How long random tests search: briefly in ``make test``, for hours in ``make soak``."""

from __future__ import annotations

import os

SOAK = bool(os.environ.get("RECLAIM_SOAK"))
MORE = 100 if SOAK else 1
"""Times the examples of a short search."""
FIRST_FAILURE = "RECLAIM_FIRST_FAILURE"
"""The variable with which a random search ends at a failure, and looks for no simpler one."""
