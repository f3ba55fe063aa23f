"""Runs on uncommitted data: what an optimized one finds, and what it must leave."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from reclaim.catalog import Branch, Repository
from reclaim.catalog.database.schema import runs
from reclaim.catalog.staging import tokens
from reclaim.engine.tasks import indexing
from reclaim.errors import (
    IncompleteRead,
    InvalidInput,
    PlanRefused,
    Refused,
    StorageAhead,
    TooMuch,
)
from reclaim.ids import new_uid
from reclaim.model import CHECKPOINT
from reclaim.run.applied import Applied
from reclaim.run.lateness import find_lateness
from reclaim.run.plan import Plan
from reclaim.run.plan_file import Uncommitted
from reclaim.run.removal import MoveToQuarantine
from reclaim.run.uncommitted import scope
from reclaim.run.uncommitted.checkpoint import find_checkpoint
from reclaim.run.uncommitted.scope import Mode
from reclaim.stores.catalog import CatalogFormat, CatalogStore
from reclaim.stores.catalog import format as catalog_format
from reclaim.urls import path_of
from tests.collect.world import NAME, World, addresses_of, stepped, whole


def notes(plan: Plan) -> Uncommitted:
    assert plan.document.uncommitted is not None
    return plan.document.uncommitted


def run(world: World, mode: Mode = Mode.AUTO, **options: Any) -> tuple[Plan, Applied]:
    plan = world.uncommitted(mode, allowed_fraction=1.0, **options)
    return plan, world.apply(plan)


def optimized(world: World) -> set[str]:
    """An optimized run, which must be one; what it took. A clean one then finds nothing."""
    before = world.there()
    plan, _ = run(world, Mode.OPTIMIZED)
    assert notes(plan).mode == Mode.OPTIMIZED, notes(plan).why
    world.check()
    taken = before - world.there()
    assert taken == set(world.candidates(plan)) & before
    again = world.uncommitted(Mode.CLEAN, allowed_fraction=1.0)
    left = {one for one in world.candidates(again) if "/branches/" in one or "/meta/" in one}
    assert not left, f"an optimized run left {left}"
    return taken


def settle(world: World) -> None:
    """Close everything and let it grow old."""
    world.backend.close()
    world.age()
    world.repo = world.other()


def begin(world: World) -> Branch:
    """A repository with a commit, and the checkpoint of a clean run, all partitions final."""
    main = world.repo.branch("main")
    for path in ("a", "b", "c", "d"):
        main.put(path, path.encode())
    main.commit("first")
    settle(world)
    run(world, Mode.CLEAN)
    return world.repo.branch("main")


def head(world: World) -> str:
    return world.repo.commit("main").id


def address(branch: Branch, path: str) -> str:
    return next(entry.address for entry in branch.entries() if entry.path == path)


def test_the_first_run_is_clean_and_the_next_one_is_not(local: World) -> None:
    plan = local.uncommitted()
    assert (notes(plan).mode, notes(plan).why) == (Mode.CLEAN, "there is no checkpoint yet")
    begin(local)
    plan = local.uncommitted()
    assert notes(plan).mode == Mode.OPTIMIZED
    assert notes(plan).objects_listed < 20
    assert notes(plan).ranges_read == 0
    assert plan.document.candidates == 0
    assert notes(local.uncommitted(Mode.CLEAN)).why == "it was asked for"


def test_a_plan_alone_leaves_no_checkpoint(local: World) -> None:
    main = local.repo.branch("main")
    main.put("a", b"a")
    main.commit("first")
    settle(local)
    local.uncommitted()
    assert find_checkpoint(local.store(), local.storage) == "there is no checkpoint yet"


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
    plan = local.uncommitted(Mode.OPTIMIZED)
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
        run(local, Mode.CLEAN)
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
        run(local, Mode.CLEAN)
        local.repo.branch("main").reset_to(kept)
        local.clock.advance(hours=3)
        taken = optimized(local)
        assert not any("/branches/" in one for one in taken)
        assert whole(local.repo, "main")["a"] == b"a"


class TestInvalid:
    """What makes a checkpoint count no more."""

    def why(self, world: World) -> str:
        plan = world.uncommitted(Mode.OPTIMIZED)
        assert notes(plan).mode == Mode.CLEAN
        return notes(plan).why

    def test_after_an_undo(self, local: World) -> None:
        main = begin(local)
        main.put("x", b"garbage")
        main.delete("x")
        settle(local)
        plan = local.uncommitted(allowed_fraction=1.0)
        applied = local.apply(plan, removal=MoveToQuarantine(timedelta(days=7)))
        assert notes(local.uncommitted()).mode == Mode.OPTIMIZED
        local.undo(applied.run)
        assert "undone since" in self.why(local)
        run(local)
        assert notes(local.uncommitted()).mode == Mode.OPTIMIZED

    def test_after_partitions_were_adopted(self, local: World) -> None:
        begin(local)
        store = local.store()
        with store.lock(new_uid()) as held:
            held.adopt(["0000000000ffff_restored"])
        assert "adopted since" in self.why(local)

    def test_of_another_version(self, local: World) -> None:
        def change(body: dict[str, object]) -> None:
            body["format"] = 7

        rewrite(local, change)
        assert "has format 7" in self.why(local)

    def test_that_somebody_changed(self, local: World) -> None:
        begin(local)
        place = manifest_of(local)
        local.storage.put(place, local.storage.get(place) + b" ")
        assert "was changed" in self.why(local)

    def test_that_is_gone(self, local: World) -> None:
        begin(local)
        local.storage.delete(manifest_of(local))
        assert "not there any more" in self.why(local)

    @pytest.mark.parametrize(
        ("kind", "how"),
        [
            ("carried", "changed"),
            ("containers", "changed"),
            ("index", "changed"),
            ("index", "gone"),
            ("partitions", "changed"),
            ("snapshots", "gone"),
        ],
    )
    def test_of_which_a_file_is_damaged(self, local: World, kind: str, how: str) -> None:
        main = begin(local)
        main.put("x", b"staged")
        settle(local)
        run(local)
        main = local.repo.branch("main")
        main.put("y", b"in a new partition")
        main.delete("x")
        settle(local)
        found = find_checkpoint(local.store(), local.storage)
        assert not isinstance(found, str)
        files = getattr(found.manifest, kind)
        for file in files if isinstance(files, list) else [files]:
            if how == "gone":
                local.storage.delete(file.address)
            else:
                local.storage.put(file.address, b"PAR1 nonsense PAR1")
        plan = local.uncommitted(Mode.OPTIMIZED, allowed_fraction=1.0)
        if notes(plan).mode == Mode.OPTIMIZED:
            # It did not need that file.
            assert kind == "index"
        else:
            assert "damaged" in notes(plan).why
        local.apply(plan)
        local.check()

    def test_of_a_store_whose_commits_another_run_took(self, local: World) -> None:
        begin(local)
        work = local.repo.create_branch("work", "main")
        work.put("x", b"x")
        work.commit("on work")
        settle(local)
        run(local)
        local.repo.delete_branch("work")
        local.apply(local.plan(allowed_fraction=1.0))
        assert "taken by another run" in self.why(local)

    def test_of_dead_commits_that_cannot_be_read(self, local: World) -> None:
        """What they listed is not known, so only a clean run finds it."""
        begin(local)
        work = local.repo.create_branch("work", "main")
        work.put("x", b"x")
        work.commit("on work")
        committed = address(work, "x")
        settle(local)
        run(local)
        [lost] = {
            info.address
            for info in local.repo._workspace.containers.tree(
                local.repo.commit("work").metarange
            ).ranges
        } - addresses_of(local.repo, head(local))
        local.storage.delete(lost)
        local.repo.delete_branch("work")
        assert "cannot be read any more" in self.why(local)
        run(local)
        assert committed not in local.there()


def final(world: World) -> frozenset[str]:
    found = find_checkpoint(world.store(), world.storage)
    assert not isinstance(found, str)
    return found.known.final


def test_a_partition_with_an_upload_is_not_final(local: World) -> None:
    begin(local)
    upload = local.repo.branch("main").get_physical_address("x", valid=timedelta(days=9))
    settle(local)
    run(local)
    # Its owner may put the bytes there at any time.
    assert upload.address.split("/")[-2] not in final(local)
    local.storage.put(upload.address, b"late")
    local.clock.advance(days=9)
    run(local)
    local.clock.advance(days=2)
    assert upload.address not in local.there() or upload.address in optimized(local)


def test_a_partition_that_was_closed_just_now_is_not_final(local: World) -> None:
    begin(local)
    before = final(local)
    with local.opened() as catalog:
        catalog.repository(NAME).branch("main").put("x", b"x")
        staged = address(catalog.repository(NAME).branch("main"), "x")
    run(local)
    assert final(local) == before
    # A writer that wakes up late: what it puts there, the next run sees.
    late = f"{staged.rpartition('/')[0]}/late"
    local.storage.put(late, b"late")
    settle(local)
    assert optimized(local) == {late}


def manifest_of(world: World) -> str:
    [found] = {
        str(record.summary[CHECKPOINT]["address"])
        for record in world.store().runs()
        if CHECKPOINT in record.summary
    }
    return found


def rewrite(world: World, change: Callable[[dict[str, object]], None]) -> None:
    """Change the newest checkpoint as another version would have written it."""
    begin(world)
    place = manifest_of(world)
    body = json.loads(world.storage.get(place))
    change(body)
    data = json.dumps(body).encode()
    world.storage.put(place, data)
    [record] = [one for one in world.store().runs() if CHECKPOINT in one.summary]
    noted = {"address": place, "sha256": hashlib.sha256(data).hexdigest()}
    summary = json.dumps({**record.summary, CHECKPOINT: noted})
    with world.repo._workspace.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == record.id).values(summary=summary))


def test_a_branch_limits_the_listing_and_never_the_references(local: World) -> None:
    main = begin(local)
    work = local.repo.create_branch("work", "main")
    work.put("x", b"merged")
    work.commit("on work")
    work.put("y", b"garbage")
    garbage, kept = address(work, "y"), address(work, "x")
    main.merge("work")
    main.put("z", b"other garbage")
    other = address(main, "z")
    work.reset()
    main.reset()
    local.repo.delete_branch("work")
    settle(local)
    for mode in (Mode.CLEAN, Mode.OPTIMIZED):
        plan = local.uncommitted(mode, branch="work", allowed_fraction=1.0)
        assert notes(plan).mode == mode
        assert set(local.candidates(plan)) == {garbage}
    before = find_checkpoint(local.store(), local.storage)
    local.apply(plan)
    assert find_checkpoint(local.store(), local.storage) == before, "it leaves no checkpoint"
    assert garbage not in local.there()
    assert {other, kept} <= local.there()
    local.check()
    assert other in optimized(local)


def test_open_partitions_and_protected_globs_are_counted(local: World) -> None:
    begin(local)
    local.repo.change_settings(protect=("raw/*", "*.keep"))
    main = local.repo.branch("main")
    for path in ("raw/1", "raw/2", "x.keep", "free"):
        main.put(path, path.encode())
    kept = {address(main, path) for path in ("raw/1", "raw/2", "x.keep")}
    free = address(main, "free")
    deeper = f"{free.rpartition('/')[0]}/of/somebody"
    local.storage.put(deeper, b"not named as a branch names its data")
    main.reset()
    settle(local)
    with local.opened() as catalog:
        catalog.repository(NAME).branch("main").put("open", b"open")
        catalog.repository(NAME).branch("main").reset()
        plan = local.uncommitted(allowed_fraction=1.0)
        assert set(local.candidates(plan)) & local.there() == {free}
        why = {group.reason: group.objects for group in plan.document.staying}
        assert why["protected by raw/*"] == 2
        assert why["protected by *.keep"] == 1
        assert why["in an open partition"] == 1
        assert why["of a kind that is never deleted"] == 1
    local.apply(plan)
    assert kept | {deeper} <= local.there()
    local.repo.change_settings(protect=())
    settle(local)
    assert optimized(local) >= kept


def test_what_is_protected_after_the_plan_refuses_it(local: World) -> None:
    main = begin(local)
    main.put("raw/1", b"1")
    main.reset()
    settle(local)
    before = local.there()
    plan = local.uncommitted(allowed_fraction=1.0)
    local.repo.change_settings(protect=("raw/*",))
    with pytest.raises(PlanRefused, match="protects raw/\\* since"):
        local.apply(plan)
    assert local.there() == before


def test_what_is_known_counts_for_the_rule_of_90_percent(local: World) -> None:
    main = begin(local)
    for number in range(8):
        main.put(f"many/{number}", b"x")
    main.commit("many")
    settle(local)
    run(local)
    main = local.repo.branch("main")
    for number in range(5):
        main.put(f"garbage/{number}", b"x")
    main.reset()
    settle(local)
    # All that an optimized run looks at would go, and it is far from all that is known.
    plan = local.uncommitted(Mode.OPTIMIZED)
    assert notes(plan).mode == Mode.OPTIMIZED
    assert plan.document.candidates >= 5
    assert notes(plan).objects_known > 15
    assert plan.document.fraction < 0.5
    local.repo.branch("main").reset_to(oldest(local.repo))
    local.clock.advance(hours=3)
    with pytest.raises(TooMuch):
        local.uncommitted(Mode.OPTIMIZED)


def oldest(repo: Repository) -> str:
    return list(repo.log("main"))[-1].id


def test_another_run_in_between_leaves_the_checkpoint_alone(local: World) -> None:
    main = begin(local)
    main.put("x", b"garbage")
    main.reset()
    settle(local)
    first = local.uncommitted(allowed_fraction=1.0)
    second = local.uncommitted(allowed_fraction=1.0)
    local.apply(second)
    between = find_checkpoint(local.store(), local.storage)
    local.apply(first)
    assert find_checkpoint(local.store(), local.storage) == between
    optimized(local)


def test_many_branches_are_listed_by_key_ranges(
    local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scope, "MANY_BRANCHES", 1)
    monkeypatch.setattr(catalog_format, "MANY_BRANCHES", 1)
    begin(local)
    for name in ("one", "two", "three"):
        local.repo.create_branch(name, "main").put("x", name.encode())
    settle(local)
    run(local)
    left = set()
    for name in ("one", "two"):
        left.add(address(local.repo.branch(name), "x"))
        local.repo.branch(name).reset()
    local.repo.branch("three").put("y", b"y")
    settle(local)
    assert optimized(local) == left
    # In a folder that need not be listed at all.
    stranger = f"repos/{local.repo.uid}/branches/one/0000000000ffff_stranger/x"
    local.storage.put(stranger, b"of a newer database")
    for mode in (Mode.CLEAN, Mode.OPTIMIZED):
        with pytest.raises(StorageAhead):
            local.uncommitted(mode)


@pytest.mark.parametrize("mode", [Mode.CLEAN, Mode.OPTIMIZED])
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


def test_a_plan_that_is_applied_again_keeps_its_checkpoint(local: World) -> None:
    main = begin(local)
    main.put("x", b"x")
    main.reset()
    settle(local)
    plan, _ = run(local)
    left = find_checkpoint(local.store(), local.storage)
    assert not isinstance(left, str)
    assert list(local.storage.list(plan.place.at("index"))) == [], "it lies in the index by now"
    local.apply(plan)
    assert find_checkpoint(local.store(), local.storage) == left


def test_a_repository_that_was_deleted(local: World) -> None:
    main = begin(local)
    main.put("kept/x", b"x")
    main.commit("more")
    settle(local)
    local.repo.change_settings(protect=("kept/*",))
    catalog = local.opened()
    catalog.delete_repository(NAME)
    local.age()
    store = CatalogStore(catalog.access(local.repo.uid))
    plan = local.uncommitted(store=store)
    assert notes(plan).mode == Mode.CLEAN
    assert notes(plan).partitions is None
    local.apply(plan, store=store)
    assert local.there() == set()


def test_old_versions_are_collected_and_the_newest_stays(local: World) -> None:
    main = begin(local)
    first = manifest_of(local)
    for number in range(3):
        main = local.repo.branch("main")
        main.put(f"n{number}", b"n")
        main.commit("more")
        settle(local)
        run(local)
    assert first not in {stored.address for stored in local.storage.list()}
    found = find_checkpoint(local.store(), local.storage)
    assert not isinstance(found, str)
    assert found.known.generation == 3
    for file in found.addresses():
        local.storage.head(file)
    plan = local.plan(allowed_fraction=1.0)
    assert not set(local.candidates(plan)) & set(found.addresses())


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
        Mode.AUTO, allowed_fraction=1.0, store=stepped(world.store(), put_late)
    )
    world.apply(plan)
    world.repo.branch("main").reset()
    settle(world)
    settle(world)
    assert set(late) <= optimized(world)


def test_an_empty_name_of_a_branch(world: World) -> None:
    with pytest.raises(InvalidInput, match="the name of a branch is empty"):
        world.uncommitted(Mode.CLEAN, branch="")


def test_a_purged_run_was_finished(world: World) -> None:
    main = begin(world)
    world.clock.advance(days=60)
    main.put("x", b"x")
    main.reset()
    settle(world)
    world.apply(world.uncommitted(allowed_fraction=1.0), removal=MoveToQuarantine())
    world.purge(timedelta(0))
    store = world.store()
    assert find_lateness(store, store.runs()) is None


@pytest.mark.parametrize("branch", [None, "work"])
def test_what_was_deleted_since_counts_no_more_for_the_rule_of_90_percent(
    local: World, branch: str | None
) -> None:
    local.repo.change_settings(hard_delete=True)
    main = begin(local)
    work = local.repo.create_branch("work", "main")
    for number in range(60):
        work.put(f"w{number}", b"work")
        main.put(f"s{number}", b"staged")
    work.commit("all the work")
    staged = {entry.address for entry in main.entries() if entry.path.startswith("s")}
    settle(local)
    run(local)
    local.repo.branch("main").reset()
    for _ in range(3):
        local.clock.advance(hours=1)
        with local.opened() as catalog:
            catalog.reap()
    assert not staged & local.there(), "the reaper took them"
    local.repo.delete_branch("work")
    settle(local)
    if branch is not None:
        limited = local.uncommitted(Mode.OPTIMIZED, branch=branch)
        assert notes(limited).mode == Mode.OPTIMIZED
        assert notes(limited).objects_known <= len(local.there())
        return
    for mode in (Mode.CLEAN, Mode.OPTIMIZED):
        with pytest.raises(TooMuch) as refused:
            local.uncommitted(mode)
        # Files of runs are not among them.
        assert refused.value.details["objects"] <= len(local.there())
        assert refused.value.message.startswith(f"{refused.value.details['candidates']} of ")
    plan, _ = run(local, Mode.OPTIMIZED)
    assert notes(plan).mode == Mode.OPTIMIZED
    again = local.uncommitted(Mode.OPTIMIZED)
    assert notes(again).objects_known <= len(local.there())


@pytest.mark.parametrize("where", ["decoded", "written"])
def test_a_row_that_is_lost_on_its_way_into_the_index_is_missed(
    local: World, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    main = begin(local)
    main.put("x", b"new")
    main.commit("new")
    settle(local)
    written, decoded = indexing.write_index, CatalogFormat.indexed

    def lose_row(storage: Any, stem: str, tables: Any) -> Any:
        return written(storage, stem, [table.slice(1) for table in tables])

    def lose_entry(format: CatalogFormat, storage: Any, container: Any) -> Any:
        rows, count = decoded(format, storage, container)
        return rows.slice(1), count - 1

    if where == "written":
        monkeypatch.setattr(indexing, "write_index", lose_row)
    else:
        monkeypatch.setattr(CatalogFormat, "indexed", lose_entry)
    for mode in (Mode.CLEAN, Mode.OPTIMIZED):
        with pytest.raises(IncompleteRead, match="expected for the index"):
            local.uncommitted(mode)


def test_the_bytes_of_every_file_of_the_checkpoint_are_counted(local: World) -> None:
    begin(local)
    checkpoint = find_checkpoint(local.store(), local.storage)
    assert not isinstance(checkpoint, str)
    files = set(checkpoint.addresses()) - {part.address for part in checkpoint.index}
    sizes = {one: len(local.storage.get(one)) for one in files}
    assert len(files) >= 4
    plan = local.uncommitted(Mode.OPTIMIZED)
    read = notes(plan).bytes_read
    assert sum(sizes.values()) <= read <= 2 * sum(sizes.values())


def test_a_branch_of_a_deleted_repository_is_refused(local: World) -> None:
    begin(local)
    uid = local.repo.uid
    local.opened().delete_repository(NAME)
    local.age()
    store = CatalogStore(local.opened().access(uid))
    with pytest.raises(InvalidInput, match="goes as a whole"):
        local.uncommitted(branch="main", store=store)


def test_an_adoption_cannot_be_undone(local: World) -> None:
    begin(local)
    run_id = new_uid()
    with local.store().lock(run_id) as held:
        held.adopt(["0000000000ffff_restored"])
    (adopted,) = (one for one in local.store().runs() if one.kind == "adopt")
    with pytest.raises(Refused, match="deleted nothing"):
        local.undo(adopted.id)
