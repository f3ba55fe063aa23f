"""The result of an apply."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from reclaim.engine.tasks.deleting import DELETED, FAILED, MISSING, Outcome
from reclaim.engine.tasks.parts import Place
from reclaim.engine.tasks.quarantine import QUARANTINED
from reclaim.model import instant_text
from reclaim.run.apply.trust import COMPARED
from reclaim.run_record import NO_EDIT, NOTHING_LEFT_OUT, EditCounts, LeftOut, Phase, RunCounts


@dataclass(frozen=True, slots=True)
class Applied:
    """Totals over all applies of a plan."""

    run: str
    place: Place
    outcome: Outcome
    dropped: int
    """Candidates kept because they are referenced now."""
    condemned: int
    collected: int
    """Snapshots deleted from the store's metadata."""
    until: datetime | None = None
    """End of the quarantine; None if objects were deleted."""
    noun: str = "commit"
    requests: int = 0
    """Paid storage requests used to move objects to quarantine."""
    compared: bool = False
    """Whether all objects were compared again because nobody vouched for the plan."""
    unplanned: int = 0
    spared: int = 0
    """Snapshots the store's library removed beyond the plan, and planned snapshots it kept."""
    edit: EditCounts = NO_EDIT
    """Edit of the history, made even if nothing was deleted."""
    left_out: LeftOut = NOTHING_LEFT_OUT
    """Candidates a user excluded from this apply."""
    by_lifecycle_rules: bool = False
    """Whether objects of kept commits were deleted. Reports then omit commits."""

    @property
    def failed(self) -> int:
        return self.outcome.counts[FAILED]

    @property
    def phase(self) -> Phase:
        """Phase of the run after this apply."""
        return Phase.PARTIAL if self.failed else Phase.DONE

    @property
    def counts(self) -> RunCounts:
        objects, size = self.outcome.only(DELETED, QUARANTINED)
        return RunCounts(
            objects,
            size,
            self.failed,
            self.outcome.counts[MISSING],
            self.dropped,
            self.condemned,
            self.collected,
        )

    def summary(self) -> dict[str, Any]:
        quarantine = {} if self.until is None else {"until": instant_text(self.until)}
        compared: dict[str, Any] = {"compared": COMPARED} if self.compared else {}
        library = {"unplanned": self.unplanned, "spared": self.spared}
        compared |= {name: count for name, count in library.items() if count}
        counts = {
            "objects": self.counts.objects,
            "bytes": self.counts.bytes,
            "failed": self.counts.failed,
            "missing": self.counts.missing,
            "dropped": self.dropped,
            "condemned": self.condemned,
            "collected": self.collected,
        } | self.edit.document()
        return quarantine | compared | counts | self.left_out.document()
