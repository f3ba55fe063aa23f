"""The notes of an apply about the edits that it lets the store's own library make.

They are in the run's record before the library is asked: an error of a library need not mean that
it did nothing, and whoever goes on with the run has to know what was predicted of each edit.
"""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from typing import Any

from reclaim.model import EDITED_BY_LIBRARY, RELEASED_BY_LIBRARY, Run, RunState, SnapshotId
from reclaim.run.released import Released, read_released, write_released
from reclaim.stores.base import Held, Store

NOTES = (EDITED_BY_LIBRARY, RELEASED_BY_LIBRARY)


class LibraryNotes:
    """The library's edits as they were predicted, and as they are seen.

    ``facts`` is the record of the run as the apply keeps it.
    """

    def __init__(
        self, store: Store, held: Held, run_id: str, facts: dict[str, Any], earlier: Run | None
    ) -> None:
        self._store = store
        self._held = held
        self._run = run_id
        self._facts = facts
        self._earlier = earlier
        self._released: Released | None = None
        self._before: tuple[Released | None, dict[str, Any]] = (None, {})
        if earlier is not None:
            facts |= {name: earlier.summary[name] for name in NOTES if name in earlier.summary}
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
        self._before = (known, {name: self._facts[name] for name in NOTES if name in self._facts})
        self._released = (known or Released(reviewed)).edited_again(reviewed, released)
        if edits:
            self.edited = self._facts[EDITED_BY_LIBRARY] = True
            self._write()

    def unchanged(self) -> None:
        """Take that back: the library was asked, and did nothing."""
        self._released, noted = self._before
        for name in NOTES:
            self._facts.pop(name, None)
        self._facts |= noted
        self.edited = False
        self._held.finish(self._run, RunState.STARTED, self._facts)

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
        self._facts[RELEASED_BY_LIBRARY] = write_released(self._store, self._run, self._released)
        self._held.finish(self._run, RunState.STARTED, self._facts)
