"""Notes of a run about history edits by the store's own library.

They are saved in the run record before the library is called: a library error does not prove it did
nothing, and whoever continues the run needs the prediction of each edit.
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
    """Predicted and observed edits by the library."""

    def __init__(self, store: Store, writer: RecordWriter, earlier: RunRecord | None) -> None:
        self._store = store
        self._writer = writer
        self._earlier = earlier
        self._released: Released | None = None
        self._before: tuple[Released | None, RecordedEdit] = (None, writer.record.edit)
        self.edited = False
        """Whether this apply has called the library."""

    def predicted(
        self,
        dead: Collection[SnapshotId],
        staying: AbstractSet[SnapshotId],
        released: frozenset[SnapshotId],
        *,
        edits: bool,
    ) -> None:
        """Save the predicted reach of snapshots; ``dead`` has the planned deletions. If the library
        ``edits``, this is the last step before the call."""
        reviewed = frozenset(dead) - staying
        earlier = self._released or read_released(self._store, self._earlier)
        self._before = (earlier, self._writer.record.edit)
        self._released = (earlier or Released(reviewed)).edited_again(reviewed, released)
        if edits:
            self.edited = True
            self._writer.replace_edit(by_library=True)
            self._write()

    def unchanged(self) -> None:
        """Discard the prediction: the library was called, and did nothing."""
        self._released, before = self._before
        self.edited = False
        self._writer.write(edit=before)

    def find_unplanned(self, dead: AbstractSet[SnapshotId]) -> frozenset[SnapshotId]:
        """Unreachable snapshots nobody has reviewed: not planned, or predicted to stay."""
        assert self._released is not None
        return frozenset(dead - self._released.reviewed)

    def note_unplanned(self, unplanned: frozenset[SnapshotId]) -> None:
        """Save snapshots removed without review, so that an undo holds them."""
        if unplanned and self._released is not None:
            self._released = self._released.beyond(unplanned)
            self._write()

    def _write(self) -> None:
        assert self._released is not None
        run = self._writer.record.id
        file = write_released(self._store, run, self._released)
        self._writer.replace_edit(released_file=file)
        self._writer.write()
