"""How people name stores on the command line."""

from __future__ import annotations

import shlex

from reclaim.stores.registry import name_of, schemes

STORE = (
    "A repository (a deleted one by its uid), or another store as SCHEME:LOCATION: "
    + ", ".join(f"{scheme}:PATH" for scheme in schemes())
    + "."
)


def store_option(kind: str, uid: str) -> str:
    """How commands that take a run or a plan name a store that is not of the catalog."""
    return "" if kind == "catalog" else f" --store {shlex.quote(name_of(kind, '', uid))}"
