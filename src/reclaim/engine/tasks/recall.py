"""Recall the objects a run took, from its intended deletes and its journal.

The journal of an interrupted apply can miss the last deletes. The intended deletes are written
before the first object is deleted, so both together are complete. A row with an object's identity
beats a row without, and a note with the identities of its copies beats both. Notes are in no list,
so they add no objects.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks.deleting import FAILED, GOING, JOURNAL, as_going
from reclaim.engine.tasks.notes import COVERING, RETURNED
from reclaim.engine.tasks.quarantine import QUARANTINED, QuarantineFolder
from reclaim.errors import Corrupt

RANKED = GOING.append(pa.field("rank", pa.int32(), nullable=False)).append(
    pa.field("listed", pa.bool_(), nullable=False)
)
"""Objects possibly taken. The row of an object with the least rank wins, if any row of it is
listed: a note alone takes nothing."""

_NOTE_COLUMNS = ["address", "size", "outcome", "identity"]
_NOTE = pa.schema([JOURNAL.field(name) for name in _NOTE_COLUMNS])
"""The columns read from a note, all of them filled."""
_RANKS = {QUARANTINED: 0, FAILED: 1, COVERING: 2}
_NOT_KNOWN = 3


def intended(rows: pa.Table) -> pa.Table:
    """Return intended deletes, as ``RANKED``."""
    ranks = pa.repeat(pa.scalar(_NOT_KNOWN, pa.int32()), rows.num_rows)
    return _ranked(as_going(rows), ranks, listed=True)


def journaled(rows: pa.Table) -> pa.Table:
    """Return objects with outcomes, as ``RANKED``."""
    return _with_outcomes(rows, listed=True)


def noted(rows: pa.Table) -> pa.Table:
    """Return objects from notes of tasks, as ``RANKED``.

    Notes are in no list, so a note no task can have written is corrupt.
    """
    try:
        values = rows.select(_NOTE_COLUMNS).cast(_NOTE)
        if any(column.null_count for column in values.columns):
            raise Corrupt("a note of a task is incomplete")
        return _with_outcomes(rows, listed=False)
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise Corrupt(f"a note of a task is invalid: {str(error).splitlines()[0]}") from error


def _with_outcomes(rows: pa.Table, *, listed: bool) -> pa.Table:
    at = pc.index_in(rows.column("outcome"), pa.array(list(_RANKS), pa.string()))
    known = pa.chunked_array([pa.array(_RANKS.values(), pa.int32())]).take(at)
    going = as_going(rows)
    # A failed move may have taken the object without recording it.
    certain = pc.and_(pc.is_valid(known), pc.is_valid(going.column("identity")))
    ranks = pc.if_else(certain, known, pa.scalar(_NOT_KNOWN, pa.int32()))
    # Each undo adds to the notes of the previous undo: the longest is the last.
    copies = pc.count_substring(going.column("identity"), " ").cast(pa.int32())
    returned = pc.equal(rows.column("outcome"), RETURNED)
    ranks = pc.if_else(returned, pc.negate(copies), ranks)
    return _ranked(going, ranks, listed=listed)


def _ranked(going: pa.Table, ranks: pa.Array, *, listed: bool) -> pa.Table:
    is_listed = pa.repeat(pa.scalar(listed), going.num_rows)
    columns = [*going.columns, ranks, is_listed]
    return pa.table(columns, names=RANKED.names).cast(RANKED)


def current_addresses(rows: pa.Table, quarantine: QuarantineFolder | None) -> pa.Table:
    """Return rows with the current addresses of the objects, if they were moved."""
    if quarantine is None:
        return rows
    inside = pc.utf8_slice_codeunits(rows.column("address"), start=len(quarantine.prefix))
    moved = pc.binary_join_element_wise(pa.scalar(quarantine.folder), inside, "")
    return rows.set_column(0, GOING.field("address"), moved)


def not_restored(rows: pa.Table, quarantine: QuarantineFolder | None) -> pa.ChunkedArray:
    """Return the original addresses of objects an undo failed to restore, from a journal."""
    failed = rows.filter(pc.equal(rows.column("outcome"), FAILED)).column("address")
    if quarantine is None:
        return failed
    inside = pc.utf8_slice_codeunits(failed, start=len(quarantine.folder))
    return pc.binary_join_element_wise(pa.scalar(quarantine.prefix), inside, "")
