"""Writers that are in the middle of something while a whole run goes by."""

from __future__ import annotations

import io
import sys
from datetime import timedelta

import pytest

from reclaim.catalog.refs import committing
from reclaim.errors import TokenExpired, TransactionFailed
from reclaim.policy import from_options
from reclaim.run.plan.planning import WrittenPlan
from reclaim.stores.observation import Margins
from tests.collect.helpers.changes import assert_gone, assert_gone_commit, ranges_of
from tests.collect.helpers.world import NAME, At, Interrupting, World, bury, stepped, whole


def impatient(world: World) -> None:
    """No margin stands between an object and its deletion: only what is exact protects it."""
    world.margins = Margins(timedelta(0), timedelta(0), timedelta(days=30))


@pytest.mark.parametrize("how", ["put", "copy"])
def test_bytes_in_flight_are_in_an_open_partition(world: World, how: str) -> None:
    """Uploaded and not yet staged, while a whole run goes by."""
    past = bury(world)
    impatient(world)

    def collect() -> None:
        world.clock.advance(minutes=5)
        world.apply(world.plan())

    repo = world.other(lambda storage: Interrupting(storage, "/branches/", collect))
    if how == "put":
        repo.branch("work").put("slow", b"old y")
    else:
        repo.branch("work").copy("y", "slow", source_ref=past.second)
    assert whole(world.other(), "work")["slow"] == b"old y"
    assert_gone(world, past.second)
    world.quiet()


def test_a_writer_that_stood_still_too_long_writes_again(world: World) -> None:
    """An overdue partition is closed for good, so its writer starts over in a new one."""
    bury(world)
    impatient(world)

    def collect() -> None:
        world.clock.advance(minutes=20)
        world.apply(world.plan())

    repo = world.other(lambda storage: Interrupting(storage, "/branches/", collect))
    repo.branch("work").put("slow", b"slow")
    assert whole(world.other(), "work")["slow"] == b"slow"
    world.quiet()


def test_an_open_file_that_stood_still_too_long_can_be_put_again(local: World) -> None:
    """What was read from it is collected and cannot be read again: that is a conflict."""
    bury(local)
    impatient(local)

    def collect() -> None:
        local.clock.advance(minutes=20)
        local.apply(local.plan())

    repo = local.other(lambda storage: Interrupting(storage, "/branches/", collect))
    with pytest.raises(TransactionFailed, match="was closed while it was being written"):
        repo.branch("work").put("slow", io.BytesIO(b"slow"))
    repo.branch("work").put("slow", io.BytesIO(b"slow"))
    assert whole(local.other(), "work")["slow"] == b"slow"
    local.quiet()


def test_a_sealed_change_is_held(world: World) -> None:
    """A commit that died after sealing: its changes are still on the branch."""
    bury(world)
    catalog = world.opened()
    branch = catalog.repository(NAME).branch("work")
    branch.put("sealed", b"sealed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(committing, "land", lambda *_: sys.exit(1))
        with pytest.raises(SystemExit):
            branch.commit("dies")
    catalog.close()
    world.age()
    plan = world.plan()
    world.apply(plan)
    assert whole(world.other(), "work")["sealed"] == b"sealed"
    world.quiet()
    world.other().branch("work").commit("lives")
    assert whole(world.other(), "work")["sealed"] == b"sealed"
    world.quiet()


def test_a_commit_in_flight_does_not_lean_on_a_dying_range(world: World) -> None:
    """It writes the same rows as a range that goes before it lands."""
    catalog = world.opened()
    repo = catalog.repository(NAME)
    main = repo.branch("main")
    main.put("a", b"one")
    first = main.commit("first").id
    world.age()
    main.move("a", "b")
    main.commit("second")
    main.move("b", "a")
    catalog.close()
    world.age()
    impatient(world)
    plan = world.plan(from_options(older_than="3d"))
    assert {info.address for info in ranges_of(world, first)} <= set(world.candidates(plan))

    other = world.other(
        lambda storage: Interrupting(storage, "/_reclaim/meta/", lambda: world.apply(plan))
    )
    landed = other.branch("main").commit("third").id

    assert_gone_commit(world, first)
    assert whole(world.other(), landed) == {"a": b"one"}
    world.quiet()


def test_a_reset_during_a_commit_wins(world: World) -> None:
    """What was reset may be collected, so the commit that has read it must not land."""
    bury(world)
    catalog = world.opened()
    catalog.repository(NAME).branch("work").put("new", b"new")
    catalog.close()
    world.age()
    impatient(world)

    def reset_and_collect() -> None:
        world.other().branch("work").reset()
        world.apply(world.plan())

    other = world.other(lambda storage: Interrupting(storage, "/_reclaim/meta/", reset_and_collect))
    with pytest.raises(TransactionFailed, match="were reset"):
        other.branch("work").commit("too late")
    world.check()
    assert "new" not in whole(world.other(), "work")
    world.quiet()


def test_an_upload_by_physical_address_is_held_until_its_token_expires(world: World) -> None:
    bury(world)
    impatient(world)
    catalog = world.opened()
    branch = catalog.repository(NAME).branch("work")
    kept = branch.get_physical_address("kept", valid=timedelta(days=3))
    late = branch.get_physical_address("late", valid=timedelta(hours=1))
    for address in (kept, late):
        world.storage.put(address.address, b"uploaded")
    catalog.close()
    world.age()
    plan = world.plan()
    world.apply(plan)
    assert kept.address in world.there()
    assert late.address not in world.there()
    with pytest.raises(TokenExpired):
        world.other().branch("work").link_physical_address("late", late)
    world.other().branch("work").link_physical_address("kept", kept)
    assert whole(world.other(), "work")["kept"] == b"uploaded"
    world.quiet()


def test_a_writer_at_work_while_a_plan_is_made(world: World) -> None:
    """The listing comes first: whatever is born later, and where, the database knows by then."""
    past = bury(world)
    impatient(world)

    def write(_step: str) -> None:
        if "main" not in done:
            done.append("main")
            catalog = world.opened()
            repo = catalog.repository(NAME)
            repo.branch("main").put("new", b"new")
            done.append(repo.branch("main").commit("new").id)
            done.append(repo.create_branch("back", past.first).name)
            catalog.close()
            world.clock.advance(minutes=1)

    done: list[str] = []
    plan = world.plan(step=write)
    assert not set(world.candidates(plan)) & world.needed()
    world.apply(plan)
    assert whole(world.other(), done[1])["new"] == b"new"
    assert whole(world.other(), "back") == past.files[past.first]
    world.quiet()


# Time that passes between two looks of an apply.


def test_a_partition_that_becomes_overdue_too_late_is_not_counted_as_closed(local: World) -> None:
    """Only a partition that is closed as a state fences its writer off."""
    bury(local)
    impatient(local)
    plans: list[WrittenPlan] = []

    def plan_and_apply() -> None:
        # The writer stands still, a plan counts its partition as closed; then it renews.
        local.clock.advance(minutes=20)
        plans.append(local.plan())
        writer._workspace.partitions.renew()
        local.clock.advance(minutes=15)
        at = At("after close_overdue", lambda: local.clock.advance(seconds=1))
        local.apply(plans[0], store=stepped(local.store(), at))

    writer = local.other(lambda storage: Interrupting(storage, "/branches/", plan_and_apply))
    writer.branch("work").put("slow", b"slow")
    assert whole(local.other(), "work")["slow"] == b"slow"
    local.quiet()


def test_a_token_that_expires_too_late_is_not_counted_as_expired(local: World) -> None:
    """An instance whose clock is a little behind may still link it."""
    bury(local)
    impatient(local)
    catalog = local.opened()
    branch = catalog.repository(NAME).branch("work")
    up = branch.get_physical_address("up", valid=timedelta(hours=1))
    local.storage.put(up.address, b"uploaded")
    catalog.close()
    started = local.clock.now()
    local.clock.advance(hours=1, seconds=1)
    plan = local.plan()
    assert up.address in local.candidates(plan)
    local.clock.set(started + timedelta(minutes=59, seconds=59))
    at = At("after close_overdue", lambda: local.clock.advance(seconds=2))
    local.apply(plan, store=stepped(local.store(), at))
    local.clock.advance(seconds=-2)
    local.other().branch("work").link_physical_address("up", up)
    assert whole(local.other(), "work")["up"] == b"uploaded"
