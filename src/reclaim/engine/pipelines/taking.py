"""Taking candidates away, and recalling what a run took."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce

from reclaim.engine.answers import Swept
from reclaim.engine.base import JobRunner
from reclaim.engine.pipelines.reading import count_rows
from reclaim.engine.requests import RecallRequest, SweepRequest
from reclaim.engine.rows import Rows
from reclaim.engine.tasks.deleting import GOING, Outcome
from reclaim.engine.tasks.parts import Part
from reclaim.engine.tasks.recall import RANKED
from reclaim.engine.work import taking

DELETED_BY_A_TASK = 1_000
"""Objects that are worth a task of their own to delete them."""


def sweep(engine: JobRunner, request: SweepRequest) -> Swept:
    """Take the candidates of one kind away, for as long as there is time.

    When it fails, tasks of it may still be at work, until the time is over; see ``Engine.ended``.
    """
    format, place = request.format, request.place
    files = [part for part in request.candidates if part.group == request.kind]
    if not files:
        return Swept()
    # From here on by the clocks of the machines, which are taken to agree by a minute.
    deadline = engine.clock.now() + request.time
    # A plan's files or a journal's: both have the columns that are needed.
    read = partial(taking.read_own, format, place.url)
    rows = count_rows(files)
    tasks = max(1, min(engine.tasks, -(-rows // DELETED_BY_A_TASK)))
    if request.done:
        read_done = partial(taking.read_going, place.url)
        done = engine.files(request.done).map(read_done, GOING).select("address")
        going = engine.files(files).map(read, GOING).join(done, "address", "left_anti")
        if not format.sequential:
            going = going.repartition(tasks)
    elif format.sequential:
        going = engine.files(files).map(read, GOING)
    else:
        # As they were listed: neighbours are deleted faster together. And every file is read and
        # verified before the first object goes.
        before = taking.count_before(files)
        read = partial(taking.read_pieces, format, place.url, before, tasks)
        going = engine.files(files).map(read, taking.PIECES).repartition_by_id(tasks, "piece")
    take = partial(
        taking.delete_rows, format, request.deleter, engine.clock, deadline, place, request.kind
    )
    shuffled = count_rows(files, request.done)
    lines = engine.run(f"sweep {request.kind}", going, take, shuffled=shuffled)
    swept = Swept(parts=lines.parts)
    for report in lines.reports():
        swept.outcome.add(Outcome.decode(report["outcome"]))
        swept.finished = swept.finished and report["finished"]
    return swept


def recall(engine: JobRunner, request: RecallRequest) -> Sequence[Part]:
    """Objects that a run may have taken, each once, with the identity that its journal has.

    Each is among what was intended, or in the journal.
    """
    if not request.intended and not request.journal:
        return ()
    sources = (
        (request.intended, taking.read_intended),
        (request.journal, taking.read_journaled),
        (request.notes, taking.read_noted),
    )
    read_rows = (
        engine.files(files).map(partial(read, request.source.url), RANKED)
        for files, read in sources
        if files
    )
    rows: Rows = reduce(lambda one, other: one.union(other), read_rows)
    each = rows.group("address", order=("rank",), greatest=("listed", "path"))
    listed = each.where("listed", True).select(*GOING.names)
    write = partial(taking.write_recalled, request.aside, request.place)
    shuffled = count_rows(*(files for files, _ in sources))
    return engine.run("recall", listed, write, shuffled=shuffled).parts
