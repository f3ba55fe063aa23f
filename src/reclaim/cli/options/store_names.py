"""Names of stores on the command line."""

from __future__ import annotations

import shlex

from reclaim.stores.registry import name_of, schemes

STORE = (
    "A repository (if deleted, its uid), or another store as SCHEME:LOCATION: "
    + ", ".join(f"{scheme}:PATH" for scheme in schemes())
    + "."
)


def store_option(kind: str, uid: str) -> str:
    """Return the ``--store`` option for a store outside the catalog."""
    return "" if kind == "catalog" else f" --store {shlex.quote(name_of(kind, '', uid))}"
