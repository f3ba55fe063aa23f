"""Options of plans that look at a part of a store by what an earlier run left."""

from __future__ import annotations

from dataclasses import dataclass

from reclaim.cli.options.plan_options import (
    FractionOption,
    MinAgeOption,
    OutOption,
    PlanningOptions,
)


@dataclass(frozen=True, slots=True)
class PlanBounds:
    """Options that bound such a plan, and say where it goes."""

    min_age: MinAgeOption = "24h"
    out: OutOption = None
    unsafe_allow_fraction: FractionOption = None

    def planning(self) -> PlanningOptions:
        return PlanningOptions(
            min_age=self.min_age,
            out=self.out,
            unsafe_allow_fraction=self.unsafe_allow_fraction,
        )
