"""A plan says under which path an object was staged that is in no commit, where that is known."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from reclaim.catalog.collection.roots import staged_paths
from reclaim.engine.tasks.parts import read_part
from reclaim.run.plan.planning import WrittenPlan
from tests.collect.helpers.world import NAME, World


def rows_of(world: World, plan: WrittenPlan) -> list[dict[str, Any]]:
    parts = [file.part for file in plan.document.files]
    return [row for part in parts for row in read_part(world.storage, part).to_pylist()]


def paths_of(world: World, plan: WrittenPlan) -> list[str]:
    rows = rows_of(world, plan)
    return sorted(row["path"] or "" for row in rows if row["kind"] == "data")


def waste(world: World) -> None:
    """Uploads that are in no commit: overwritten, reset, deleted, and never linked."""
    catalog = world.opened()
    main = catalog.repository(NAME).branch("main")
    main.put("kept/a", b"kept")
    main.put("over/written", b"first")
    main.put("over/written", b"second")
    main.put("deleted/at/once", b"x")
    main.delete("deleted/at/once")
    main.commit("kept")
    main.put("re/set", b"x")
    main.reset()
    physical = main.get_physical_address("never/linked", valid=timedelta(minutes=1))
    world.storage.put(physical.address, b"uploaded")
    catalog.close()
    world.age()


def test_uploads_that_are_in_no_commit(local: World) -> None:
    waste(local)
    plan = local.plan()
    paths = ["deleted/at/once", "never/linked", "over/written", "re/set"]
    assert paths_of(local, plan) == paths
    groups = {group.prefix for group in plan.document.going if group.kind == "data"}
    assert groups == {"deleted/at/", "never/", "over/", "re/"}
    local.apply(plan)
    local.check()


def test_only_so_many_are_told(local: World, monkeypatch: pytest.MonkeyPatch) -> None:
    waste(local)
    monkeypatch.setattr(staged_paths, "MOST", 2)
    paths = paths_of(local, local.plan())
    assert paths[:2] == ["", ""]
    assert all(paths[2:])
    assert len(paths) == 4
