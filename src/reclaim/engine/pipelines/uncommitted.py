"""Find candidates by the index, for runs on uncommitted data.

Live addresses are compared by keys. If there is little to compare, as usual for an incremental run,
this process does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

import pyarrow as pa

from reclaim.engine.answers import NO_CONTAINERS, Candidates, Objects
from reclaim.engine.base import JobRunner
from reclaim.engine.pipelines.incremental import guards_in
from reclaim.engine.pipelines.live_keys import LOOKUP_LIMIT, Keys, sample_in, write_keys
from reclaim.engine.pipelines.reading import count_rows, count_tasks, rows_of
from reclaim.engine.pipelines.survivors import (
    count_looked_at,
    explain,
    judged,
    least_causes,
    without_keys,
    write_survivors,
)
from reclaim.engine.requests import FindRequest
from reclaim.engine.rows import Rows
from reclaim.engine.tasks.judging import SURVIVORS
from reclaim.engine.tasks.parts import ADDRESSES, Part
from reclaim.engine.tasks.reading import READ
from reclaim.engine.tasks.sampling import listed_part
from reclaim.engine.uncommitted import UncommittedFindings, UncommittedSearch
from reclaim.engine.work import candidates, uncommitted
from reclaim.engine.work.candidates import Source
from reclaim.engine.work.parts import write_rows
from reclaim.engine.work.uncommitted import THERE

LOOKED_UP_BY_A_TASK = 500
"""Objects worth a task of their own to look them up."""
LOOKED_UP_IN_PROCESS, LOOKED_UP_ON_DISK = 1_000, 10_000
"""Objects looked up without a job: in a storage reached by requests, and on a disk."""


def find_by_index(engine: JobRunner, request: FindRequest, search: UncommittedSearch) -> Candidates:
    """Find candidates by the index, and take the notes the next run needs."""
    format, url = request.format, request.place.url
    runner = engine.runner_for(
        count_rows(
            request.objects.parts,
            request.containers.parts,
            search.index,
            search.fresh,
            search.dead,
            search.carried,
        )
    )
    held, read = write_keys(runner, format, NO_CONTAINERS, request.held, (), request.work)
    notes = UncommittedFindings()
    result = Candidates(read=read, uncommitted=notes)
    committed = _committed(runner, request, search, result)
    if request.objects.parts:
        count = partial(uncommitted.count_guards, Source(format, request.objects))
        notes.guards = guards_in(runner.run("count", runner.files(request.objects.parts), count))
    there, waiting = _look_up(engine, runner, request, search, committed, held.live, notes)
    objects = Objects(url, [*request.objects.parts, *there])
    notes.carried = waiting
    if not objects.parts:
        return result
    source = Source(format, objects, result.sample.keys)
    survivors = write_survivors(runner, source, committed, search.carry)
    count_looked_at(result, survivors)
    notes.carried = [*survivors.parts, *waiting]
    if not survivors.parts:
        return result
    rows = rows_of(runner, url, survivors.parts, SURVIVORS)
    rows = without_keys(runner, rows, SURVIVORS, held.live, url)
    if search.dead:
        rows = explain(rows, least_causes(rows_of(runner, url, search.dead, READ)))
    judge = partial(candidates.judge, format, request.rules, request.place, runner.keys_of)
    shuffled = count_rows(survivors.parts, search.dead)
    return judged(result, runner.run("find", rows, judge, shuffled=shuffled))


def _committed(
    engine: JobRunner, request: FindRequest, search: UncommittedSearch, result: Candidates
) -> Keys:
    """Return the keys of live containers and of the addresses the index has for them."""
    work, keys_of = request.work, engine.keys_of
    notes = result.uncommitted
    assert notes is not None
    if not request.containers.parts:
        return ()
    within = partial(listed_part, request.format, search.below, search.unlisted)
    write = partial(uncommitted.write_names, work, keys_of, within)
    named = engine.run("read", engine.files(request.containers.parts), write)
    result.read.containers = named.sum("containers")
    names = tuple(named.parts)
    keys, jobs = list(names), [named]
    for url, parts in ((search.url, search.index), (work.url, search.fresh)):
        if parts:
            write = partial(uncommitted.write_listed_keys, url, work, names, keys_of, within)
            lines = engine.run("read", engine.files(parts), write)
            keys += lines.parts
            jobs.append(lines)
            notes.bytes += lines.sum("bytes") if parts is search.index else 0
    result.sample = sample_in(*jobs)
    committed = tuple(keys)
    if search.below and count_rows(committed) <= LOOKUP_LIMIT:
        count = partial(uncommitted.count_keys, work.url, committed)
        single_row = engine.spread(pa.table({"address": [""]}))
        notes.committed = engine.run("count", single_row, count).sum("keys")
    return committed


def _look_up(
    engine: JobRunner,
    runner: JobRunner,
    request: FindRequest,
    search: UncommittedSearch,
    committed: Keys,
    held: Keys,
    notes: UncommittedFindings,
) -> tuple[Sequence[Part], Sequence[Part]]:
    """Look objects up. Return the existing ones, and existing addresses held by something."""
    format, work = request.format, request.work
    select = partial(uncommitted.select_named, format, search.below, search.unlisted)
    sources = [
        runner.files(parts).map(partial(select, url), ADDRESSES)
        for url, parts in ((search.url, search.carried), (request.place.url, search.dead))
        if parts and search.unlisted
    ]
    if not sources:
        return (), ()
    named: Rows = reduce(lambda left, other: left.union(other), sources).distinct()
    free = without_keys(runner, named, ADDRESSES, committed, work.url)
    count = count_rows(search.carried, search.dead)
    if runner is not engine:
        # Only unreferenced objects are worth a job.
        names = runner.run("compare", free, partial(write_rows, work.below("free"))).parts
        if not names:
            return (), ()
        on_disk = format.root.startswith("file:")
        if count_rows(names) <= (LOOKED_UP_ON_DISK if on_disk else LOOKED_UP_IN_PROCESS):
            engine = runner
        free = rows_of(engine, work.url, names, ADDRESSES)
    look_up = partial(
        uncommitted.look_up, format, work, search.carry, held=held, keys_of=engine.keys_of
    )
    tasks = count_tasks(engine, -(-count // LOOKED_UP_BY_A_TASK))
    lines = engine.run("look up", free.repartition(tasks), look_up, shuffled=count)
    notes.looked_up, notes.missing = lines.sum("looked_up"), guards_in(lines)
    there = [part for part in lines.parts if part.group == THERE]
    return there, [part for part in lines.parts if part.group != THERE]
