"""Expand snapshots into all the containers they need, each once, live before dead.

Containers read by a survey are not read again.
"""

from __future__ import annotations

from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.answers import NO_CONTAINERS, ContainerFiles, Surveyed, named_containers
from reclaim.engine.base import JobRunner
from reclaim.engine.pipelines.live_keys import live_addresses
from reclaim.engine.pipelines.reading import count_rows, rows_of
from reclaim.engine.requests import ExpandRequest
from reclaim.engine.rows import Rows
from reclaim.engine.work import containers
from reclaim.stores.format import CONTAINERS, OWNED

FEW_CONTAINERS = 100_000
"""Containers combined on the driver, some ten megabytes."""


def expand(engine: JobRunner, request: ExpandRequest) -> ContainerFiles:
    """Return all containers of snapshots, each once, live before dead."""
    format, named, place = request.format, request.containers, request.place
    if not named.num_rows:
        return NO_CONTAINERS
    if written := named_containers(format, named, place, engine.open(place.url)):
        return written
    if _is_little(request):
        engine = engine.runner_for(count_rows(request.known) * named.num_rows)
    # For each container the row with the least cause.
    once = _listed(engine, request).group("address", order=("cause",))
    if request.known:
        once = once.join(live_addresses(engine, place.url, request.known), "address", "left")
    # The number of containers each of them lists is unknown; some hundreds are usual.
    shuffled = count_rows(request.known) + 100 * named.num_rows
    write = partial(containers.write_containers, place)
    lines = engine.run("expand", once, write, shuffled=shuffled)
    return ContainerFiles(
        lines.parts,
        of_snapshots=lines.sum("of_snapshots"),
        containers=lines.sum("containers"),
        entries=lines.sum("entries"),
        dead=lines.sum("dead"),
    )


def _listed(engine: JobRunner, request: ExpandRequest) -> Rows:
    """Return snapshot containers and the containers they list, read now or by a survey."""
    expand = partial(containers.expand, request.format)
    if request.surveyed is None:
        return engine.spread(request.containers).map(expand, CONTAINERS)
    unread, known = request.surveyed.part(request.format, request.containers)
    owned = rows_of(engine, request.place.url, request.surveyed.listed, OWNED)
    causes = engine.spread(known.select(["address", "cause"]).rename_columns(["owner", "cause"]))
    others = [name for name in OWNED.names if name != "cause"]
    rows = owned.select(*others).join(causes, "owner", "inner").select(*CONTAINERS.names)
    return engine.spread(unread).map(expand, CONTAINERS).union(rows)


def _is_little(request: ExpandRequest) -> bool:
    """Return whether the driver can combine the containers by itself.

    True if a survey has read everything and the result is small, or if few snapshot containers are
    compared with known ones, each of which lists about as many or fewer.
    """
    if request.surveyed is None:
        return count_rows(request.known) > 0
    return not request.known and _has_read_all(request, request.surveyed)


def _has_read_all(request: ExpandRequest, surveyed: Surveyed) -> bool:
    """Return whether a survey has left nothing to read and has found few containers."""
    unread, _ = surveyed.part(request.format, request.containers)
    reads = pa.array(request.format.reads, pa.string())
    if pc.any(pc.is_in(unread.column("kind"), reads)).as_py():
        return False
    rows: int = unread.num_rows + count_rows(surveyed.listed)
    return rows <= FEW_CONTAINERS
