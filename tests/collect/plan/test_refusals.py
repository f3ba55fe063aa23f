"""Nothing is guessed: what cannot be read stops a run, and nothing was deleted by then."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import delete, select

from reclaim.catalog import Catalog
from reclaim.catalog.collection.clones import copies
from reclaim.catalog.database.schema import partitions
from reclaim.engine.tasks.parts import Place
from reclaim.errors import (
    AnotherDatabase,
    ClockSkew,
    Corrupt,
    ReclaimError,
    StorageAhead,
    StorageUnavailable,
    UnknownVersion,
)
from reclaim.run.plan import plan_file, planning
from reclaim.storage.hashed_files import encode
from reclaim.stores.catalog import CatalogStore
from reclaim.testing import ClockedStorage
from reclaim.testing.faults import FaultyStorage, ListingStorage, Nth, cut_off, stale, without
from tests.catalog import raw
from tests.collect.helpers.refusing import finishes, refused
from tests.collect.helpers.world import NAME, World, addresses_of, bury, commit_states, whole

# Containers.

Damage = Callable[[World, str], None]


def missing(world: World, address: str) -> None:
    world.storage.delete(address)


def truncated(world: World, address: str) -> None:
    world.storage.put(address, world.storage.get(address)[:-20])


def of_another_version(world: World, address: str) -> None:
    table = pq.ParquetFile(pa.BufferReader(world.storage.get(address))).read()
    kind = table.schema.metadata[b"reclaim.format"].partition(b"/")[0]
    changed = table.replace_schema_metadata({b"reclaim.format": kind + b"/9"})
    world.storage.put(address, encode(changed))


def of_other_rows(world: World, address: str) -> None:
    table = pq.ParquetFile(pa.BufferReader(world.storage.get(address))).read()
    world.storage.put(address, encode(table.slice(0, table.num_rows - 1)))


DAMAGES: dict[str, tuple[Damage, type[ReclaimError], int]] = {
    "missing": (missing, Corrupt, 8),
    "truncated": (truncated, Corrupt, 8),
    "another version": (of_another_version, UnknownVersion, 6),
    "other rows": (of_other_rows, Corrupt, 8),
}


def containers_of(world: World, commit: str, kind: str) -> set[str]:
    repo = world.other()
    found = {one for one in addresses_of(repo, commit) if "/_reclaim/meta/" in one}
    metarange = repo.commit(commit).metarange
    return {metarange} if kind == "metarange" else found - {metarange}


@pytest.mark.parametrize("kind", ["range", "metarange"])
@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_container_of_a_live_commit(local: World, name: str, kind: str) -> None:
    past = bury(local)
    damage, error, exit_code = DAMAGES[name]
    damage(local, max(containers_of(local, past.keep, kind)))
    with refused(local, error, exit_code):
        local.plan()


@pytest.mark.parametrize("kind", ["range", "metarange"])
@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_container_of_a_commit_that_came_back(local: World, name: str, kind: str) -> None:
    past = bury(local)
    plan = local.plan()
    damage, error, exit_code = DAMAGES[name]
    own = containers_of(local, past.second, kind) - containers_of(local, past.keep, kind)
    local.other().create_tag("back", past.second)
    damage(local, max(own))
    with refused(local, error, exit_code):
        local.apply(plan)


@pytest.mark.parametrize("kind", ["range", "metarange"])
@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_container_of_a_dead_commit_goes(local: World, name: str, kind: str) -> None:
    past = bury(local)
    own = containers_of(local, past.second, kind) - containers_of(local, past.keep, kind)
    DAMAGES[name][0](local, max(own - containers_of(local, past.first, kind)))
    local.quiet()
    assert set(commit_states(local.repo).values()) == {"live", "collected"}


# Reading what there is.


@pytest.mark.parametrize("after", [0, 1, 7, 12])
def test_a_listing_that_breaks_off(world: World, after: int) -> None:
    bury(world)
    storage = ListingStorage(world.storage, cut_off(after))
    with refused(world, StorageUnavailable, 5):
        world.plan(storage=storage)
    assert not [one for one in raw.objects(world.repo) if one.endswith("plan.json")]


def test_a_plan_fails_with_any_call_that_fails(local: World) -> None:
    """Whichever request is not answered, there is no plan, or the whole of it."""
    bury(local)
    for n in range(1, 200):
        fault = Nth(n, calls=("put", "get", "head", "list", "folders"))
        if not _fails(local, fault):
            assert n > 10
            return
    pytest.fail("a plan has more calls than the test goes through")


def _fails(world: World, fault: Nth) -> bool:
    objects = Path(world.backend.location) / "objects"
    runs = objects / f"repos/{world.repo.uid}/_reclaim/runs"
    try:
        world.plan(storage=FaultyStorage(world.storage, fault))
    except StorageUnavailable:
        for written in runs.rglob("plan.json"):
            # It failed while it tidied up after itself; then the plan is whole.
            plan_file.read(world.storage, Place("", str(written.parent.relative_to(objects)) + "/"))
        shutil.rmtree(runs, ignore_errors=True)
        return True
    return False


def test_a_listing_that_leaves_objects_out_only_keeps_them(local: World) -> None:
    past = bury(local)
    kept = set(list(local.candidates(local.plan()))[::2])
    plan = local.plan(storage=ListingStorage(local.storage, without(kept)))
    before = local.there()
    local.apply(plan)
    local.check_swept(plan, before)
    assert kept <= local.there()
    assert past.second not in local.reached(local.other())
    local.quiet()


def test_a_stale_listing_names_what_is_gone(local: World) -> None:
    bury(local)
    listing = stale(local.storage, f"repos/{local.repo.uid}")
    local.apply(local.plan())
    there = local.there()
    plan = local.plan(storage=ListingStorage(local.storage, listing))
    local.apply(plan)
    assert local.there() == there
    local.quiet()


def test_an_unknown_partition_in_which_all_is_live(local: World) -> None:
    local.repo.branch("main").put("a", b"a")
    local.repo.branch("main").commit("a")
    with local.repo._workspace.database.write() as connection:
        connection.execute(delete(partitions))
    with refused(local, StorageAhead, 6):
        local.plan()
    with pytest.raises(StorageAhead) as ahead:
        local.plan()
    assert "reclaim doctor --adopt-partitions sales" in str(ahead.value.hint)


def test_an_unknown_partition_with_an_object_is_not_empty(
    local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its folders seem to be: some of them may be listed although they are gone."""
    bury(local)
    monkeypatch.setattr(planning, "is_leftover", lambda *_: True)
    stranger = f"repos/{local.repo.uid}/branches/main/f0000000000000_{'0' * 32}/{'1' * 32}"
    local.storage.put(stranger, b"of a newer database")
    with refused(local, StorageAhead, 6):
        local.plan()


def test_an_unknown_partition(world: World) -> None:
    """The storage knows more than the database: a restored backup, or a second copy."""
    bury(world)
    plan = world.plan()
    with world.repo._workspace.database.write() as connection:
        known = connection.execute(select(partitions.c.id)).scalars().first()
        connection.execute(delete(partitions).where(partitions.c.id == known))
    with refused(world, StorageAhead, 6):
        world.plan()
    before = world.there()
    world.apply(plan)
    assert not {one for one in before - world.there() if f"/{known}/" in one}
    world.check()


@pytest.mark.parametrize("minutes", [-6, 6])
def test_a_clock_that_is_not_the_storages(world: World, minutes: int) -> None:
    bury(world)
    plan = world.plan()
    assert isinstance(world.storage, ClockedStorage)
    world.storage.skew = timedelta(minutes=minutes)
    with refused(world, ClockSkew, 6):
        world.plan()
    with refused(world, ClockSkew, 6):
        world.apply(plan)
    world.storage.skew = timedelta(0)
    finishes(world, plan)


# A database that is not the one that was written last.


def restored(world: World, folder: Path) -> Callable[[], None]:
    """Take a backup of the database; calling what is returned puts it back."""
    database = Path(world.backend.location) / "catalog.db"
    shutil.copy(database, folder / "backup.db")

    def restore() -> None:
        for file in database.parent.glob("catalog.db*"):
            file.unlink()
        shutil.copy(folder / "backup.db", database)

    return restore


@pytest.mark.parametrize("since", ["a put", "a commit", "an apply"])
def test_a_database_restored_from_a_backup(local: World, tmp_path: Path, since: str) -> None:
    past = bury(local)
    plan = local.plan()
    local.backend.close()
    restore = restored(local, tmp_path)
    catalog = local.opened()
    if since == "an apply":
        local.apply(local.plan())
    else:
        branch = catalog.repository(NAME).branch("main")
        branch.put("new", b"new")
        if since == "a commit":
            branch.commit("new")
    local.backend.close()
    restore()
    local.repo = local.other()
    with refused(local, StorageAhead, 6):
        local.plan()
    with refused(local, StorageAhead, 6):
        local.apply(plan)
    assert whole(local.other(), "main") == past.files[past.keep]


def test_a_cloned_database(local: World, tmp_path: Path) -> None:
    """Two databases on one storage: whoever comes second is refused, and stays refused."""
    bury(local)
    plan = local.plan()
    local.backend.close()
    clone = tmp_path / "clone"
    clone.mkdir()
    shutil.copy(Path(local.backend.location) / "catalog.db", clone / "catalog.db")
    (clone / "objects").symlink_to(Path(local.backend.location) / "objects")
    local.repo = local.other()
    with Catalog.open(clone, clock=local.clock, wrap_storage=local.backend.wrap) as second:
        second.repository(NAME).branch("main").put("in the clone", b"new")
        with refused(local, StorageAhead, 6):
            local.apply(plan)
        with refused(local, StorageAhead, 6):
            local.plan()
        store = CatalogStore(second.workspace(NAME))
        with refused(local, AnotherDatabase, 6):
            local.plan(store=store)
        copies.adopt(second.workspace(NAME), "adopted", [])
        assert local.plan(store=store).document.candidates > 0
