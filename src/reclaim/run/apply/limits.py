"""Limits on the size of a plan, given to an apply."""

from __future__ import annotations

from dataclasses import dataclass

from reclaim.engine.tasks.parts import Place
from reclaim.errors import TooMuch
from reclaim.run.plan.plan_document import PlanDocument


@dataclass(frozen=True, slots=True)
class Limits:
    """Maximum number of objects and bytes in a plan; None for no limit."""

    objects: int | None = None
    size: int | None = None

    def check(self, planned: PlanDocument, *, hint: str) -> None:
        """Refuse a larger plan. Excluded objects count: the limit applies to the plan as made."""
        limits = (
            ("--max-objects", self.objects, planned.candidates, "objects"),
            ("--max-bytes", self.size, planned.candidate_bytes, "bytes"),
        )
        for option, limit, count, unit in limits:
            if limit is not None and count > limit:
                raise TooMuch(
                    f"the plan would delete {count} {unit}, more than {option} {limit} allows",
                    hint=hint,
                    candidates=planned.candidates,
                    bytes=planned.candidate_bytes,
                )


NO_LIMITS = Limits()


def review_hint(place: Place) -> str:
    """Hint for a plan beyond the limits, which is kept."""
    return (
        f"nothing was changed; review the plan: reclaim show {place}, then apply it, or allow more"
    )
