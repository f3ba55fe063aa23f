"""The location of the catalog where none is named."""

from __future__ import annotations

import os

DEFAULT_CATALOG = ".reclaim"
CATALOG_VARIABLE = "RECLAIM_CATALOG"


def default_location() -> str:
    """The location in the environment, or else the folder ``.reclaim``."""
    return os.environ.get(CATALOG_VARIABLE) or DEFAULT_CATALOG
