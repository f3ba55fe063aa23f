"""Sweep candidates, and recall the objects a run took."""

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
from reclaim.engine.work import sweeping

DELETED_BY_A_TASK = 1_000
"""Objects worth a task of their own to delete them."""


def sweep(engine: JobRunner, request: SweepRequest) -> Swept:
    """Remove the candidates of one kind until time runs out.

    After a failure, tasks may still be running until the deadline; see ``Engine.ended``.
    """
    format, place = request.format, request.place
    files = [part for part in request.candidates if part.group == request.kind]
    if not files:
        return Swept()
    # From here on by the clocks of the machines, which are assumed to agree within a minute.
    deadline = engine.clock.now() + request.time
    # Files of a plan or of a journal: both have the needed columns.
    read = partial(sweeping.read_own, format, place.url)
    rows = count_rows(files)
    tasks = max(1, min(engine.tasks, -(-rows // DELETED_BY_A_TASK)))
    if request.done:
        read_done = partial(sweeping.read_going, place.url)
        done = engine.files(request.done).map(read_done, GOING).select("address")
        going = engine.files(files).map(read, GOING).join(done, "address", "left_anti")
        if not format.sequential:
            going = going.repartition(tasks)
    elif format.sequential:
        going = engine.files(files).map(read, GOING)
    else:
        # In the order of the listing: neighbours are deleted faster together. Every file is read
        # and verified before the first delete.
        before = sweeping.count_before(files)
        read = partial(sweeping.read_pieces, format, place.url, before, tasks)
        going = engine.files(files).map(read, sweeping.PIECES).repartition_by_id(tasks, "piece")
    take = partial(
        sweeping.delete_rows, format, request.deleter, engine.clock, deadline, place, request.kind
    )
    shuffled = count_rows(files, request.done)
    lines = engine.run(f"sweep {request.kind}", going, take, shuffled=shuffled)
    swept = Swept(parts=lines.parts)
    for report in lines.reports():
        swept.outcome.add(Outcome.decode(report["outcome"]))
        swept.finished = swept.finished and report["finished"]
    return swept


def recall(engine: JobRunner, request: RecallRequest) -> Sequence[Part]:
    """Return objects a run may have taken, each once, with the identity from its journal.

    Each was intended by the run, or is in the journal.
    """
    if not request.intended and not request.journal:
        return ()
    sources = (
        (request.intended, sweeping.read_intended),
        (request.journal, sweeping.read_journaled),
        (request.notes, sweeping.read_noted),
    )
    read_rows = (
        engine.files(files).map(partial(read, request.source.url), RANKED)
        for files, read in sources
        if files
    )
    rows: Rows = reduce(lambda left, other: left.union(other), read_rows)
    each = rows.group("address", order=("rank",), greatest=("listed", "path"))
    listed = each.where("listed", True).select(*GOING.names)
    write = partial(sweeping.write_recalled, request.quarantine, request.place)
    shuffled = count_rows(*(files for files, _ in sources))
    return engine.run("recall", listed, write, shuffled=shuffled).parts
