"""The record of a run at work: replaced and written here, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reclaim.run_record import Phase, RunRecord
from reclaim.stores.base import Held


class RecordWriter:
    """The current record of a run, and the handle that saves it."""

    def __init__(self, held: Held, record: RunRecord) -> None:
        self._held = held
        self.record = record
        self.may_have_promoted = False
        """Whether this apply has promoted, or may have: an error need not mean that it has not."""

    def replace(self, **changes: Any) -> None:
        """Replace parts of the record, to be written with the next."""
        self.record = replace(self.record, **changes)

    def start(self) -> None:
        """Record that the run has started, or goes on."""
        self._held.start(self.record)

    def write(self, **changes: Any) -> None:
        """Record how far the run came."""
        self.replace(**changes)
        self._held.finish(self.record)

    def replace_edit(self, **changes: Any) -> None:
        """Replace parts of the edit in the record."""
        self.replace(edit=replace(self.record.edit, **changes))

    def promoting(self) -> None:
        """The run may have promoted from here on."""
        self.may_have_promoted = True
        if not self.record.promoted:
            self.replace(phase=Phase.PROMOTING)

    def write_promoting(self) -> None:
        """Record that the run promotes next; if that fails, it does not."""
        before = self.record
        self.promoting()
        try:
            self._held.finish(self.record)
        except BaseException:
            self.may_have_promoted = False
            self.record = before
            raise

    def not_promoted(self) -> None:
        """The promotion was tried, and is known not to have happened."""
        self.may_have_promoted = False
        if not self.record.promoted:
            self.replace(phase=Phase.STARTED)
