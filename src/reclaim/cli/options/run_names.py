"""Names of runs: an id, the start of one, or ``latest``. A name that fits several is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from reclaim.stores.base import Store

LATEST = "latest"
OTHER_STORE = "a run of another store than the catalog's needs --store SCHEME:LOCATION"
RUN_HELP = "The run: its id, the start of its id, or `latest`; see `reclaim runs`."


def find_id(stores: Sequence[Store], name: str) -> str:
    """The id of the only run of some stores that a name fits."""
    from reclaim.api.run import find_id

    return find_id(stores, name)
