"""Taking: deleting objects, and recalling what a run took."""

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
from reclaim.engine.tasks.quarantine import Aside
from reclaim.engine.tasks.tally import OBJECTS
from reclaim.engine.work.lines import Tables, lines_of, parts_in, stem_in, storage_of
from reclaim.engine.work.parts import read_parts
from reclaim.storage.pace import Pace
from reclaim.stores.format import Format

PIECES = GOING.append(pa.field("piece", pa.int32(), nullable=False))
"""Rows of a sweep, with the task that each is for."""


def delete_rows(
    format: Format,
    deleter: Deleter,
    clock: Clock,
    deadline: datetime,
    place: Place,
    kind: str,
    rows: Tables,
) -> Tables:
    """Delete, for as long as there is time, and write the journal."""
    storage = storage_of(format)
    outcome, pace = Outcome(), Pace()
    strict = is_strict(format, deleter)
    todo = 0

    def tried() -> Tables:
        nonlocal todo
        for table in rows:
            todo += table.num_rows
            if strict and outcome.counts[FAILED]:
                # Spark cuts the rows of one file into several tables.
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
    """How many rows the files of a list have, and how many come before each of them."""

    rows: int
    before: Mapping[str, int]


def count_before(files: Sequence[Part]) -> Before:
    ends = list(accumulate((part.rows for part in files), initial=0))
    return Before(ends[-1], {part.address: end for part, end in zip(files, ends, strict=False)})


def read_own(format: Format, url: str, files: Tables) -> Tables:
    """Rows of a sweep, all of which must be the store's own."""
    for rows in read_going(url, files):
        check_inside(format, rows.column("address").to_pylist())
        yield rows


def read_pieces(format: Format, url: str, counted: Before, pieces: int, files: Tables) -> Tables:
    """Rows that are cut into so many pieces of one length, each with neighbours of one list."""
    storage = task_storage(url)
    for part in parts_in(files):
        rows = as_going(read_part(storage, part))
        check_inside(format, rows.column("address").to_pylist())
        numbers = counted.before[part.address] + np.arange(rows.num_rows)
        piece = pa.array(numbers * pieces // counted.rows, PIECES.field("piece").type)
        yield rows.append_column(PIECES.field("piece"), piece)


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
    yield lines_of(write_parts(task_storage(place.url), stem_in(place), taken))
