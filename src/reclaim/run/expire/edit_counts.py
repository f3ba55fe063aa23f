"""The size of an edit of the history, for results and records of runs."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from reclaim.model import SnapshotId
from reclaim.run_record import EditCounts

if TYPE_CHECKING:
    from reclaim.history import Edit


def count_edit(edit: Edit, released: Collection[SnapshotId]) -> EditCounts:
    """The size of an edit, which takes the ``released`` snapshots out of the history."""
    names = tuple(ref.name for ref in edit.delete_refs)
    return EditCounts(len(edit.reparent), len(released), names)
