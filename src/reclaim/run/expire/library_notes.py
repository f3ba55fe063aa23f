"""The notes of a run about the edits that it lets the store's own library make.

They are in the run's record before the library is asked: an error of a library need not mean that
it did nothing, and whoever goes on with the run has to know what was predicted of each edit.
"""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Set as AbstractSet

from reclaim.model import SnapshotId
from reclaim.run.expire.released import Released, read_released, write_released
from reclaim.run.record.record_writer import RecordWriter
from reclaim.run_record import RecordedEdit, RunRecord
from reclaim.stores.base import Store


class LibraryNotes:
    """The library's edits as they were predicted, and as they are seen."""

    def __init__(self, store: Store, writer: RecordWriter, earlier: RunRecord | None) -> None:
        self._store = store
        self._writer = writer
        self._earlier = earlier
        self._released: Released | None = None
        self._before: tuple[Released | None, RecordedEdit] = (None, writer.record.edit)
        self.edited = False
        """Whether this apply has asked the library."""

    def predicted(
        self,
        dead: Collection[SnapshotId],
        stays: AbstractSet[SnapshotId],
        released: frozenset[SnapshotId],
        *,
        edits: bool,
    ) -> None:
        """Note what stays in reach by a prediction, and what gets out of it; ``dead`` is what the
        plan names. If the library ``edits``, this is the last that is done before it is asked."""
        reviewed = frozenset(dead) - stays
        known = self._released or read_released(self._store, self._earlier)
        self._before = (known, self._writer.record.edit)
        self._released = (known or Released(reviewed)).edited_again(reviewed, released)
        if edits:
            self.edited = True
            self._writer.replace_edit(by_library=True)
            self._write()

    def unchanged(self) -> None:
        """Take that back: the library was asked, and did nothing."""
        self._released, before = self._before
        self.edited = False
        self._writer.write(edit=before)

    def find_unplanned(self, dead: AbstractSet[SnapshotId]) -> frozenset[SnapshotId]:
        """Snapshots of those that nothing reaches now that nobody has reviewed: the plan does not
        name them, or a prediction said that they stay."""
        assert self._released is not None
        return frozenset(dead - self._released.reviewed)

    def note_unplanned(self, unplanned: frozenset[SnapshotId]) -> None:
        """Note what the library took too much, so that an undo holds it."""
        if unplanned and self._released is not None:
            self._released = self._released.beyond(unplanned)
            self._write()

    def _write(self) -> None:
        assert self._released is not None
        run = self._writer.record.id
        file = write_released(self._store, run, self._released)
        self._writer.replace_edit(released_file=file)
        self._writer.write()
