"""Taking: deleting objects, and recalling what a run took."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import pyarrow as pa

from reclaim.clock import SystemClock
from reclaim.engine.spark.work.lines import Tables, lines_of, stem_in, storage_of
from reclaim.engine.spark.work.parts import read_parts
from reclaim.engine.tasks import reading, recall, tally
from reclaim.engine.tasks.deleting import GOING, Deleter, Outcome, as_going, delete
from reclaim.engine.tasks.parts import Place, open_storage, write_parts
from reclaim.engine.tasks.quarantine import Aside
from reclaim.engine.tasks.tally import OBJECTS
from reclaim.storage.pace import Pace
from reclaim.stores.format import Format


def delete_rows(
    format: Format, deleter: Deleter, deadline: datetime, place: Place, kind: str, rows: Tables
) -> Tables:
    """Delete, for as long as there is time, and write the journal."""
    storage, clock = storage_of(format), SystemClock()
    outcome, pace = Outcome(), Pace()
    todo = 0

    def tried() -> Tables:
        nonlocal todo
        for table in rows:
            todo += table.num_rows
            for journal in delete(
                format,
                storage,
                table,
                deleter=deleter,
                in_time=lambda: clock.now() < deadline,
                pace=pace,
            ):
                outcome.count(journal)
                tally.count(OBJECTS, journal.num_rows)
                yield journal

    written = write_parts(open_storage(place.url), stem_in(place), tried())
    parts = [replace(part, group=kind) for part in written]
    finished = sum(outcome.counts.values()) == todo
    yield lines_of(parts, {"outcome": outcome.encode(), "finished": finished})


def read_going(url: str, files: Tables) -> Tables:
    for table in read_parts(url, files):
        yield as_going(table)


def read_expired(url: str, files: Tables) -> Tables:
    """Addresses that rules took, in small letters."""
    for table in read_parts(url, files):
        yield pa.table({"address": reading.folded(table.column("address"))})


def read_intended(url: str, files: Tables) -> Tables:
    return map(recall.intended, read_parts(url, files))


def read_journaled(url: str, files: Tables) -> Tables:
    return map(recall.journaled, read_parts(url, files))


def read_noted(url: str, files: Tables) -> Tables:
    return map(recall.noted, read_parts(url, files))


def read_not_back(url: str, aside: Aside | None, files: Tables) -> Tables:
    """Where objects belong that could not be brought back, folded."""
    for table in read_parts(url, files):
        yield pa.table({"address": reading.folded(recall.not_back(table, aside))})


def write_recalled(aside: Aside | None, place: Place, rows: Tables) -> Tables:
    """Write down what was taken, by where it is now."""
    taken = (recall.where(table.cast(GOING), aside) for table in rows)
    yield lines_of(write_parts(open_storage(place.url), stem_in(place), taken))
