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
    """The result of an apply."""

    run: str
    place: Place
    outcome: Outcome
    """Sum over all applies of the plan; so are the other numbers."""
    dropped: int
    """Candidates that something reaches now."""
    condemned: int
    collected: int
    """Snapshots that were let go of."""
    until: datetime | None = None
    """How long what was taken is kept aside; None when it was deleted."""
    noun: str = "commit"
    requests: int = 0
    """Requests that moving to quarantine took, where requests are paid for."""
    compared: bool = False
    """Whether all was compared again, because nobody vouched for the plan."""
    unplanned: int = 0
    spared: int = 0
    """Snapshots that the store's library took out of history beyond the plan, or did not."""
    edit: EditCounts = NO_EDIT
    """The edit of the history, whether anything was deleted or not."""
    left_out: LeftOut = NOTHING_LEFT_OUT
    """Candidates that a person left out of this apply."""
    by_lifecycle_rules: bool = False
    """Whether it took data of commits that stay: then nothing is to be said of commits."""

    @property
    def failed(self) -> int:
        return self.outcome.counts[FAILED]

    @property
    def phase(self) -> Phase:
        """The phase that it leaves the run in."""
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
        aside = {} if self.until is None else {"until": instant_text(self.until)}
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
        return aside | compared | counts | self.left_out.document()
