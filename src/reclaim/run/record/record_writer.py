"""Saving of the record of an active run. No other module saves it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reclaim.run_record import Phase, RunRecord
from reclaim.stores.base import Held


class RecordWriter:
    """Current record of a run, with the handle to save it."""

    def __init__(self, held: Held, record: RunRecord) -> None:
        self._held = held
        self.record = record
        self.may_have_promoted = False
        """Whether this apply may have promoted: an error does not rule it out."""

    def replace(self, **changes: Any) -> None:
        """Replace parts of the record, saved with the next write."""
        self.record = replace(self.record, **changes)

    def start(self) -> None:
        """Save the record at the start of an apply."""
        self._held.start(self.record)

    def write(self, **changes: Any) -> None:
        """Save the progress of the run."""
        self.replace(**changes)
        self._held.finish(self.record)

    def replace_edit(self, **changes: Any) -> None:
        """Replace parts of the edit in the record."""
        self.replace(edit=replace(self.record.edit, **changes))

    def promoting(self) -> None:
        """Mark the run as possibly promoted."""
        self.may_have_promoted = True
        if not self.record.promoted:
            self.replace(phase=Phase.PROMOTING)

    def write_promoting(self) -> None:
        """Record the promotion before it happens. If the write fails, the run does not promote."""
        before = self.record
        self.promoting()
        try:
            self._held.finish(self.record)
        except BaseException:
            self.may_have_promoted = False
            self.record = before
            raise

    def not_promoted(self) -> None:
        """Record that an attempted promotion did not happen."""
        self.may_have_promoted = False
        if not self.record.promoted:
            self.replace(phase=Phase.STARTED)
