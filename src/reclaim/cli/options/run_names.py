"""Names of runs: an id, the start of one, or ``latest``. A name that fits several is refused."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from reclaim.cli.views.describe import SHORT, instant
from reclaim.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from reclaim.run_record import RunRecord
    from reclaim.stores.base import Store

LATEST = "latest"
SHORTEST = 4
"""How many digits of an id are enough, if no other run has them."""
OTHER_STORE = "a run of another store than the catalog's needs --store SCHEME:LOCATION"
RUN_HELP = "The run: its id, the start of its id, or `latest`; see `reclaim runs`."

_WHOLE = re.compile(r"[0-9a-f]{32}")
_START = re.compile(r"[0-9a-f]+")


def is_whole(name: str) -> bool:
    """Whether a name is a run's whole id."""
    return _WHOLE.fullmatch(name) is not None


def find_id(stores: Sequence[Store], name: str) -> str:
    """The id of the one run of some stores that a name fits."""
    if is_whole(name):
        return name
    if name != LATEST and not (_START.fullmatch(name) and len(name) >= SHORTEST):
        raise NotFound(
            f"there is no run {name!r}",
            hint=f"give its id, {SHORTEST} or more of its first digits, or `{LATEST}`; "
            f"see `reclaim runs`; {OTHER_STORE}",
        )
    runs = [(store, run) for store in stores for run in store.runs()]
    if name == LATEST:
        if not runs:
            raise NotFound("there is no run yet", hint=OTHER_STORE)
        return max(runs, key=lambda listed: listed[1].started_at)[1].id
    fitting = [(store, run) for store, run in runs if run.id.startswith(name)]
    if not fitting:
        raise NotFound(f"there is no run {name}", hint=f"see `reclaim runs`; {OTHER_STORE}")
    if len(fitting) > 1:
        raise InvalidInput(
            f"several runs start with {name}: {', '.join(_described(*one) for one in fitting)}",
            hint="give more of the id",
            runs=[run.id for _, run in fitting],
        )
    return fitting[0][1].id


def _described(store: Store, run: RunRecord) -> str:
    return f"{run.id[:SHORT]} ({run.kind} of {store.name}, {instant(run.started_at)} UTC)"
