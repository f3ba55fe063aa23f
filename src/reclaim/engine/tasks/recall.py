"""Recalling what a run took: from what it was about to take, and from what its journal says.

A journal can miss the end of an apply that was cut off. What an apply was about to take is written
down before the first object goes, so that together the two miss nothing. A journal that has an
object's identity is believed over one that has not, and a note that has those of its copies as
well is believed over both. Notes are files that no list names, so they add no objects.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks.deleting import FAILED, GOING, JOURNAL, as_going
from reclaim.engine.tasks.notes import COVERING, RETURNED
from reclaim.engine.tasks.quarantine import QUARANTINED, Aside
from reclaim.errors import Corrupt

RANKED = GOING.append(pa.field("rank", pa.int32(), nullable=False)).append(
    pa.field("listed", pa.bool_(), nullable=False)
)
"""Objects that may have been taken. Of an object's rows the one with the least rank is believed, if
one of them is listed: a note alone takes nothing."""

_TOLD = ["address", "size", "outcome", "identity"]
_NOTE = pa.schema([JOURNAL.field(name) for name in _TOLD])
"""The columns of a note that are read, all of them filled."""
_RANKS = {QUARANTINED: 0, FAILED: 1, COVERING: 2}
_NOT_KNOWN = 3


def intended(rows: pa.Table) -> pa.Table:
    """Objects that were about to be taken, as ``RANKED``."""
    ranks = pa.repeat(pa.scalar(_NOT_KNOWN, pa.int32()), rows.num_rows)
    return _ranked(as_going(rows), ranks, listed=True)


def journaled(rows: pa.Table) -> pa.Table:
    """Objects with outcomes, as ``RANKED``."""
    return _with_outcomes(rows, listed=True)


def noted(rows: pa.Table) -> pa.Table:
    """Objects of the notes of tasks, as ``RANKED``.

    Nobody vouches for a note: one that no task can have written is corrupt.
    """
    try:
        told = rows.select(_TOLD).cast(_NOTE)
        if any(column.null_count for column in told.columns):
            raise Corrupt("a note of a task lacks something that every note has")
        return _with_outcomes(rows, listed=False)
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise Corrupt(f"a note of a task is none: {str(error).splitlines()[0]}") from error


def _with_outcomes(rows: pa.Table, *, listed: bool) -> pa.Table:
    at = pc.index_in(rows.column("outcome"), pa.array(list(_RANKS), pa.string()))
    known = pa.chunked_array([pa.array(_RANKS.values(), pa.int32())]).take(at)
    going = as_going(rows)
    # What failed without telling anything may have been taken nevertheless.
    certain = pc.and_(pc.is_valid(known), pc.is_valid(going.column("identity")))
    ranks = pc.if_else(certain, known, pa.scalar(_NOT_KNOWN, pa.int32()))
    # Each undo adds to what the one before it noted: the longest is the last.
    copies = pc.count_substring(going.column("identity"), " ").cast(pa.int32())
    returned = pc.equal(rows.column("outcome"), RETURNED)
    ranks = pc.if_else(returned, pc.negate(copies), ranks)
    return _ranked(going, ranks, listed=listed)


def _ranked(going: pa.Table, ranks: pa.Array, *, listed: bool) -> pa.Table:
    is_listed = pa.repeat(pa.scalar(listed), going.num_rows)
    columns = [*going.columns, ranks, is_listed]
    return pa.table(columns, names=RANKED.names).cast(RANKED)


def where(rows: pa.Table, aside: Aside | None) -> pa.Table:
    """Rows with the addresses where objects are now, if they were moved."""
    if aside is None:
        return rows
    inside = pc.utf8_slice_codeunits(rows.column("address"), start=len(aside.prefix))
    moved = pc.binary_join_element_wise(pa.scalar(aside.folder), inside, "")
    return rows.set_column(0, GOING.field("address"), moved)


def not_back(rows: pa.Table, aside: Aside | None) -> pa.ChunkedArray:
    """Where the objects belong that could not be brought back, by the rows of a journal."""
    failed = rows.filter(pc.equal(rows.column("outcome"), FAILED)).column("address")
    if aside is None:
        return failed
    inside = pc.utf8_slice_codeunits(failed, start=len(aside.folder))
    return pc.binary_join_element_wise(pa.scalar(aside.prefix), inside, "")
