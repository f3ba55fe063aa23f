"""Plans of which it is said, without an engine, that they were applied; and those that go on."""

from __future__ import annotations

from datetime import timedelta

from reclaim.run.apply.finished_plan import FinishedPlan, finish_without_apply
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine, Removal
from reclaim.stores.observation import Margins
from tests.collect.helpers.forging import forget
from tests.collect.helpers.world import World, bury


def settled(
    world: World, plan: WrittenPlan, *, removal: Removal = DELETE, digest: str | None = None
) -> FinishedPlan | None:
    return finish_without_apply(
        world.store(), plan.place, plan.document, digest=digest, removal=removal, exclude=()
    )


def bury_branch(world: World) -> str:
    """A commit that only a branch reached, which is gone."""
    branch = world.repo.create_branch("passing", "main")
    branch.put("passing", b"passing")
    commit = branch.commit("passing")
    world.repo.delete_branch("passing")
    return str(commit.id)


def test_a_plan_that_was_applied_to_its_end(local: World) -> None:
    bury(local)
    plan = local.plan()
    assert settled(local, plan) is None
    done = local.apply(plan)
    found = settled(local, plan)
    assert found is not None
    assert found.before
    assert found.applied.summary() == done.summary()


def test_what_was_live_when_a_plan_was_applied_goes_later(local: World) -> None:
    commit = bury_branch(local)
    bury(local)
    plan = local.plan()
    local.repo.create_branch("kept", commit)
    assert local.apply(plan).dropped > 0
    local.repo.delete_branch("kept")
    assert settled(local, plan) is None
    assert local.apply(plan).dropped == 0
    assert settled(local, plan) is not None


def test_a_plan_that_was_compared_goes_on_with_its_digest(local: World) -> None:
    """It took nothing that is younger than a day; by its digest it takes that as well."""
    bury(local)
    bury_branch(local)
    local.clock.advance(hours=2)
    local.margins = Margins(objects=timedelta(0))
    plan = local.plan()
    forget(local)
    assert local.apply(plan).dropped > 0
    assert settled(local, plan, digest=plan.document.digest) is None


def test_an_apply_to_quarantine_is_repeated(local: World) -> None:
    """Its lists may be damaged: only another apply finds what they told."""
    bury(local)
    plan = local.plan()
    local.apply(plan, removal=MoveToQuarantine(timedelta(days=30)))
    assert settled(local, plan, removal=MoveToQuarantine()) is None
