"""Arrow, loaded without numpy: for commands that show or change a few rows.

Arrow needs numpy only to exchange arrays with it, which is what an engine does. A short command
spends a fifth of its time on loading it.
"""

from __future__ import annotations

import sys


def load_without_numpy() -> None:
    """Load Arrow, if nothing has yet. Whoever needs numpy afterwards can still import it."""
    if "pyarrow" in sys.modules or "numpy" in sys.modules:
        return
    # Python takes a module that is None for one that is not installed.
    sys.modules["numpy"] = None  # type: ignore[assignment]
    try:
        import pyarrow.parquet  # noqa: F401
    finally:
        del sys.modules["numpy"]
