"""What happens between a plan and its apply: nothing referenced goes, and nothing dangles.

Each test applies a plan that was made before something changed, and then reads everything back
through other instances. Of the plan, what is still garbage goes and nothing else.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from reclaim.engine.local.engine import LocalEngine
from reclaim.engine.tasks.parts import Place, read_part
from reclaim.errors import Gone, TransactionFailed
from reclaim.policy import from_options
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.plan.planning import PlanOptions, make_plan
from reclaim.storage import ObjectStorage, Storage
from reclaim.testing import ClockedStorage
from reclaim.urls import normalize
from tests.collect.helpers.changes import CHANGES, assert_gone, assert_gone_commit, ranges_of
from tests.collect.helpers.world import NAME, Files, World, bury, whole


@pytest.mark.remote_values(name=["nothing", "a branch", "a lease", "a branch that goes again"])
@pytest.mark.parametrize("name", CHANGES)
def test_what_is_referenced_again_stays(world: World, name: str) -> None:
    past = bury(world)
    change, back = CHANGES[name]
    plan = world.plan()
    assert plan.document.candidates > 0
    change(world.other(), past)
    shown = show(world)
    before = world.there()

    applied = world.apply(plan)

    world.check_swept(plan, before)
    assert show(world) == shown
    for which in ("first", "second"):
        commit = getattr(past, which)
        if which in back:
            assert whole(world.other(), commit) == past.files[commit]
        else:
            assert_gone(world, commit)
    assert (applied.summary()["objects"] > 0) == (back != ("first", "second"))
    world.quiet()
    assert show(world) == shown


def show(world: World) -> dict[str, Files]:
    repo = world.other()
    return {ref.name: whole(repo, ref.name) for ref in (*repo.branches(), *repo.tags())}


def test_a_commit_on_a_dead_one_is_condemned_with_it(local: World) -> None:
    """A commit that the plan never saw, on a branch that came and went, cannot be used either."""
    past = bury(local)
    plan = local.plan()
    repo = local.other()
    back = repo.create_branch("back", past.second)
    back.put("b/1", b"again")
    unseen = back.commit("again").id
    repo.delete_branch("back")
    local.apply(plan)
    try:
        repo.create_branch("late", unseen)
    except (Gone, TransactionFailed):
        pass
    else:
        whole(local.other(), "late")
    assert_gone(local, unseen)
    local.quiet()


def test_a_lease_keeps_what_it_reaches(world: World) -> None:
    """A lease from before the plan; once it has lapsed the next run takes what it held."""
    past = bury(world)
    world.other().take_lease(past.second, holder="reader", length=timedelta(days=1))
    plan = world.plan()
    assert world.candidates(plan) == {}
    world.apply(plan)
    assert whole(world.other(), past.second) == past.files[past.second]
    world.quiet()
    assert_gone(world, past.second)


def test_a_tag_keeps_what_it_reaches(world: World) -> None:
    past = bury(world)
    world.other().create_tag("v1", past.second)
    plan = world.plan()
    assert world.candidates(plan) == {}
    world.apply(plan)
    assert whole(world.other(), "v1") == past.files[past.second]
    world.quiet()


def test_a_revert_makes_its_own_range(world: World) -> None:
    """A revert gives the rows of a range that the plan takes: it must not lean on that range."""
    catalog = world.opened()
    repo = catalog.repository(NAME)
    main = repo.branch("main")
    main.put("a", b"one")
    main.put("b", b"two")
    first = main.commit("first").id
    world.age()
    main.put("a", b"changed")
    second = main.commit("second").id
    catalog.close()
    world.clock.advance(days=1)
    plan = world.plan(from_options(older_than="2d"))
    dying = {row.address for row in ranges_of(world, first)} & set(world.candidates(plan))
    assert dying

    reverted = world.other().branch("main").revert(second).id
    before = world.there()
    world.apply(plan)

    world.check_swept(plan, before)
    assert whole(world.other(), reverted) == {"a": b"one", "b": b"two"}
    assert not dying & world.there()
    assert [commit.id for commit in world.other().log("main")][:2] == [reverted, second]
    assert_gone_commit(world, first)
    world.quiet()


def test_a_plan_may_lie_elsewhere(local: World, tmp_path: Path) -> None:
    """A plan in another storage lists the same as one in the store."""
    bury(local)
    here = local.candidates(local.plan())
    assert here
    url = normalize(str(tmp_path / "plans"))
    storages = {url: ClockedStorage(ObjectStorage.open(url, create=True), local.clock)}

    def opener(asked: str) -> Storage:
        return storages.get(asked, local.storage)

    options = PlanOptions(place=Place(url, "mine/"))
    engine = LocalEngine(opener, clock=local.clock)
    before = local.there()
    plan = make_plan(local.store(), engine, options, opener=opener)
    assert local.there() == before
    rows = [read_part(storages[url], file.part).to_pylist() for file in plan.document.files]
    assert {row["address"] for part in rows for row in part} == set(here)
    apply_plan(local.store(), engine, plan.place, opener=opener)
    local.check()
    assert local.there() == local.needed()
