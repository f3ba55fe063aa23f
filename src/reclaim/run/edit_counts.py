"""The size of an edit of the history, as results and records of runs tell it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reclaim.model import SnapshotId

if TYPE_CHECKING:
    from reclaim.history import Edit

REPARENTED, RELEASED, DELETED_REFS = "reparented", "released", "deleted_refs"
"""The names in a run's record: snapshots that got other parents, snapshots that no branch or tag
reaches any more because of that, and the names of the refs that were deleted."""


@dataclass(frozen=True, slots=True)
class EditCounts:
    """How many snapshots got other parents and left the history, and which refs were deleted.

    What left the history is not deleted by that: a lease or a promise may hold it.
    """

    reparented: int = 0
    released: int = 0
    deleted_refs: tuple[str, ...] = ()

    @classmethod
    def of(cls, edit: Edit, released: Collection[SnapshotId]) -> EditCounts:
        names = tuple(ref.name for ref in edit.delete_refs)
        return cls(len(edit.reparent), len(released), names)

    @classmethod
    def of_record(cls, summary: Mapping[str, Any]) -> EditCounts:
        """The counts in a run's record; nothing where it is from before they were recorded."""
        return cls(
            summary.get(REPARENTED, 0),
            summary.get(RELEASED, 0),
            tuple(summary.get(DELETED_REFS, ())),
        )

    def __bool__(self) -> bool:
        """Whether history was edited at all."""
        return bool(self.reparented or self.deleted_refs)

    def __add__(self, other: EditCounts) -> EditCounts:
        names = dict.fromkeys((*self.deleted_refs, *other.deleted_refs))
        return EditCounts(
            self.reparented + other.reparented, self.released + other.released, tuple(names)
        )

    def record(self) -> dict[str, Any]:
        """It as keys of a record."""
        return {
            REPARENTED: self.reparented,
            RELEASED: self.released,
            DELETED_REFS: list(self.deleted_refs),
        }


NO_EDIT = EditCounts()
