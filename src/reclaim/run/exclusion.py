"""What a person leaves out of a plan that is applied: it stays, and the next plan lists it again.

Only objects are left out. Commits go as the plan says: one of which an object stays is as unusable
as if all were gone, until an undo brings back the rest. Where snapshots are of no use without
others, those that are left out stay live, with all that they need (decision 0039).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reclaim.engine.base import Engine, ExcludeRequest
from reclaim.engine.tasks.parts import Opener, Part, Place, read_part
from reclaim.errors import IncompleteRead, PlanRefused
from reclaim.stores.abilities import NeedsOtherSnapshots
from reclaim.stores.base import Store

EXCLUDE = "exclude"
"""The globs, in the record of a run."""
FOLDER = "excluded"
"""The folder of an apply with the list of what was left out."""


@dataclass(frozen=True, slots=True)
class Exclusion:
    """The candidates that a person leaves out, and those that are left to go."""

    globs: Sequence[str]
    included: Sequence[Part]
    excluded: Sequence[Part]
    needing: Sequence[str] = ()
    """Addresses of what was left out, where snapshots need others."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What was left out, as the record of a run has it."""

    globs: Sequence[str] = ()
    objects: int = 0
    size: int = 0
    place: str = ""
    """The folder with the list of them."""

    def record(self) -> dict[str, object]:
        return {
            EXCLUDE: list(self.globs),
            "excluded": self.objects,
            "excluded_bytes": self.size,
            "excluded_list": self.place,
        }


NOTHING_LEFT_OUT = LeftOut()


def exclude(
    store: Store,
    engine: Engine,
    candidates: Sequence[Part],
    globs: Sequence[str],
    *,
    own: Place,
    opener: Opener,
) -> Exclusion:
    """Leave candidates out by globs. A glob that matches none of the plan is refused: what it was
    meant to keep would go."""
    request = ExcludeRequest(
        candidates, globs, own.below("work").below("included"), own.below(FOLDER)
    )
    split = engine.exclude(request)
    idle = [glob for glob, count in zip(globs, split.matches, strict=True) if not count]
    if idle:
        raise PlanRefused(
            f"--exclude {idle[0]!r} matches no object of the plan",
            hint="nothing was changed; see the addresses and paths with `reclaim show PLAN "
            "--objects`, or leave it out",
            exclude=idle,
        )
    expected, read = _rows(candidates), _rows(split.included) + _rows(split.excluded)
    if expected != read:
        raise IncompleteRead(
            f"the plan lists {expected} objects, and {read} were read to leave some out",
            hint="nothing was changed; apply it again",
        )
    needing: list[str] = []
    if isinstance(store, NeedsOtherSnapshots):
        # The driver knows the snapshots of such a store one by one.
        for part in split.excluded:
            rows = read_part(opener(own.url), part, ["address"])
            needing += rows.column("address").to_pylist()
    return Exclusion(globs, split.included, split.excluded, needing)


def _rows(parts: Sequence[Part]) -> int:
    return sum(part.rows for part in parts)
