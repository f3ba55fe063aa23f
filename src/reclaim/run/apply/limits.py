"""Limits to what a plan may take, given by whoever applies it."""

from __future__ import annotations

from dataclasses import dataclass

from reclaim.engine.tasks.parts import Place
from reclaim.errors import TooMuch
from reclaim.run.plan.plan_document import PlanDocument


@dataclass(frozen=True, slots=True)
class Limits:
    """The most objects and bytes that a plan may take; None for any number."""

    objects: int | None = None
    size: int | None = None

    def check(self, planned: PlanDocument, *, hint: str) -> None:
        """Refuse a plan that takes more. What is left out by globs counts: a limit is about what
        was planned."""
        limits = (
            ("--max-objects", self.objects, planned.candidates, "objects"),
            ("--max-bytes", self.size, planned.candidate_bytes, "bytes"),
        )
        for option, most, count, unit in limits:
            if most is not None and count > most:
                raise TooMuch(
                    f"the plan takes {count} {unit}, more than the {most} that {option} allows",
                    hint=hint,
                    candidates=planned.candidates,
                    bytes=planned.candidate_bytes,
                )


NO_LIMITS = Limits()


def review_hint(place: Place) -> str:
    """What to do about a plan beyond the limits, which stays."""
    return (
        f"nothing was changed; review the plan: reclaim show {place}, then apply it, or allow more"
    )
