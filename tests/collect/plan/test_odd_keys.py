"""Odd keys below the prefix, from other writers: counted, named, left alone; nothing stops."""

from __future__ import annotations

from reclaim.engine.tasks.judging import ODD
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.record.checkpoints import Mode
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.stores.catalog import CatalogStore
from reclaim.stores.catalog.examination import unknown_partitions
from tests.collect.helpers.odd_keys import write_odd_key
from tests.collect.helpers.world import NAME, World, bury


def plant(world: World) -> set[str]:
    """Odd keys where data and containers are, and folders that look like partitions."""
    own = f"repos/{world.repo.uid}/"
    data = next(address for address in sorted(world.there()) if "/branches/" in address)
    found = {
        f"{data}\nx",
        f"{own}branches/main/{'0' * 30}\n1/x",
        f"{own}branches/ma\nin/{'0' * 32}/x",
        f"{own}_reclaim/meta/{'0' * 32}\n/x",
    }
    for address in found:
        write_odd_key(world, address)
    return found


def check_named(plan: WrittenPlan, odd: set[str]) -> None:
    staying = [group for group in plan.document.staying if group.reason == ODD]
    assert sum(group.objects for group in staying) == len(odd)
    assert sum(group.bytes for group in staying) == 3 * len(odd)
    (warning,) = (one for one in plan.document.warnings if "odd keys" in one)
    assert all(repr(address) in warning for address in odd)


def test_odd_keys_do_not_stop_a_run(world: World) -> None:
    bury(world)
    odd = plant(world)
    plan = world.plan()
    assert plan.document.candidates
    assert odd.isdisjoint(world.candidates(plan))
    check_named(plan, odd)
    before = world.there()
    run = world.apply(plan, removal=MoveToQuarantine()).run
    assert odd <= world.there()
    write_odd_key(world, f"repos/{world.repo.uid}/_reclaim/quarantine/{run}/branches/\n/x")
    undone = world.undo(run)
    assert (undone.left, undone.snapshots) == ((), 2)
    assert world.there() == before
    world.check()


def test_a_purge_leaves_odd_keys(world: World) -> None:
    bury(world)
    run = world.apply(world.plan(), removal=MoveToQuarantine()).run
    odd = f"repos/{world.repo.uid}/_reclaim/quarantine/{run}/branches/\n/x"
    write_odd_key(world, odd)
    world.clock.advance(days=8)
    assert world.purge() is not None
    assert [stored.address for stored in world.storage.list(odd.partition("branches")[0])] == [odd]


def plant_foreign(world: World) -> set[str]:
    """Files of others, in folders beside partitions."""
    own = f"repos/{world.repo.uid}/"
    found = {
        f"{own}branches/main/notes/x",
        f"{own}branches/main/notes/deep/x",
        f"{own}_reclaim/meta/notes/x",
        f"{own}branches/main/F{'0' * 13}_{'0' * 32}/x",
    }
    for address in found:
        world.storage.put(address, b"odd")
    return found


def test_a_foreign_folder_does_not_stop_a_run(world: World) -> None:
    bury(world)
    foreign = plant_foreign(world)
    world.age()
    plan = world.plan()
    assert plan.document.candidates
    assert foreign.isdisjoint(world.candidates(plan))
    check_named(plan, foreign)
    assert "a folder that is no partition" in "".join(plan.document.warnings)
    world.apply(plan)
    assert foreign <= world.there()
    for mode in (Mode.FULL, Mode.INCREMENTAL):
        uncommitted = world.uncommitted(mode)
        assert foreign.isdisjoint(world.candidates(uncommitted))
        world.apply(uncommitted)
        assert foreign <= world.there()
    world.check()
    assert not unknown_partitions(world.store())


def test_a_foreign_folder_in_a_deleted_repository(world: World) -> None:
    bury(world)
    foreign = plant_foreign(world)
    catalog = world.opened()
    catalog.delete_repository(NAME)
    store = CatalogStore(next(one for one in catalog.workspaces() if one.deleted))
    world.age()
    plan = world.plan(store=store)
    check_named(plan, foreign)
    world.apply(plan, store=store)
    assert foreign <= world.there()


def test_odd_keys_in_a_deleted_repository(world: World) -> None:
    bury(world)
    odd = plant(world)
    catalog = world.opened()
    catalog.delete_repository(NAME)
    store = CatalogStore(next(one for one in catalog.workspaces() if one.deleted))
    world.age()
    plan = world.plan(store=store)
    check_named(plan, odd)
    world.apply(plan, store=store)
    left = {stored.address for stored in world.storage.list(f"repos/{world.repo.uid}")}
    assert {address for address in left if "/_reclaim/runs/" not in address} == odd
