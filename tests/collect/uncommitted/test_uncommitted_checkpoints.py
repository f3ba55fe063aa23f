"""Checkpoints of runs on uncommitted data: when they are written, and when they count."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update

from reclaim.catalog.database.schema import runs
from reclaim.engine.tasks import index
from reclaim.errors import (
    IncompleteRead,
    Partial,
    Refused,
)
from reclaim.ids import new_uid
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.record.checkpoints import Mode
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.run.uncommitted.checkpoint import read_uncommitted
from reclaim.run_record import SavedManifest
from reclaim.stores.catalog import CatalogFormat
from tests.collect.helpers.uncommitted import (
    address,
    begin,
    checkpoint_of,
    head,
    notes,
    optimized,
    run,
    settle,
)
from tests.collect.helpers.world import NAME, At, World, addresses_of, stepped
from tests.support.dying import Died


def test_a_plan_alone_leaves_no_checkpoint(local: World) -> None:
    main = local.repo.branch("main")
    main.put("a", b"a")
    main.commit("first")
    settle(local)
    local.uncommitted()
    assert checkpoint_of(local) == "there is no checkpoint yet"


class TestInvalid:
    """What makes a checkpoint count no more."""

    def why(self, world: World) -> str:
        plan = world.uncommitted(Mode.INCREMENTAL)
        assert notes(plan).mode == Mode.FULL
        return notes(plan).why

    def test_after_an_undo(self, local: World) -> None:
        main = begin(local)
        main.put("x", b"garbage")
        main.delete("x")
        settle(local)
        plan = local.uncommitted(allowed_fraction=1.0)
        applied = local.apply(plan, removal=MoveToQuarantine(timedelta(days=7)))
        assert notes(local.uncommitted()).mode == Mode.INCREMENTAL
        local.undo(applied.run)
        assert "undone since" in self.why(local)
        run(local)
        assert notes(local.uncommitted()).mode == Mode.INCREMENTAL

    @pytest.mark.parametrize("killed", [False, True], ids=["partial", "killed"])
    def test_made_during_an_undo_that_brought_back_a_part(self, local: World, killed: bool) -> None:
        main = begin(local)
        for path in ("x", "y"):
            main.put(path, b"garbage")
            main.delete(path)
        settle(local)
        first = local.apply(
            local.uncommitted(allowed_fraction=1.0), removal=MoveToQuarantine(timedelta(days=7))
        ).run
        lost, back = sorted(one for one in local.aside() if "/branches/" in one)
        prefix = f"repos/{local.repo.uid}/"
        local.storage.delete(f"{prefix}_reclaim/quarantine/{first}/{lost.removeprefix(prefix)}")
        plans: list[WrittenPlan] = []
        begun = At("after finish", lambda: plans.append(local.uncommitted(allowed_fraction=1.0)))

        def step(name: str) -> None:
            begun(name)
            if killed and name == "before restore":
                raise Died

        with pytest.raises(Died if killed else Partial):
            local.undo(first, store=stepped(local.store(), step))
        local.clock.advance(minutes=17)
        assert back in local.there()
        # Planned before the object came back, so the plan has not listed the object.
        local.apply(plans[0])
        why = self.why(local)
        assert "its undo is not finished" in why
        local.purge(run_id=first)
        settle(local)
        run(local, Mode.INCREMENTAL)
        assert back not in local.there()
        # From then on checkpoints count again.
        assert notes(local.uncommitted()).mode == Mode.INCREMENTAL

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
        found = checkpoint_of(local)
        assert not isinstance(found, str)
        manifest = found.manifest
        files = (
            [file for step in manifest.index for file in step.parts]
            if kind == "index"
            else getattr(manifest.uncommitted, kind)
        )
        for file in files if isinstance(files, list) else [files]:
            if how == "gone":
                local.storage.delete(file.address)
            else:
                local.storage.put(file.address, b"PAR1 nonsense PAR1")
        plan = local.uncommitted(Mode.INCREMENTAL, allowed_fraction=1.0)
        if notes(plan).mode == Mode.INCREMENTAL:
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
        assert "deleted by another run" in self.why(local)

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
        assert "can no longer be read" in self.why(local)
        run(local)
        assert committed not in local.there()


def final(world: World) -> frozenset[str]:
    found = checkpoint_of(world)
    assert not isinstance(found, str)
    return read_uncommitted(found.manifest, world.storage).final


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
    [found] = {record.checkpoint.address for record in world.store().runs() if record.checkpoint}
    return found


def rewrite(world: World, change: Callable[[dict[str, object]], None]) -> None:
    """Change the newest checkpoint as another version would have written it."""
    begin(world)
    place = manifest_of(world)
    body = json.loads(world.storage.get(place))
    change(body)
    data = json.dumps(body).encode()
    world.storage.put(place, data)
    [record] = [one for one in world.store().runs() if one.checkpoint]
    noted = SavedManifest(place, hashlib.sha256(data).hexdigest())
    changed = replace(record, checkpoint=noted).encode()
    with world.repo._workspace.database.write() as connection:
        connection.execute(update(runs).where(runs.c.id == record.id).values(record=changed))


def test_another_run_in_between_leaves_the_checkpoint_alone(local: World) -> None:
    main = begin(local)
    main.put("x", b"garbage")
    main.reset()
    settle(local)
    first = local.uncommitted(allowed_fraction=1.0)
    second = local.uncommitted(allowed_fraction=1.0)
    local.apply(second)
    between = checkpoint_of(local)
    local.apply(first)
    assert checkpoint_of(local) == between
    optimized(local)


def test_a_plan_that_is_applied_again_keeps_its_checkpoint(local: World) -> None:
    main = begin(local)
    main.put("x", b"x")
    main.reset()
    settle(local)
    plan, _ = run(local)
    left = checkpoint_of(local)
    assert not isinstance(left, str)
    assert list(local.storage.list(plan.place.at("index"))) == [], "it lies in the index by now"
    local.apply(plan)
    assert checkpoint_of(local) == left


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
    found = checkpoint_of(local)
    assert not isinstance(found, str)
    assert found.manifest.generation == 3
    for file in found.addresses():
        local.storage.head(file)
    plan = local.plan(allowed_fraction=1.0)
    assert not set(local.candidates(plan)) & set(found.addresses())


@pytest.mark.parametrize("where", ["decoded", "written"])
def test_a_row_that_is_lost_on_its_way_into_the_index_is_missed(
    local: World, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    main = begin(local)
    main.put("x", b"new")
    main.commit("new")
    settle(local)
    written, decoded = index.write_index, CatalogFormat.indexed

    def lose_row(storage: Any, stem: str, tables: Any, edges: Any) -> Any:
        return written(storage, stem, [table.slice(1) for table in tables], edges)

    def lose_entry(format: CatalogFormat, storage: Any, container: Any) -> Any:
        rows, count = decoded(format, storage, container)
        return rows.slice(1), count - 1

    if where == "written":
        monkeypatch.setattr(index, "write_index", lose_row)
    else:
        monkeypatch.setattr(CatalogFormat, "indexed", lose_entry)
    for mode in (Mode.FULL, Mode.INCREMENTAL):
        with pytest.raises(IncompleteRead, match="expected for the index"):
            local.uncommitted(mode)


def test_the_bytes_of_every_file_of_the_checkpoint_are_counted(local: World) -> None:
    begin(local)
    checkpoint = checkpoint_of(local)
    assert not isinstance(checkpoint, str)
    manifest = checkpoint.manifest
    unread = (*manifest.parts_since(None), *manifest.ranges_since(None))
    files = set(checkpoint.addresses()) - {part.address for part in unread}
    sizes = {one: len(local.storage.get(one)) for one in files}
    assert len(files) >= 4
    plan = local.uncommitted(Mode.INCREMENTAL)
    read = notes(plan).bytes_read
    assert sum(sizes.values()) <= read <= 2 * sum(sizes.values())


def test_an_adoption_cannot_be_undone(local: World) -> None:
    begin(local)
    run_id = new_uid()
    with local.store().lock(run_id) as held:
        held.adopt(["0000000000ffff_restored"])
    (adopted,) = (one for one in local.store().runs() if one.kind == "adopt")
    with pytest.raises(Refused, match="deleted nothing"):
        local.undo(adopted.id)
