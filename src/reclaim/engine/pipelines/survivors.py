"""Survivors: objects no live container lists, and the dead containers listing them."""

from __future__ import annotations

from functools import partial

import pyarrow as pa

from reclaim.engine.answers import Candidates
from reclaim.engine.base import JobRunner
from reclaim.engine.pipelines.live_keys import Keys, can_load, key_rows
from reclaim.engine.pipelines.reading import count_rows
from reclaim.engine.rows import Rows
from reclaim.engine.tasks.judging import SURVIVORS, Verdict
from reclaim.engine.tasks.parts import Place
from reclaim.engine.work import candidates
from reclaim.engine.work.candidates import Source
from reclaim.engine.work.containers import JOIN_KEY
from reclaim.engine.work.lines import Lines
from reclaim.storage import LISTED


def without_keys(engine: JobRunner, rows: Rows, schema: pa.Schema, live: Keys, url: str) -> Rows:
    """Return rows whose addresses have none of the keys in files."""
    if can_load(engine, live):
        return rows.map(partial(candidates.unlisted, url, live, engine.keys_of), schema)
    keyed = rows.map(partial(candidates.with_keys, engine.keys_of), schema.append(JOIN_KEY))
    return keyed.join(key_rows(engine, live, url), "key", "left_anti").select(*schema.names)


def write_survivors(engine: JobRunner, source: Source, live: Keys, place: Place) -> Lines:
    """Write the objects whose keys are not live; the reports count all objects."""
    files = engine.files(source.objects.parts)
    write = partial(candidates.write_survivors, place)
    if can_load(engine, live):
        look = partial(candidates.survivors, source, place.url, live, engine.keys_of)
        return engine.run("compare", files, partial(candidates.with_counts, look, write))
    left = without_keys(engine, files.map(source.read, LISTED), LISTED, live, place.url)
    shuffled = count_rows(source.objects.parts, live)
    lines = engine.run("compare", left, write, shuffled=shuffled)
    count = partial(candidates.count_objects, source, engine.keys_of)
    return Lines([*lines.rows, *engine.run("count", files, count).rows])


def explain(survivors: Rows, dead: Rows) -> Rows:
    """Return survivors, each with the path and cause in a dead container, if any."""
    rows = survivors.select(*LISTED.names).join(dead, "address", "left")
    return rows.select(*SURVIVORS.names)


def least_causes(listed: Rows) -> Rows:
    """Return addresses, each once, with the least cause."""
    # Among equal causes the first path: a plan must not depend on the order of reading.
    named = listed.select("address", "cause", "path", "kind")
    return named.group("address", order=("cause", "path", "kind"))


def count_looked_at(result: Candidates, lines: Lines) -> None:
    result.objects += lines.sum("objects")
    result.size += lines.sum("size")
    result.sampled += lines.sum("sampled")


def judged(result: Candidates, lines: Lines) -> Candidates:
    result.parts = lines.parts
    for report in lines.reports():
        result.verdict.add(Verdict.decode(report["verdict"]))
    return result
