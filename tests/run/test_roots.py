"""A plan and its apply ask every source of roots."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from reclaim.run.plan.planning import Plan
from reclaim.run.roots import roots
from reclaim.run.roots.request import RootRequest
from reclaim.stores.observation import Observation
from tests.collect.conftest import local, tmp_path
from tests.collect.world import World, bury
from tests.lifecycle.ruled import plan_rules

__all__ = ["local", "tmp_path"]
PLANS: dict[str, Callable[[World], Plan]] = {
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
    monkeypatch.setattr(roots, "ROOTS", [recording(source) for source in roots.ROOTS])
    bury(local)
    local.age()
    plan = PLANS[kind](local)
    assert set(asked) == names
    asked.clear()
    local.apply(plan)
    assert set(asked) == names
