"""Objects needed by promised snapshots, which runs can restore."""

from __future__ import annotations

from functools import partial

from reclaim.engine.answers import Needed
from reclaim.engine.base import JobRunner
from reclaim.engine.pipelines.live_keys import live_addresses
from reclaim.engine.pipelines.reading import count_rows, count_tasks
from reclaim.engine.requests import NeededRequest
from reclaim.engine.tasks.promised import EACH_CONTAINER, LISTED_CONTAINERS, Unread
from reclaim.engine.work import containers


def needed(engine: JobRunner, request: NeededRequest) -> Needed:
    """Return every address promised snapshots need.

    Each container is read once, from its own address or from quarantine; containers unreadable at
    both are counted.
    """
    format, place = request.format, request.place
    if not request.containers.num_rows:
        return Needed()
    list_promised = partial(containers.list_promised, format)
    listed = engine.spread(request.containers).map(list_promised, LISTED_CONTAINERS)
    each = listed.group("address", order=("detail",), collect=("aside",)).rename("aside", "asides")
    if request.known:
        each = each.join(live_addresses(engine, place.url, request.known), "address", "left_anti")
    # Snapshots list hundreds of containers each, and most of them the same.
    count = 100 * request.containers.num_rows
    rows = each.select(*EACH_CONTAINER.names).repartition(count_tasks(engine, count))
    write = partial(containers.write_needed, format, place)
    lines = engine.run("needed", rows, write, shuffled=count + count_rows(request.known))
    return Needed(lines.parts, Unread.of(lines.reports()))
