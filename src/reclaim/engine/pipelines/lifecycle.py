"""Lifecycle rules: group the ranges of commits, find objects matched on every path, and run the
steps after a plan.

Ranges are grouped before any entry is read. Keys select the addresses to decide on; then all paths
of an address come to the same task, which decides by whole addresses. A collision of keys only adds
an address to decide on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import pairwise

import pyarrow as pa

from reclaim.engine.answers import NO_CONTAINERS, Candidates
from reclaim.engine.base import JobRunner
from reclaim.engine.lifecycle import (
    EarlierRun,
    LifecycleFindings,
    LifecycleSearch,
    PublishRequest,
    RangeFiles,
    RangesRequest,
    Rejudged,
    RejudgeRequest,
)
from reclaim.engine.pipelines.live_keys import LOOKUP_LIMIT, Keys, sample_in, write_keys
from reclaim.engine.pipelines.reading import count_rows, count_tasks, rows_of
from reclaim.engine.requests import FindRequest
from reclaim.engine.rows import Rows
from reclaim.engine.tasks import lifecycle_ranges, sampling
from reclaim.engine.tasks.index import Span, overlapping
from reclaim.engine.tasks.judging import Verdict
from reclaim.engine.tasks.lifecycle import ADDRESSES, RANGES, ROWS
from reclaim.engine.tasks.parts import Part, opened_by, read_part, write_part
from reclaim.engine.tasks.rule_changes import RuleChanges, find_changed_parts
from reclaim.engine.tasks.sampling import Sample
from reclaim.engine.work import lifecycle, lifecycle_after_plan
from reclaim.engine.work.lifecycle import (
    ADDRESS_FILE,
    CANDIDATE_FILE,
    CONTAINER_FILE,
    HELD_FILE,
    KEY_FILE,
    RANGE_FILE,
    ROW_FILE,
    SHARE,
    Wanted,
)
from reclaim.engine.work.lines import Lines, Work, in_sequence
from reclaim.engine.work.parts import read_parts
from reclaim.engine.work.uncommitted import write_names

LOOKED_UP_BY_A_TASK = 500
"""Objects worth a task of their own to look them up."""
ROWS_OF_A_SHARE = 500_000
"""Index rows worth a task of their own."""
ROWS_LEFT_BY_A_TASK = 50_000
"""Paths worth a task of their own to judge them again."""


# Potential commits, and their ranges


def group_ranges(engine: JobRunner, request: RangesRequest) -> RangeFiles:
    """Return the distinct ranges of metaranges with the union of their bits, before reading any
    entry."""
    place = request.place
    listed = _expanded(engine, request)
    if request.known:
        assert request.renumbering is not None
        read = partial(lifecycle.read_known, place.url, request.renumbering)
        known = engine.files(request.known).map(read, RANGES)
        listed = known if listed is None else listed.union(known)
    if listed is None:
        return RangeFiles()
    write = partial(lifecycle.write_ranges, place)
    shuffled = count_rows(request.known) + 100 * request.metaranges.num_rows
    lines = engine.run("ranges", _each_once(listed), write, shuffled=shuffled)
    named = write_part(
        engine.open(place.url),
        place.below("containers").at("metaranges.parquet"),
        lifecycle_ranges.named_metaranges(request.metaranges),
    )
    return RangeFiles(
        _of(lines, RANGE_FILE),
        [named, *_of(lines, CONTAINER_FILE)],
        metaranges=lines.sum("metaranges"),
        ranges=lines.sum("ranges"),
        entries=lines.sum("entries"),
        bytes=lines.sum("bytes"),
    )


def _expanded(engine: JobRunner, request: RangesRequest | RejudgeRequest) -> Rows | None:
    if not request.metaranges.num_rows:
        return None
    return engine.spread(request.metaranges).map(partial(lifecycle.expand, request.format), RANGES)


def _each_once(listed: Rows) -> Rows:
    """Return ranges, each once with the union of its bits."""
    return listed.group("address", least=("holder", "branch"), bit_or=("bits",))


# The search


def find_by_rules(engine: JobRunner, request: FindRequest, search: LifecycleSearch) -> Candidates:
    """Find objects with a matching rule on every path and branch."""
    notes = LifecycleFindings()
    result = Candidates(lifecycle=notes)
    # Without an earlier run, every address matched by a rule is decided on.
    wanted = None
    if search.earlier is not None:
        wanted = _find_changed(engine, request, search, search.earlier, notes)
    going: Keys = ()
    if wanted is None or wanted.partitions:
        going = _find_deduplications(engine, request, search, wanted, notes)
    _find_objects(engine, request, search, result, going)
    return result


def _find_changed(
    engine: JobRunner,
    request: FindRequest,
    search: LifecycleSearch,
    earlier: EarlierRun,
    notes: LifecycleFindings,
) -> Wanted:
    """Find addresses whose decision may differ from the last run."""
    work, keys_of = request.work, engine.keys_of
    ranges, known = tuple(search.ranges), tuple(earlier.ranges)
    own = engine.open(work.url)
    now = pa.concat_tables([RANGES.empty_table(), *(read_part(own, part) for part in ranges)])
    with opened_by(engine.open):
        changes = RuleChanges(
            search.classes,
            lifecycle.load_ranges(work.url, ranges),
            earlier.classes,
            lifecycle.load_ranges(work.url, known),
        )
    old = [*find_changed_parts(changes, now, earlier.judged), *search.unjudged]
    classes = search.classes, earlier.classes

    def find(url: str) -> Work:
        return partial(lifecycle.find_changed, url, ranges, known, classes, work, keys_of)

    carry = partial(lifecycle.find_carried, request.format, search.url, work, keys_of)
    jobs = (
        (old, find(search.url)),
        (search.fresh, find(request.place.url)),
        (earlier.carried, carry),
    )
    keys: list[Part] = []
    partitions: set[str] = set()
    for parts, task in jobs:
        if parts:
            lines = _run(engine, "changed", parts, task)
            keys += _of(lines, KEY_FILE)
            partitions.update(*(report["partitions"] for report in lines.reports()))
            notes.index_bytes += lines.sum("bytes")
    too_many = count_rows(keys) > LOOKUP_LIMIT
    return Wanted(frozenset(partitions), () if too_many else tuple(keys))


def _find_deduplications(
    engine: JobRunner,
    request: FindRequest,
    search: LifecycleSearch,
    wanted: Wanted | None,
    notes: LifecycleFindings,
) -> Keys:
    """Decide on addresses partition by partition, by every path referring to them. Return the keys
    of deletable addresses, to look for them in a listing."""
    sources = [
        *((search.url, part) for part in search.index),
        *((request.place.url, part) for part in search.fresh),
    ]
    cuts = list(search.edges)
    if wanted is not None:
        chosen = set(overlapping([part for _, part in sources], wanted.partitions))
        sources = [(url, part) for url, part in sources if part in chosen]
        cuts = _cuts(engine, wanted, [part for _, part in sources])
    shares = _shares(sources, cuts)
    if not shares.num_rows:
        return ()
    decide = partial(
        lifecycle.decide,
        search.classes,
        search.names,
        tuple(search.ranges),
        wanted,
        engine.keys_of,
        search.results,
        request.work if request.objects.parts else None,
    )
    runner = engine.runner_for(count_rows([part for _, part in sources]))
    lines = runner.run("decide", runner.spread(shares), decide)
    notes.index_bytes += lines.sum("bytes")
    notes.rows = _of(lines, ROW_FILE)
    notes.addresses = _of(lines, ADDRESS_FILE)
    notes.held = _of(lines, HELD_FILE)
    return tuple(_of(lines, KEY_FILE))


def _cuts(engine: JobRunner, wanted: Wanted, parts: Sequence[Part]) -> list[str]:
    """Return partitions at which an incremental run shares its work. They are few: a part across a
    boundary is read twice."""
    names = sorted(wanted.partitions)
    shares = min(len(names), 2 * engine.tasks, -(-count_rows(parts) // ROWS_OF_A_SHARE))
    return [names[number * len(names) // shares] for number in range(1, shares)]


def _shares(sources: Sequence[tuple[str, Part]], cuts: Sequence[str]) -> pa.Table:
    """Return for each interval of partitions the index parts with possible rows of it."""
    shares = []
    for first, last in pairwise(["", *cuts, None]):
        assert first is not None
        parts = [
            asdict(part) | {"url": url}
            for url, part in sources
            if _may_have(Span.of(part), first, last)
        ]
        if parts:
            shares.append({"parts": json.dumps(parts), "first": first, "last": last})
    return pa.Table.from_pylist(shares, schema=SHARE)


def _may_have(span: Span, first: str, last: str | None) -> bool:
    return span.last >= first and (last is None or span.first < last)


def _find_objects(
    engine: JobRunner,
    request: FindRequest,
    search: LifecycleSearch,
    result: Candidates,
    wanted: Keys,
) -> None:
    """Find the candidates among deletable addresses: existing, held by nothing, and allowed to
    go."""
    notes, format, keys_of = result.lifecycle, request.format, engine.keys_of
    assert notes is not None
    keys, result.read = write_keys(engine, format, NO_CONTAINERS, request.held, (), request.work)
    going, notes.addresses = notes.addresses, ()
    there: Callable[[pa.Table], pa.Table] = partial(lifecycle.look_up_going, format)
    if search.earlier is None:
        result.sample = _sample(engine, request)
    if request.objects.parts:
        there = _find_listed(engine, request, wanted, result)
    if not going:
        return
    judge = partial(
        lifecycle.judge,
        format,
        search.classes,
        request.rules,
        keys.live,
        keys_of,
        request.place,
        search.results,
        there,
    )
    url = request.place.url
    if request.objects.parts:
        lines = _run(engine, "find", going, partial(in_sequence, partial(read_parts, url), judge))
    else:
        # Each of them is a request.
        tasks = count_tasks(engine, -(-count_rows(going) // LOOKED_UP_BY_A_TASK))
        rows = rows_of(engine, url, going, ADDRESSES).repartition(tasks)
        lines = engine.run("find", rows, judge, shuffled=count_rows(going))
        result.objects, result.size = lines.sum("there"), lines.sum("size")
    result.parts = [replace(part, group="") for part in _of(lines, CANDIDATE_FILE)]
    notes.addresses = _of(lines, ADDRESS_FILE)
    notes.held = [*notes.held, *_of(lines, HELD_FILE)]
    for report in lines.reports():
        result.verdict.add(Verdict.decode(report["verdict"]))
    notes.gone = lines.sum("owned") - lines.sum("there")


def _sample(engine: JobRunner, request: FindRequest) -> Sample:
    """Return a sample of live containers every listing must have."""
    if not request.containers.parts:
        return Sample()
    within = partial(sampling.below, request.format.prefix)
    write = partial(write_names, request.work, engine.keys_of, within)
    return sample_in(_run(engine, "read", request.containers.parts, write))


def _find_listed(
    engine: JobRunner, request: FindRequest, wanted: Keys, result: Candidates
) -> Callable[[pa.Table], pa.Table]:
    """Count listed objects; return a function to find the listed objects of some addresses."""
    work, keys_of = request.work, engine.keys_of
    find = partial(
        lifecycle.find_listed,
        request.format,
        request.objects.url,
        work,
        wanted,
        keys_of,
        result.sample.keys,
    )
    lines = _run(engine, "count", request.objects.parts, find)
    result.objects, result.size = lines.sum("objects"), lines.sum("size")
    result.sampled = lines.sum("sampled")
    assert result.lifecycle is not None
    result.lifecycle.objects = lines.sum("data")
    return partial(lifecycle.match_listed, work.url, tuple(lines.parts), keys_of)


# After a plan


def rejudge(engine: JobRunner, request: RejudgeRequest) -> Rejudged:
    """Return the addresses of a lifecycle plan held by a path added since."""
    expanded = _expanded(engine, request)
    if expanded is None:
        return Rejudged()
    place, keys_of = request.place, engine.keys_of
    write_going = partial(lifecycle.write_going_keys, place, keys_of)
    planned = _run(engine, "planned", request.rows, write_going)
    newly = partial(lifecycle_after_plan.newly_reached, place.url, tuple(request.ranges))
    fresh = _each_once(expanded).map(newly, RANGES)
    write = partial(lifecycle.write_ranges, place.below("fresh"))
    lines = engine.run("ranges", fresh, write, shuffled=100 * request.metaranges.num_rows)
    ranges, expected = _of(lines, RANGE_FILE), lines.sum("ranges")
    if not expected:
        return Rejudged(metaranges=lines.sum("metaranges"))
    wanted = tuple(planned.parts)
    read = partial(lifecycle_after_plan.read_again, request.format, place, wanted, keys_of)
    spread = rows_of(engine, place.url, ranges, RANGES).repartition(count_tasks(engine, expected))
    again = engine.run("read", spread, read)
    rows = rows_of(engine, place.url, [*request.rows, *again.parts], ROWS)
    count = count_rows(request.rows, again.parts)
    tasks = count_tasks(engine, -(-count // ROWS_LEFT_BY_A_TASK))
    leave = partial(
        lifecycle_after_plan.leave, request.classes, tuple(request.protect), place.below("leaving")
    )
    left = engine.run("rejudge", rows.repartition(tasks, "address"), leave, shuffled=count)
    return Rejudged(
        [part.address for part in left.parts],
        count_rows(left.parts),
        lines.sum("metaranges"),
        expected,
        again.sum("containers"),
        again.sum("entries"),
    )


def publish(engine: JobRunner, request: PublishRequest) -> None:
    """Publish the addresses of a lifecycle run, each row with the run."""
    if request.addresses:
        work = partial(lifecycle_after_plan.publish, request.run, request.url, request.place)
        _run(engine, "publish", request.addresses, work)


def _run(engine: JobRunner, step: str, parts: Sequence[Part], work: Work) -> Lines:
    """Run work on parts, in this process if there is little of it."""
    engine = engine.runner_for(count_rows(parts))
    return engine.run(step, engine.files(parts), work)


def _of(lines: Lines, group: str) -> list[Part]:
    return [part for part in lines.parts if part.group == group]
