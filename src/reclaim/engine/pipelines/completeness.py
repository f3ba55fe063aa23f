"""Completeness of snapshots, checked against a listing."""

from __future__ import annotations

from functools import partial

from reclaim.engine.base import JobRunner
from reclaim.engine.pipelines.reading import count_rows, count_tasks, rows_of
from reclaim.engine.requests import IncompleteRequest
from reclaim.engine.tasks.parts import ADDRESSES
from reclaim.engine.tasks.reading import NEEDS
from reclaim.engine.work import candidates, containers, parts, sweeping
from reclaim.stores.format import CONTAINERS, OWNED


def incomplete(engine: JobRunner, request: IncompleteRequest) -> frozenset[str]:
    """Return snapshot containers with missing or unreadable objects."""
    format, place = request.format, request.place
    if not request.containers.num_rows:
        return frozenset()
    listed = engine.spread(request.containers).map(partial(containers.owned, format), OWNED)
    # Written to files: both joins below need them, and reading takes long.
    write = partial(parts.write_rows, place.below("owned"))
    written = engine.run("read", listed, write).parts
    owned = rows_of(engine, place.url, written, OWNED)
    count = count_rows(written)
    each = owned.select(*CONTAINERS.names).group("address")
    spread = each.select(*CONTAINERS.names).repartition(count_tasks(engine, count))
    needs = spread.map(partial(containers.needs, format), NEEDS)
    source = candidates.Source(format, request.objects)
    there = engine.files(request.objects.parts).map(source.folded, ADDRESSES)
    if request.not_restored:
        read = partial(sweeping.read_not_restored, place.url, request.quarantine)
        failed = engine.files(request.not_restored).map(read, ADDRESSES)
        there = there.join(failed, "address", "left_anti")
    if request.expired:
        read_expired = partial(sweeping.read_expired, place.url)
        there = there.union(engine.files(request.expired).map(read_expired, ADDRESSES))
    missing = needs.join(there, "address", "left_anti")
    broken = missing.select("owner").distinct().rename("owner", "address")
    owners = owned.join(broken, "address", "left_semi").select("owner").distinct()
    shuffled = count + count_rows(request.objects.parts, request.not_restored, request.expired)
    rows = engine.collect("verify", owners, shuffled=shuffled)
    return frozenset(row["owner"] for row in rows)
