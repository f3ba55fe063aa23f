"""Names of runs: an id, the start of an id, or ``latest``. Ambiguous names are refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reclaim.stores.base import Store

LATEST = "latest"
OTHER_STORE = "a run of a store outside the catalog needs --store SCHEME:LOCATION"
RUN_HELP = "The run: its id, the start of its id, or `latest`; see `reclaim runs`."


def find_id(stores: Sequence[Store], name: str) -> str:
    """Return the id of the only matching run of some stores."""
    from reclaim.api.run import find_id

    return find_id(stores, name)
