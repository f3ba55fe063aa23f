"""Delete objects, and recall the objects a run took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import accumulate

import numpy as np
import pyarrow as pa

from reclaim.clock import Clock
from reclaim.engine.tasks import reading, recall, tally
from reclaim.engine.tasks.deleting import (
    FAILED,
    GOING,
    Deleter,
    Outcome,
    as_going,
    check_inside,
    delete,
    is_strict,
)
from reclaim.engine.tasks.parts import Part, Place, read_part, task_storage, write_parts
from reclaim.engine.tasks.quarantine import QuarantineFolder
from reclaim.engine.tasks.tally import OBJECTS
from reclaim.engine.work.lines import Tables, lines_of, parts_in, stem_in, storage_of
from reclaim.engine.work.parts import read_parts
from reclaim.storage.pace import Pace
from reclaim.stores.format import Format

PIECES = GOING.append(pa.field("piece", pa.int32(), nullable=False))
"""Rows of a sweep, each with the number of its task."""


def delete_rows(
    format: Format,
    deleter: Deleter,
    clock: Clock,
    deadline: datetime,
    place: Place,
    kind: str,
    rows: Tables,
) -> Tables:
    """Delete until time runs out, and write the journal."""
    storage = storage_of(format)
    outcome, pace = Outcome(), Pace()
    strict = is_strict(format, deleter)
    todo = 0

    def tried() -> Tables:
        nonlocal todo
        for table in rows:
            todo += table.num_rows
            if strict and outcome.counts[FAILED]:
                # Spark cuts the rows of a file into several tables.
                continue
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

    written = write_parts(task_storage(place.url), stem_in(place), tried())
    parts = [replace(part, group=kind) for part in written]
    finished = sum(outcome.counts.values()) == todo
    yield lines_of(parts, {"outcome": outcome.encode(), "finished": finished})


def read_going(url: str, files: Tables) -> Tables:
    for table in read_parts(url, files):
        yield as_going(table)


@dataclass(frozen=True, slots=True)
class Before:
    """The number of rows in the files of a list, and of those before each file."""

    rows: int
    before: Mapping[str, int]


def count_before(files: Sequence[Part]) -> Before:
    ends = list(accumulate((part.rows for part in files), initial=0))
    return Before(ends[-1], {part.address: end for part, end in zip(files, ends, strict=False)})


def read_own(format: Format, url: str, files: Tables) -> Tables:
    """Yield rows of a sweep, all of which must belong to the store."""
    for rows in read_going(url, files):
        check_inside(format, rows.column("address").to_pylist())
        yield rows


def read_pieces(format: Format, url: str, counted: Before, pieces: int, files: Tables) -> Tables:
    """Yield rows cut into pieces of the same length, each with neighbours of a list."""
    storage = task_storage(url)
    for part in parts_in(files):
        rows = as_going(read_part(storage, part))
        check_inside(format, rows.column("address").to_pylist())
        numbers = counted.before[part.address] + np.arange(rows.num_rows)
        piece = pa.array(numbers * pieces // counted.rows, PIECES.field("piece").type)
        yield rows.append_column(PIECES.field("piece"), piece)


def read_expired(url: str, files: Tables) -> Tables:
    """Yield addresses taken by rules, in lower case."""
    for table in read_parts(url, files):
        yield pa.table({"address": reading.folded(table.column("address"))})


def read_intended(url: str, files: Tables) -> Tables:
    return map(recall.intended, read_parts(url, files))


def read_journaled(url: str, files: Tables) -> Tables:
    return map(recall.journaled, read_parts(url, files))


def read_noted(url: str, files: Tables) -> Tables:
    return map(recall.noted, read_parts(url, files))


def read_not_restored(url: str, quarantine: QuarantineFolder | None, files: Tables) -> Tables:
    """Yield the original addresses of objects an undo failed to restore, folded."""
    for table in read_parts(url, files):
        yield pa.table({"address": reading.folded(recall.not_restored(table, quarantine))})


def write_recalled(quarantine: QuarantineFolder | None, place: Place, rows: Tables) -> Tables:
    """Write the objects taken, by their current addresses."""
    taken = (recall.current_addresses(table.cast(GOING), quarantine) for table in rows)
    yield lines_of(write_parts(task_storage(place.url), stem_in(place), taken))
