"""A plan and its apply ask every source of roots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.roots import roots
from reclaim.run.roots.request import RootRequest, holding
from reclaim.stores.observation import Observation
from tests.collect.conftest import local, tmp_path
from tests.collect.helpers.world import World, bury
from tests.lifecycle.ruled import plan_rules
from tests.planted.roots import TESTS

__all__ = ["local", "tmp_path"]
PLANS: dict[str, Callable[[World], WrittenPlan]] = {
    "collection": lambda world: world.plan(),
    "uncommitted": lambda world: world.uncommitted(),
    "lifecycle": lambda world: plan_rules(world, {"logs": {"prefix": "", "days": 1}}),
}


@pytest.mark.parametrize("kind", PLANS)
def test_plan_and_apply_ask_every_source(
    kind: str, local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def recording(source: roots.RootSource) -> roots.RootSource:
        def hold(seen: Observation, request: RootRequest) -> Observation:
            asked.append(source.name)
            return source.hold(seen, request)

        return replace(source, hold=hold)

    names = {source.name for source in roots.ROOTS}
    assert names == set(TESTS)
    monkeypatch.setattr(roots, "ROOTS", [recording(source) for source in roots.ROOTS])
    bury(local)
    local.age()
    plan = PLANS[kind](local)
    assert set(asked) == names
    asked.clear()
    local.apply(plan)
    assert set(asked) == names


def test_a_root_that_comes_after_the_claims_keeps_its_object(
    local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rules take what live commits refer to, so only a root can keep it."""
    bury(local)
    local.age()
    plan = PLANS["lifecycle"](local)
    first, *_ = sorted(local.candidates(plan))
    asked: list[str] = []

    def hold(seen: Observation, request: RootRequest) -> Observation:
        asked.append(request.run)
        # The first look is before anything is claimed.
        return seen if len(asked) < 2 else holding(seen, [request.write("late", [first])])

    late = roots.RootSource("a root that comes late", hold)
    monkeypatch.setattr(roots, "ROOTS", [*roots.ROOTS, late])
    planned = len(local.candidates(plan))
    done = local.apply(plan)
    assert first in local.there()
    assert done.summary()["objects"] == planned - 1 > 0
