"""Runs that are refused, and go through once the cause is gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from reclaim.errors import ReclaimError
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run_record import Phase
from tests.collect.helpers.world import World


@contextmanager
def refused(world: World, error: type[ReclaimError], exit_code: int) -> Iterator[None]:
    """The block fails with this error; nothing was deleted, and nothing says that it is done."""
    there = world.there()
    finished = [run for run in world.repo.runs() if run.phase == Phase.DONE]
    with pytest.raises(error) as caught:
        yield
    assert caught.value.exit_code == exit_code != 0
    assert caught.value.kind == error.kind
    assert world.there() == there
    assert [run for run in world.repo.runs() if run.phase == Phase.DONE] == finished


def finishes(world: World, plan: WrittenPlan) -> None:
    """Once the cause is gone, the same plan does its work."""
    before = world.there()
    world.apply(plan)
    world.check_swept(plan, before)
    assert world.repo.runs()[0].phase == Phase.DONE
