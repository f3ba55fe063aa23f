"""Find candidates: compare objects with the keys of live data, and judge the rest.

If containers are taken by name and there is little to compare, this process does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from reclaim.engine.answers import Candidates, ContainerFiles
from reclaim.engine.base import JobRunner
from reclaim.engine.pipelines.lifecycle import find_by_rules
from reclaim.engine.pipelines.live_keys import Keys, can_load, write_keys
from reclaim.engine.pipelines.reading import count_rows, count_tasks, rows_of
from reclaim.engine.pipelines.survivors import (
    count_looked_at,
    explain,
    judged,
    least_causes,
    without_keys,
    write_survivors,
)
from reclaim.engine.pipelines.uncommitted import find_by_index
from reclaim.engine.requests import ConfirmRequest, FindRequest
from reclaim.engine.rows import Rows
from reclaim.engine.tasks.judging import CANDIDATES, SURVIVORS
from reclaim.engine.tasks.parts import Part, Place
from reclaim.engine.tasks.reading import LIVE, READ
from reclaim.engine.work import candidates, containers
from reclaim.engine.work.candidates import Source
from reclaim.engine.work.containers import JOIN_KEY
from reclaim.stores.format import CONTAINERS, Format, ReadsContainers


def find(engine: JobRunner, request: FindRequest) -> Candidates:
    """Find objects no live container lists and nothing holds, and judge them."""
    if request.search is not None:
        return find_by_index(engine, request, request.search)
    if request.lifecycle is not None:
        return find_by_rules(engine, request, request.lifecycle)
    # Without containers to read, the work may take less time than the jobs to spread it.
    rows = count_rows(request.objects.parts, request.containers.parts)
    return _find(engine if request.format.reads else engine.runner_for(rows), request)


def _find(engine: JobRunner, request: FindRequest) -> Candidates:
    """Compare all objects with live data."""
    format, objects, needed = request.format, request.objects.parts, request.containers
    by_key = bool(needed.dead) and _lacks_paths(format)
    keys, read = write_keys(engine, format, needed, request.held, (), request.work, dead=by_key)
    result = Candidates(read=read, sample=keys.sample)
    source = Source(format, request.objects, keys.sample.keys)
    if not objects:
        return result
    judge = partial(candidates.judge, format, request.rules, request.place, engine.keys_of)
    loads = can_load(engine, keys.live) and can_load(engine, keys.dead)
    if (needed.dead and not by_key) or not loads:
        seen = write_survivors(engine, source, keys.live, request.work)
        count_looked_at(result, seen)
        if not seen.parts:
            return result
        survivors = rows_of(engine, request.work.url, seen.parts, SURVIVORS)
        if by_key:
            survivors = _explain_by_key(engine, seen.parts, keys.dead, request.work.url)
        elif needed.dead:
            survivors = explain(survivors, _dead(engine, format, needed, request.place))
        lines = engine.run("find", survivors, judge, shuffled=count_rows(objects))
    else:
        if by_key:
            url = request.work.url
            judge = partial(candidates.explain_by_key, url, keys.dead, engine.keys_of, judge)
        look = partial(candidates.survivors, source, request.work.url, keys.live, engine.keys_of)
        files = engine.files(objects)
        lines = engine.run("find", files, partial(candidates.with_counts, look, judge))
        count_looked_at(result, lines)
    return judged(result, lines)


def confirm(engine: JobRunner, request: ConfirmRequest) -> Candidates:
    """Return candidates still unreferenced now, without those an earlier apply has done.

    They are written by kind: the group of a part is the kind of its objects.
    """
    keys, read = write_keys(
        engine, request.format, request.revived, request.held, request.done, request.work
    )
    if not request.candidates:
        return Candidates(read=read)
    url = request.place.url
    rows = rows_of(engine, url, request.candidates, CANDIDATES)
    left = without_keys(engine, rows, CANDIDATES, keys.live, url)
    loaded = can_load(engine, keys.live)
    shuffled = 0 if loaded else count_rows(request.candidates, keys.live)
    keep = partial(candidates.keep_closed, request.closed, request.place)
    lines = engine.run("confirm", left, keep, shuffled=shuffled)
    return Candidates(parts=lines.parts, read=read)


def _explain_by_key(engine: JobRunner, survivors: Sequence[Part], dead: Keys, url: str) -> Rows:
    """Return survivors, each with the cause of the dead address with its key, if any."""
    with_keys = partial(candidates.with_keys, engine.keys_of)
    rows = rows_of(engine, url, survivors, SURVIVORS).map(with_keys, SURVIVORS.append(JOIN_KEY))
    rows = rows.select(*(name for name in SURVIVORS.names if name != "cause"), JOIN_KEY.name)
    read_causes = partial(containers.read_causes, url)
    causes = engine.files(dead).map(read_causes, containers.JOIN_CAUSES)
    joined = rows.join(causes.group(JOIN_KEY.name, order=("cause",)), JOIN_KEY.name, "left")
    return joined.select(*SURVIVORS.names)


def _dead(engine: JobRunner, format: Format, needed: ContainerFiles, place: Place) -> Rows:
    """Return addresses listed by dead containers, each once, with the least cause."""
    rows = rows_of(engine, place.url, needed.parts, CONTAINERS)
    spread = rows.where("cause", LIVE, equal=False).repartition(count_tasks(engine, needed.dead))
    return least_causes(spread.map(partial(containers.read_dead, format), READ))


def _lacks_paths(format: Format) -> bool:
    return isinstance(format, ReadsContainers) and not format.has_paths
