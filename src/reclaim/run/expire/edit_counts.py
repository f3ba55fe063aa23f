"""The size of a history edit, for results and records of runs."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from reclaim.model import SnapshotId
from reclaim.run_record import EditCounts

if TYPE_CHECKING:
    from reclaim.history import Edit


def count_edit(edit: Edit, released: Collection[SnapshotId]) -> EditCounts:
    """Size of an edit that removes the ``released`` snapshots from history."""
    names = tuple(ref.name for ref in edit.delete_refs)
    return EditCounts(len(edit.reparent), len(released), names)
