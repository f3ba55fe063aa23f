"""Runs on uncommitted data: what an optimized one finds, and what it must leave."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from reclaim.catalog import Branch
from reclaim.catalog.staging import tokens
from reclaim.run.doctor.last_run import find_overdue
from reclaim.run.record.checkpoints import Mode
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.stores.catalog import CatalogStore
from reclaim.urls import path_of
from tests.collect.helpers.uncommitted import address, begin, head, notes, optimized, run, settle
from tests.collect.helpers.world import NAME, World, stepped, whole


def test_the_first_run_is_clean_and_the_next_one_is_not(local: World) -> None:
    plan = local.uncommitted()
    assert (notes(plan).mode, notes(plan).why) == (Mode.FULL, "there is no checkpoint yet")
    begin(local)
    plan = local.uncommitted()
    assert notes(plan).mode == Mode.INCREMENTAL
    assert notes(plan).objects_listed < 20
    assert notes(plan).ranges_read == 0
    assert plan.document.candidates == 0
    assert notes(local.uncommitted(Mode.FULL)).why == "it was asked for"


LEFT: dict[str, Callable[[Branch], object]] = {
    "deleted": lambda main: main.delete("x"),
    "overwritten": lambda main: main.put("x", b"newer"),
    "reset": lambda main: main.reset(),
    "reset path": lambda main: main.reset_path("x"),
    "moved away": lambda main: _move_away(main),
}


def _move_away(main: Branch) -> None:
    main.move("x", "y")
    main.delete("y")


@pytest.mark.parametrize("deed", LEFT)
def test_what_was_staged_at_the_last_run_and_is_not_any_more(local: World, deed: str) -> None:
    main = begin(local)
    main.put("x", b"staged")
    staged = address(main, "x")
    settle(local)
    # The partition is final, and the address is carried.
    assert optimized(local) == set()
    assert staged in local.there()
    LEFT[deed](local.repo.branch("main"))
    settle(local)
    plan = local.uncommitted(Mode.INCREMENTAL)
    assert set(local.candidates(plan)) & local.there() == {staged}
    assert notes(plan).objects_looked_up == 1
    assert staged in optimized(local)


def test_an_upload_that_was_never_linked(local: World) -> None:
    main = begin(local)
    upload = main.get_physical_address("x")
    local.storage.put(upload.address, b"never linked")
    local.clock.advance(hours=1)
    run(local)
    assert upload.address in local.there()
    settle(local)
    assert optimized(local) == {upload.address}


def test_the_upload_of_a_writer_that_died(local: World) -> None:
    """Its bytes are there and were never staged, and nobody has closed its partition."""
    begin(local)
    catalog = local.opened()
    with catalog._partitions.use(local.repo.uid) as partition:
        crashed = partition.new_object("main")
    local.storage.put(crashed, b"written, and never staged")
    run(local)
    assert crashed in local.there(), "its owner may be at work"
    local.clock.advance(days=2)
    assert optimized(local) == {crashed}


def test_a_commit_in_flight_keeps_what_it_takes(local: World) -> None:
    main = begin(local)
    main.put("x", b"sealed")
    sealed = address(main, "x")
    workspace = main._workspace
    with (
        workspace.partitions.use(local.repo.uid) as partition,
        workspace.database.write() as connection,
    ):
        branch = tokens.lock_branch(connection, local.repo.uid, "main")
        tokens.seal(connection, branch, partition.id)
    settle(local)
    assert optimized(local) == set()
    local.repo.branch("main").commit("lands after all")
    settle(local)
    assert optimized(local) == set()
    assert sealed in local.there()


def test_objects_of_a_deleted_branch(world: World) -> None:
    """On servers as well."""
    begin(world)
    work = world.repo.create_branch("work", "main")
    work.put("x", b"committed")
    work.commit("on work")
    work.put("y", b"staged")
    committed, staged = (address(work, path) for path in ("x", "y"))
    settle(world)
    assert optimized(world) == set()
    world.repo.delete_branch("work")
    taken = optimized(world)
    assert {committed, staged} <= taken
    assert any("/meta/" in one for one in taken), "and its containers"


def test_a_merged_and_deleted_branch_stays_until_no_commit_has_it(local: World) -> None:
    main = begin(local)
    before = head(local)
    work = local.repo.create_branch("work", "main")
    work.put("x", b"merged")
    work.commit("on work")
    merged = address(work, "x")
    main.merge("work")
    local.repo.delete_branch("work")
    settle(local)
    optimized(local)
    assert merged in local.there()
    local.repo.branch("main").reset_to(before)
    local.clock.advance(hours=3)
    assert merged in optimized(local)


def test_either_entry_of_a_copy_keeps_the_address(local: World) -> None:
    main = begin(local)
    main.put("x", b"shared")
    main.copy("x", "y")
    shared = address(main, "x")
    settle(local)
    optimized(local)
    local.repo.branch("main").delete("x")
    settle(local)
    assert optimized(local) == set()
    local.repo.branch("main").delete("y")
    settle(local)
    assert optimized(local) == {shared}


class TestTraps:
    """Where an optimized run would take what is live, if it looked at too little."""

    def test_committed_long_ago_copied_into_staging_checkpointed_reset(self, local: World) -> None:
        main = begin(local)
        main.copy("a", "copied")
        settle(local)
        assert optimized(local) == set()
        local.repo.branch("main").reset()
        settle(local)
        assert optimized(local) == set()
        assert whole(local.repo, "main")["a"] == b"a"

    def test_committed_in_a_partition_that_was_open_at_the_last_run(self, local: World) -> None:
        begin(local)
        catalog = local.opened()
        main = catalog.repository(NAME).branch("main")
        main.put("x", b"before the run")
        main.commit("before the run")
        run(local, Mode.FULL)
        # The same partition, which the checkpoint does not call final.
        main.put("y", b"after the run")
        main.commit("after the run")
        settle(local)
        assert optimized(local) == set()
        assert whole(local.repo, "main")["x"] == b"before the run"

    def test_a_dead_commit_shares_an_address_with_an_old_one(self, local: World) -> None:
        main = begin(local)
        kept = head(local)
        main.copy("a", "other/path")
        main.delete("a")
        main.commit("under another path")
        settle(local)
        run(local, Mode.FULL)
        local.repo.branch("main").reset_to(kept)
        local.clock.advance(hours=3)
        taken = optimized(local)
        assert not any("/branches/" in one for one in taken)
        assert whole(local.repo, "main")["a"] == b"a"


@pytest.mark.parametrize("mode", [Mode.FULL, Mode.INCREMENTAL])
def test_the_leftovers_of_killed_uploads(local: World, mode: Mode) -> None:
    begin(local)
    catalog = local.opened()
    main = catalog.repository(NAME).branch("main")
    main.put("x", b"x")
    main.commit("whole")
    left = f"{address(main, 'x')}#1"
    file = Path(path_of(local.storage.url)) / left
    file.write_bytes(b"half of it")
    ago = local.clock.now().timestamp()
    os.utime(file, (ago, ago))
    local.clock.advance(days=2)
    catalog._partitions.renew()
    plan = local.uncommitted(mode, allowed_fraction=1.0)
    # Somebody may still be at it.
    assert left not in local.candidates(plan)
    settle(local)
    plan = local.uncommitted(mode, allowed_fraction=1.0)
    assert notes(plan).mode == mode
    assert left in local.candidates(plan)
    local.apply(plan)
    assert not file.exists()
    local.check()


def test_an_older_partition_that_is_still_written_to(local: World) -> None:
    """Two instances, each in its own partition; one goes on after a run."""
    begin(local)
    older, newer = local.opened(), local.opened()
    branch = older.repository(NAME).branch("main")
    branch.put("x", b"before")
    local.clock.advance(minutes=1)
    newer.repository(NAME).branch("main").put("y", b"newer partition")
    newer.close()
    run(local)
    branch.put("z", b"into the older partition, after the run")
    left = {address(branch, "z"), address(branch, "x")}
    branch.reset()
    settle(local)
    assert left <= optimized(local)


def test_a_repository_that_was_deleted(local: World) -> None:
    main = begin(local)
    main.put("kept/x", b"x")
    main.commit("more")
    settle(local)
    local.repo.change_settings(protect=("kept/*",))
    catalog = local.opened()
    catalog.delete_repository(NAME)
    local.age()
    store = CatalogStore(catalog.workspace(local.repo.uid))
    plan = local.uncommitted(store=store)
    assert notes(plan).mode == Mode.FULL
    assert notes(plan).partitions is None
    local.apply(plan, store=store)
    assert local.there() == set()


def test_a_commit_that_changes_nothing(world: World) -> None:
    """It has the container of its parent, which the checkpoint knows."""
    main = begin(world)
    main.commit("nothing", allow_empty=True)
    main.put("x", b"x")
    main.reset()
    settle(world)
    assert len(optimized(world)) == 1
    assert optimized(world) == set()


def test_a_listing_that_took_a_day(world: World) -> None:
    """What was put into a partition after it was listed is found by the next optimized run."""
    begin(world)
    catalog = world.opened()
    branch = catalog.repository(NAME).branch("main")
    branch.put("k", b"k")
    late: list[str] = []

    def put_late(step: str) -> None:
        if step == "before observe" and not late:
            late.append(branch.put("late", b"late").address)
            catalog.close()
            world.clock.advance(hours=25)

    plan = world.uncommitted(
        Mode.INCREMENTAL, allowed_fraction=1.0, store=stepped(world.store(), put_late)
    )
    world.apply(plan)
    world.repo.branch("main").reset()
    settle(world)
    settle(world)
    assert set(late) <= optimized(world)


def test_a_purged_run_was_finished(world: World) -> None:
    main = begin(world)
    world.clock.advance(days=60)
    main.put("x", b"x")
    main.reset()
    settle(world)
    world.apply(world.uncommitted(allowed_fraction=1.0), removal=MoveToQuarantine())
    world.purge(timedelta(0))
    store = world.store()
    assert find_overdue(store, store.runs()) is None
