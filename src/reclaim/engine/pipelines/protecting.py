"""Protection of a store: find every path its globs match."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pyarrow as pa

from reclaim.engine.base import JobRunner
from reclaim.engine.pipelines.reading import count_rows, count_tasks, rows_of
from reclaim.engine.tasks.judging import PATHS
from reclaim.engine.tasks.parts import Part
from reclaim.engine.tasks.reading import LIVE
from reclaim.engine.tasks.shielding import Matches, MatchRequest, MergeRequest, ShieldRequest
from reclaim.engine.work import shielding
from reclaim.engine.work.lines import Lines, Work
from reclaim.stores.format import CONTAINERS


def match(engine: JobRunner, request: MatchRequest) -> Matches:
    """Write paths in dead containers matched by globs, with their addresses."""
    place = request.place
    if not request.containers:
        write = partial(shielding.write_listed, request.globs, place)
        lines = _run(engine, "match", request.listed, write)
        return Matches(lines.parts, lines.sum("containers"))
    rows = rows_of(engine, place.url, request.containers, CONTAINERS)
    tasks = count_tasks(engine, count_rows(request.containers))
    dead = rows.where("cause", LIVE, equal=False).repartition(tasks)
    lines = engine.run(
        "match", dead, partial(shielding.write_matches, request.format, request.globs, place)
    )
    return Matches(lines.parts, lines.sum("containers"), lines.sum("unread"))


def shield(engine: JobRunner, request: ShieldRequest) -> Sequence[Part]:
    """Write addresses with the glob matching a path of theirs, as ``SHIELDS``."""
    globs, place = request.globs, request.place
    written: list[Part] = []
    for url, parts in ((place.url, request.matches), (request.url, request.remembered)):
        write = partial(shielding.write_shields, url, globs, place)
        written += _run(engine, "shield", parts, write).parts
    if request.files:
        names = pa.table({"address": pa.array(request.files, pa.string())})
        write = partial(shielding.write_hashed_shields, globs, place)
        # A file of the store has some ten thousand rows.
        spread = engine.runner_for(0) if len(request.files) == 1 else engine
        written += spread.run("shield", spread.spread(names), write).parts
    return written


def merge(engine: JobRunner, request: MergeRequest) -> Sequence[Part]:
    """Merge lists of paths: each path once, if a glob matches it."""
    rows = rows_of(engine, request.place.url, request.parts, PATHS).distinct()
    write = partial(shielding.write_distinct, request.globs, request.place)
    return engine.run("merge", rows, write, shuffled=count_rows(request.parts)).parts


def _run(engine: JobRunner, step: str, parts: Sequence[Part], work: Work) -> Lines:
    """Run work on parts, in this process if they are small."""
    if not parts:
        return Lines(())
    engine = engine.runner_for(count_rows(parts))
    return engine.run(step, engine.files(parts), work)
