"""Nothing is guessed: what stops a run, with which error, and that nothing was deleted by then."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import delete, select

from reclaim.catalog import Catalog, locks
from reclaim.catalog.schema import partitions
from reclaim.errors import (
    ClockSkew,
    Conflict,
    Corrupt,
    LockLost,
    NotFound,
    OutOfTime,
    OwnedAddress,
    Partial,
    PlanRefused,
    ReclaimError,
    StorageAhead,
    StorageDenied,
    StorageUnavailable,
    TooMuch,
    UnknownVersion,
)
from reclaim.model import RunState
from reclaim.run import document
from reclaim.run.document import File, PlanDocument
from reclaim.run.plan import Plan, PlanOptions, make_plan
from reclaim.stores.catalog import CatalogStore
from reclaim.tasks import deleting
from reclaim.tasks.parts import Part, Place, encode, read_part, write_part
from reclaim.testing import ClockedStorage
from reclaim.testing.faults import (
    Denied,
    FaultyStorage,
    ListingStorage,
    Nth,
    Slow,
    cut_off,
    stale,
    without,
)
from tests.catalog import raw
from tests.collect.world import (
    NAME,
    At,
    World,
    addresses_of,
    bury,
    commit_states,
    stepped,
    whole,
)


@contextmanager
def refused(world: World, error: type[ReclaimError], exit_code: int) -> Iterator[None]:
    """The block fails with this error; nothing was deleted, and nothing says that it is done."""
    there = world.there()
    finished = [run for run in world.repo.runs() if run.state == RunState.DONE]
    with pytest.raises(error) as caught:
        yield
    assert caught.value.exit_code == exit_code != 0
    assert caught.value.kind == error.kind
    assert world.there() == there
    assert [run for run in world.repo.runs() if run.state == RunState.DONE] == finished


def finishes(world: World, plan: Plan) -> None:
    """Once the cause is gone, the same plan does its work."""
    before = world.there()
    world.apply(plan)
    world.check_swept(plan, before)
    assert world.repo.runs()[0].state == RunState.DONE


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
            document.read(world.storage, Place("", str(written.parent.relative_to(objects)) + "/"))
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


# Whose plan it is, and whether it is as it was written.


def test_a_plan_for_another_repository(world: World) -> None:
    bury(world)
    plan = world.plan()
    catalog = world.opened()
    catalog.create_repository("another")
    with refused(world, PlanRefused, 6):
        world.apply(plan, store=CatalogStore(catalog.collecting("another")))


def test_a_plan_that_is_not_there(local: World) -> None:
    bury(local)
    plan = local.plan()
    local.storage.delete(plan.place.at("plan.json"))
    with refused(local, NotFound, 3):
        local.apply(plan)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"allowed_fraction": 0.9', b'"allowed_fraction": 1.0'),
        (b'"rows": ', b'"rows": 1'),
        (b"{", b""),
    ],
)
def test_a_plan_edited_by_hand(local: World, old: bytes, new: bytes) -> None:
    bury(local)
    plan = local.plan()
    address = plan.place.at("plan.json")
    written = local.storage.get(address)
    assert old in written
    local.storage.put(address, written.replace(old, new, 1))
    with refused(local, PlanRefused, 6):
        local.apply(plan)


def test_a_file_of_a_plan_edited_by_hand(local: World) -> None:
    past = bury(local)
    plan = local.plan()
    live = max(addresses_of(local.other(), past.keep))
    for file in plan.document.files:
        edit_rows(local, file.part, live)
    with refused(local, PlanRefused, 6):
        local.apply(plan)
    local.check()


def test_the_snapshots_of_a_plan_edited_by_hand(local: World) -> None:
    past = bury(local)
    plan = local.plan()
    part = plan.document.snapshots.part
    rows = read_part(local.storage, part).to_pylist()
    for row in rows:
        row["live"] = not row["live"]
    schema = read_part(local.storage, part).schema
    local.storage.put(part.address, encode(pa.Table.from_pylist(rows, schema=schema)))
    with refused(local, PlanRefused, 6):
        local.apply(plan)
    assert whole(local.other(), "main") == past.files[past.keep]


def edit_rows(world: World, part: Part, address: str) -> Part:
    """Make the first row of a file name another address."""
    table = read_part(world.storage, part)
    rows = table.to_pylist()
    rows[0]["address"] = address
    return write_part(world.storage, part.address, pa.Table.from_pylist(rows, schema=table.schema))


@pytest.mark.parametrize(
    "outside",
    ["_reclaim_root.json", "repos/another/branches/main/p/x", "{own}../x", "{own}", "{own}a//b"],
)
def test_an_address_outside_the_store(local: World, outside: str) -> None:
    """A plan that was forged with all its hashes; the deleter itself refuses."""
    bury(local)
    plan = local.plan()
    address = outside.format(own=f"repos/{local.repo.uid}/")
    files = [
        File.of(edit_rows(local, file.part, address))
        if read_part(local.storage, file.part).column("kind")[0].as_py() == "data"
        else file
        for file in plan.document.files
    ]
    assert files != plan.document.files
    forged: PlanDocument = plan.document.model_copy(update={"files": files})
    document.write(local.storage, plan.place, forged)
    everything = {stored.address for stored in local.storage.list()}
    with refused(local, OwnedAddress, 6):
        local.apply(plan)
    runs = f"repos/{local.repo.uid}/_reclaim/"
    assert {one for one in everything if not one.startswith(runs)} <= {
        stored.address for stored in local.storage.list()
    }


def test_a_plan_that_takes_too_much(world: World) -> None:
    catalog = world.opened()
    repo = catalog.repository(NAME)
    for number in range(30):
        repo.branch("main").put(f"{number}", b"x")
    repo.branch("main").reset()
    catalog.close()
    world.age()
    with refused(world, TooMuch, 6):
        world.plan()
    finishes(world, world.plan(allowed_fraction=1.0))
    world.quiet()


# One at a time, and in time.


def test_two_applies_at_once(world: World) -> None:
    bury(world)
    plan, another = world.plan(), world.plan()
    errors: list[Conflict] = []

    def second() -> None:
        for other in (plan, another):
            with pytest.raises(Conflict) as caught:
                world.apply(other)
            errors.append(caught.value)

    before = world.there()
    at = At("sweep data", second)
    world.apply(plan, step=at)
    assert at.done
    assert [error.exit_code for error in errors] == [4, 4]
    world.check_swept(plan, before)
    assert world.apply(another).summary()["objects"] == len(world.candidates(another))
    world.quiet()


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
        engine = local.engine()
        made = make_plan(
            CatalogStore(second.collecting(NAME)),
            engine,
            PlanOptions(),
            opener=lambda _url: local.storage,
        )
        assert made.document.candidates > 0


class Held:
    """Remembers the lock that a store gave, to renew it as its thread would."""

    def __init__(self, inner: CatalogStore) -> None:
        self.inner = inner
        self.lock: locks.Lock | None = None
        take = inner.lock

        @contextmanager
        def remembered(run_id: str) -> Iterator[locks.Lock]:
            with take(run_id) as held:
                assert isinstance(held, locks.Lock)
                self.lock = held
                yield held

        inner.lock = remembered  # type: ignore[method-assign]

    def pass_time(self, world: World, minutes: int) -> None:
        for _ in range(minutes):
            world.clock.advance(minutes=1)
            assert self.lock is not None
            self.lock.renew()


@pytest.mark.parametrize("point", ["after observe", "confirm", "before promote"])
def test_a_run_past_its_time_budget(world: World, point: str) -> None:
    """The leases that it has read may have changed; so it stops before the first delete."""
    bury(world)
    plan = world.plan()
    held = Held(world.store())
    at = At(point, lambda: held.pass_time(world, 16), nth=2 if point == "after observe" else 1)
    if point == "before promote":
        at = At("after release", lambda: held.pass_time(world, 16))
    with refused(world, OutOfTime, 6):
        world.apply(plan, step=at, store=stepped(held.inner, at))
    assert at.done
    finishes(world, plan)
    world.quiet()


def test_a_lock_that_is_lost_before_the_first_delete(world: World) -> None:
    bury(world)
    plan = world.plan()
    at = At("confirm", lambda: world.clock.advance(minutes=14))
    with refused(world, LockLost, 4):
        world.apply(plan, step=at)
    finishes(world, plan)


@pytest.mark.parametrize("kind", ["data", "range", "metarange"])
def test_a_lock_that_is_lost_in_the_middle_of_the_sweep(world: World, kind: str) -> None:
    """Nothing is deleted after the deadline, whoever has the lock by then; the rest goes later."""
    bury(world)
    plan, another = world.plan(), world.plan()
    left: list[set[str]] = []

    def lose() -> None:
        world.clock.advance(minutes=12)
        left.append(world.there())

    before = world.there()
    at = At(f"sweep {kind}", lose)
    with pytest.raises((LockLost, Partial)) as caught:
        world.apply(plan, step=at)
    assert caught.value.exit_code in (4, 7)
    assert world.there() == left[0]
    assert RunState.DONE not in {run.state for run in world.repo.runs()}
    world.check()
    world.apply(another)
    world.apply(plan)
    world.check_swept(plan, before)
    world.quiet()


def test_someone_else_takes_over_in_the_middle_of_the_sweep(world: World) -> None:
    bury(world)
    plan = world.plan()

    def take_over() -> None:
        world.clock.advance(minutes=12)
        world.apply(plan)

    before = world.there()
    with pytest.raises((LockLost, Partial)):
        world.apply(plan, step=At("sweep range", take_over))
    world.check_swept(plan, before)
    world.quiet()


def test_a_long_sweep_goes_in_waves(local: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page takes three minutes of the lock's ten; the lock is renewed in between."""
    monkeypatch.setattr(deleting, "PAGE", 1)
    bury(local)
    catalog = local.opened()
    for number in range(8):
        catalog.repository(NAME).branch("work").put(f"{number}", b"x")
    catalog.repository(NAME).branch("work").reset()
    catalog.close()
    local.age()
    plan = local.plan()
    slow = Slow(lambda: local.clock.advance(minutes=3), calls=("delete_page",))
    waves: list[str] = []
    before = local.there()
    local.apply(plan, step=waves.append, storage=FaultyStorage(local.storage, slow))
    local.check_swept(plan, before)
    assert len([one for one in local.candidates(plan) if "/branches/" in one]) == 11
    assert waves.count("sweep data") == 4
    local.quiet()


# Deletes that fail.


def test_a_storage_that_says_slow_down(world: World) -> None:
    """It is asked again, later and less; nothing is reported as failed."""
    bury(world)
    plan = world.plan()
    fault = Nth(2, calls=("delete_page",), times=6)
    before = world.there()
    applied = world.apply(plan, storage=FaultyStorage(world.storage, fault))
    assert fault.asked > 8
    assert applied.failed == 0
    world.check_swept(plan, before)
    world.quiet()


def test_a_storage_that_does_not_answer_any_delete(world: World) -> None:
    bury(world)
    plan = world.plan()
    fault = Nth(1, calls=("delete_page", "delete"), times=10_000, below="repos/")
    before = world.there()
    with pytest.raises((Partial, StorageUnavailable)) as caught:
        world.apply(plan, storage=FaultyStorage(world.storage, fault))
    assert caught.value.exit_code in (5, 7)
    assert world.there() == before
    world.check()
    finishes(world, plan)
    world.quiet()


@pytest.mark.parametrize("which", ["/branches/", "/_reclaim/meta/"])
def test_a_key_that_is_denied(world: World, which: str) -> None:
    """The others go; the one is journalled as failed, and the next apply takes it."""
    bury(world)
    plan = world.plan()
    denied = min(one for one in world.candidates(plan) if which in one)
    fault = Denied([denied], StorageDenied, calls=("delete", "delete_page"))
    before = world.there()
    with pytest.raises(Partial) as caught:
        world.apply(plan, storage=FaultyStorage(world.storage, fault))
    assert caught.value.exit_code == 7
    assert caught.value.details["failed"] == 1
    assert before - world.there() == set(world.candidates(plan)) - {denied}
    assert world.repo.runs()[0].state == RunState.PARTIAL
    assert outcomes(world, plan)[denied] == "failed"
    world.check()
    fault.lift()
    again = world.apply(plan)
    assert again.summary()["objects"] == 1
    world.check_swept(plan, before)
    assert world.repo.runs()[0].state == RunState.DONE
    world.quiet()


def outcomes(world: World, plan: Plan) -> dict[str, str]:
    """What the journals of a plan's applies say."""
    found: dict[str, str] = {}
    for stored in world.storage.list(plan.place.at("apply").rstrip("/")):
        if "/journal/" in stored.address:
            table = pq.ParquetFile(pa.BufferReader(world.storage.get(stored.address))).read()
            found |= {row["address"]: row["outcome"] for row in table.to_pylist()}
    return found


def test_the_journal_has_every_object(world: World) -> None:
    bury(world)
    plan = world.plan()
    world.apply(plan)
    assert outcomes(world, plan) == dict.fromkeys(world.candidates(plan), "deleted")


def test_an_apply_that_is_done_says_so_again(local: World) -> None:
    bury(local)
    plan = local.plan()
    first = local.apply(plan)
    assert first.summary()["objects"] == plan.document.candidates
    again = local.apply(plan)
    assert again.summary()["objects"] == 0
    assert again.dropped == plan.document.candidates
