"""Expanding snapshots: all the containers that they need, each once, live ones before dead ones.

What a survey has read before is not read again. Where nothing is left to read and there is little
to put together, the driver does it by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from reclaim.engine.answers import NO_CONTAINERS, ContainerFiles, Surveyed, named_containers
from reclaim.engine.requests import ExpandRequest
from reclaim.engine.spark.finding import run_here
from reclaim.engine.spark.frames import Frames, Lines
from reclaim.engine.spark.work import containers
from reclaim.engine.tasks.parts import Part, open_storage, read_part
from reclaim.engine.tasks.reading import LIVE, as_named
from reclaim.stores.format import CONTAINERS, OWNED

FEW_CONTAINERS = 100_000
"""So many containers, some ten megabytes, are put together on the driver."""


class Expander:
    """Expands the containers of snapshots."""

    def __init__(self, frames: Frames, driver_row_limit: int) -> None:
        self._frames = frames
        self._driver_row_limit = driver_row_limit

    def expand(self, request: ExpandRequest) -> ContainerFiles:
        format, named, place = request.format, request.containers, request.place
        if not named.num_rows:
            return NO_CONTAINERS
        if written := named_containers(format, named, place, open_storage(place.url)):
            return written
        if request.surveyed is not None and _fits_driver(request, request.surveyed):
            return _on_driver(request, request.surveyed)
        if request.surveyed is None and self._compares_few(request):
            return _container_files(run_here(partial(containers.expand_here, request), named))
        listed = self._listed(request)
        best = F.min_by(F.struct("kind", "detail", "entries", "cause"), "cause").alias("best")
        once = (
            listed.groupBy("address")
            .agg(best)
            .select("address", "best.kind", "best.detail", "best.entries", "best.cause")
        )
        rows = sum(part.rows for part in request.known)
        if request.known:
            live = live_addresses(self._frames, place.url, request.known)
            once = once.join(live.withColumn("known", F.lit(True)), on="address", how="left")
        else:
            once = once.withColumn("known", F.lit(None).cast("boolean"))
        lines = self._frames.run(
            once.select(*CONTAINERS.names, "known"),
            partial(containers.write_containers, place),
            # How many containers each of them lists is not known yet; some hundreds are usual.
            shuffled=rows + 100 * named.num_rows,
        )
        return _container_files(lines)

    def _compares_few(self, request: ExpandRequest) -> bool:
        """Whether the driver can expand some containers by itself and compare them with known ones.

        Each lists about as many as are known, or fewer.
        """
        listed: int = sum(part.rows for part in request.known) * request.containers.num_rows
        return 0 < listed <= self._driver_row_limit

    def _listed(self, request: ExpandRequest) -> DataFrame:
        """Snapshot containers and what they list, read or as a survey found it."""
        expand = partial(containers.expand, request.format)
        if request.surveyed is None:
            return self._frames.spread(request.containers).map(expand, CONTAINERS)
        unread, known = request.surveyed.part(request.format, request.containers)
        owned = self._frames.rows_of(request.place.url, request.surveyed.listed, OWNED)
        causes = self._frames.frame(_causes(known))
        rows = owned.drop("cause").join(causes, on="owner", how="inner")
        listed = self._frames.spread(unread).map(expand, CONTAINERS)
        return listed.union(rows.select(*CONTAINERS.names))


def live_addresses(frames: Frames, url: str, parts: Sequence[Part]) -> DataFrame:
    """The addresses of the live containers in files, each once.

    Whole ones: a container that is taken for another would not be read.
    """
    rows = frames.rows_of(url, parts, CONTAINERS)
    return rows.where(F.col("cause") == LIVE).select("address").distinct()


def _fits_driver(request: ExpandRequest, surveyed: Surveyed) -> bool:
    """Whether nothing is left to read, and what was read is little."""
    unread, _ = surveyed.part(request.format, request.containers)
    reads = pa.array(request.format.reads, pa.string())
    if request.known or pc.any(pc.is_in(unread.column("kind"), reads)).as_py():
        return False
    rows: int = unread.num_rows + sum(part.rows for part in surveyed.listed)
    return rows <= FEW_CONTAINERS


def _on_driver(request: ExpandRequest, surveyed: Surveyed) -> ContainerFiles:
    """Do what ``expand`` does in this process, which takes less time than a job."""
    storage = open_storage(request.place.url)
    unread, known = surveyed.part(request.format, request.containers)
    parts = [read_part(storage, part) for part in surveyed.listed]
    owned = pa.concat_tables([OWNED.empty_table(), *parts]).drop_columns(["cause"])
    rows = owned.join(_causes(known), "owner", join_type="inner").select(CONTAINERS.names)
    listed = pa.concat_tables([as_named(unread), rows.cast(CONTAINERS)])
    # So that of each address the first has the least cause.
    grouped = listed.sort_by("cause").group_by("address", use_threads=False)
    others = CONTAINERS.names[1:]
    once = grouped.aggregate([(name, "first") for name in others])
    columns = [once.column("address"), *(once.column(f"{name}_first") for name in others)]
    unknown = pa.nulls(once.num_rows, pa.bool_())
    table = pa.table(columns, schema=CONTAINERS).append_column("known", unknown)
    return _container_files(run_here(partial(containers.write_containers, request.place), table))


def _causes(known: pa.Table) -> pa.Table:
    return known.select(["address", "cause"]).rename_columns(["owner", "cause"])


def _container_files(lines: Lines) -> ContainerFiles:
    return ContainerFiles(
        lines.parts,
        of_snapshots=lines.sum("of_snapshots"),
        containers=lines.sum("containers"),
        entries=lines.sum("entries"),
        dead=lines.sum("dead"),
    )
