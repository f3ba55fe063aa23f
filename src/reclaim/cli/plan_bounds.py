"""Options of plans that look at a part of a store by what an earlier run left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from reclaim.cli.plan_options import MinAgeOption, OutOption, PlanningOptions


@dataclass(frozen=True, slots=True)
class PlanBounds:
    """What such a plan may take, and where it goes."""

    min_age: MinAgeOption = "24h"
    out: OutOption = None
    unsafe_allow_fraction: Annotated[
        float | None,
        typer.Option(
            "--unsafe-allow-fraction",
            metavar="F",
            min=0.0,
            max=1.0,
            help="Let a plan take more than 0.9 of all known objects.",
            show_default=False,
        ),
    ] = None

    def planning(self) -> PlanningOptions:
        return PlanningOptions(
            min_age=self.min_age,
            out=self.out,
            unsafe_allow_fraction=self.unsafe_allow_fraction,
        )
