"""The reaper: what was never committed goes, a margin after nothing refers to it, and no more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import delete as sql_delete
from sqlalchemy import update

from reclaim.catalog import Branch, Catalog, Repository
from reclaim.catalog.addresses import HOME
from reclaim.catalog.collection import locks
from reclaim.catalog.collection.clones.homes import REGISTERED
from reclaim.catalog.database.schema import (
    LedgerState,
    catalog_info,
    ledger,
    partitions,
    staging_tokens,
    upload_tokens,
)
from reclaim.catalog.reaping.reaper import Reaper
from reclaim.errors import (
    AnotherDatabase,
    ClockSkew,
    Gone,
    InvalidInput,
    OwnedAddress,
    StorageUnavailable,
)
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.safety import SAFETY
from reclaim.testing import FakeClock, StorageWrapper
from tests.catalog import raw
from tests.collect.helpers.copies import Copy
from tests.collect.helpers.world import NAME, World, stepped
from tests.conftest import Backend
from tests.support.dying import Died, Reached

MARGIN = SAFETY.reap_margin
Way = Callable[[Repository, Branch], None]


@pytest.fixture
def world(backend: Backend) -> World:
    made = World.make(backend)
    made.repo.change_settings(hard_delete=True)
    return made


@pytest.fixture
def local(embedded: Backend) -> World:
    made = World.make(embedded)
    made.repo.change_settings(hard_delete=True)
    return made


def objects(world: World) -> set[str]:
    """The addresses of data."""
    return {one for one in raw.objects(world.repo) if "/branches/" in one}


def overwrite(_repo: Repository, branch: Branch) -> None:
    branch.put("a", b"after")


def delete(_repo: Repository, branch: Branch) -> None:
    branch.delete("a")


def reset_path(_repo: Repository, branch: Branch) -> None:
    branch.reset_path("a")


def reset_prefix(_repo: Repository, branch: Branch) -> None:
    branch.reset_prefix("a")


def reset_branch(_repo: Repository, branch: Branch) -> None:
    branch.reset()


def delete_branch(repo: Repository, branch: Branch) -> None:
    repo.delete_branch(branch.name)


WAYS: dict[str, Way] = {
    "overwrite": overwrite,
    "delete": delete,
    "reset a path": reset_path,
    "reset a prefix": reset_prefix,
    "reset the branch": reset_branch,
    "delete the branch": delete_branch,
}


@pytest.mark.parametrize("way", WAYS)
def test_what_nothing_refers_to_goes(world: World, way: str) -> None:
    main = world.repo.branch("main")
    main.put("kept", b"kept")
    main.commit("kept")
    work = world.repo.create_branch("work")
    kept = objects(world)
    work.put("a", b"before")
    [lost] = objects(world) - kept
    WAYS[way](world.repo, work)
    catalog = world.opened()
    catalog.reap()
    assert lost in objects(world)
    world.clock.advance(minutes=16)
    [done] = catalog.reap()
    assert (done.objects, done.bytes, done.failed) == (1, len(b"before"), 0)
    assert lost not in objects(world)
    assert kept <= objects(world)
    assert not [row for row in raw.rows(world.repo, ledger) if row.state == LedgerState.CONDEMNED]
    world.check()


def test_a_deleted_repository(world: World) -> None:
    main = world.repo.branch("main")
    main.put("kept", b"kept")
    main.commit("kept")
    kept = objects(world)
    main.put("a", b"a")
    catalog = world.opened()
    catalog.delete_repository(NAME)
    catalog.reap()
    world.clock.advance(minutes=16)
    assert [done.objects for done in catalog.reap()] == [1]
    assert objects(world) == kept


def test_an_upload_that_nobody_linked(world: World) -> None:
    main = world.repo.branch("main")
    given = main.get_physical_address("a", valid=timedelta(minutes=1))
    world.storage.put(given.address, b"uploaded")
    catalog = world.opened()
    world.clock.advance(minutes=2)
    catalog.reap()
    assert given.address in objects(world)
    world.clock.advance(minutes=16)
    assert [done.objects for done in catalog.reap()] == [1]
    assert objects(world) == set()
    # The token says for a month that it expired.
    assert [row.state for row in raw.rows(world.repo, upload_tokens)] == ["expired"]
    world.clock.advance(days=31)
    catalog.reap()
    assert raw.rows(world.repo, upload_tokens) == []


def test_what_a_newer_token_of_the_same_commit_shadows(world: World) -> None:
    main = world.repo.branch("main")
    main.put("a", b"first")
    [shadowed] = objects(world)
    with world.repo._workspace.database.write() as connection:
        from reclaim.catalog.staging import tokens

        view = tokens.lock_branch(connection, world.repo.uid, "main")
        tokens.seal(connection, view, "a commit that died")
    main.put("a", b"second")
    main.commit("both")
    catalog = world.opened()
    catalog.reap()
    world.clock.advance(minutes=16)
    catalog.reap()
    assert shadowed not in objects(world)
    assert main.get("a") == b"second"


def test_nothing_goes_where_it_is_off_and_all_goes_when_it_is_on_again(world: World) -> None:
    main = world.repo.branch("main")
    world.repo.change_settings(hard_delete=False)
    main.put("a", b"a")
    main.delete("a")
    world.clock.advance(minutes=16)
    catalog = world.opened()
    assert catalog.reap() == []
    [lost] = objects(world)
    world.repo.change_settings(hard_delete=True)
    catalog.reap()
    assert lost not in objects(world)


def test_it_is_switched_off_in_the_middle(local: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each batch it is asked again."""
    from reclaim.catalog.reaping import reaper

    monkeypatch.setattr(reaper, "BATCH", 1)
    main = local.repo.branch("main")
    for path in ("a", "b"):
        main.put(path, b"x")
        main.delete(path)
    local.clock.advance(minutes=16)

    class Switching(StorageWrapper):
        def delete_page(self, addresses: Sequence[str]) -> None:
            super().delete_page(addresses)
            local.repo.change_settings(hard_delete=False)

    assert [done.objects for done in local.opened(Switching).reap()] == [1]
    assert len(objects(local)) == 1


def test_rows_of_a_run_are_its_own(local: World) -> None:
    main = local.repo.branch("main")
    main.put("a", b"a")
    main.delete("a")
    with local.repo._workspace.database.write() as connection:
        connection.execute(update(ledger).values(run_id="a run"))
    local.clock.advance(minutes=16)
    assert [done.objects for done in local.opened().reap()] == [0]
    assert len(objects(local)) == 1


def test_a_copy_of_the_database_deletes_nothing(local: World, tmp_path: Path) -> None:
    """What is thrown away in the copy is staged in the original."""
    main = local.repo.branch("main")
    main.put("a", b"a")
    copy = Copy(local, tmp_path)
    copy.catalog.repository(NAME).branch("main").reset()
    local.clock.advance(minutes=16)
    with pytest.raises(AnotherDatabase):
        copy.catalog.reap()
    copy.become_home()
    main.put("b", b"b")
    main.commit("b")
    with pytest.raises(Exception, match="newer copy"):
        copy.catalog.reap()
    copy.catalog.close()
    assert main.get("a") == b"a"


def test_one_that_dies_between_the_object_and_its_row(
    local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = local.repo.branch("main")
    main.put("a", b"a")
    main.delete("a")
    local.clock.advance(minutes=16)
    catalog = local.opened()
    with monkeypatch.context() as patch:
        patch.setattr(Reaper, "_note", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            catalog.reap()
    assert objects(local) == set()
    assert len(raw.rows(local.repo, ledger)) == 1
    catalog.reap()
    assert [row.state for row in raw.rows(local.repo, ledger)] == [LedgerState.DELETED]


def test_what_cannot_be_deleted_is_tried_again_and_holds_up_nobody(
    local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    main = local.repo.branch("main")
    for path in ("a", "b"):
        main.put(path, path.encode())
    stuck = next(entry.address for entry in main.entries() if entry.path == "a")
    main.reset()

    class Stuck(StorageWrapper):
        def delete_page(self, addresses: Sequence[str]) -> None:
            if stuck in addresses:
                raise StorageUnavailable("not now")
            super().delete_page(addresses)

        def delete(self, address: str) -> None:
            self.delete_page([address])

    local.opened().reap()
    local.clock.advance(minutes=16)
    [done] = local.opened(Stuck).reap()
    assert (done.objects, done.failed) == (1, 1)
    assert objects(local) == {stuck}
    assert local.opened().backlog(local.repo.uid).due == 1
    local.opened().reap()
    assert objects(local) == set()


def test_an_address_that_is_not_the_repositorys_own(local: World) -> None:
    main = local.repo.branch("main")
    main.put("a", b"a")
    main.delete("a")
    with local.repo._workspace.database.write() as connection:
        connection.execute(update(ledger).values(address="repos/other/branches/x"))
    local.clock.advance(minutes=16)
    with pytest.raises(OwnedAddress):
        local.opened().reap()


def test_how_far_it_is_behind(local: World, clock: FakeClock) -> None:
    main = local.repo.branch("main")
    main.put("a", b"abc")
    main.delete("a")
    condemned = clock.now()
    catalog = local.opened()
    assert catalog.backlog(local.repo.uid).due == 0
    clock.advance(minutes=20)
    waiting = catalog.backlog(local.repo.uid)
    assert (waiting.due, waiting.oldest) == (1, condemned)
    assert waiting.behind(clock.now()) == timedelta(minutes=5)
    assert not waiting.is_late(clock.now())
    clock.advance(minutes=6)
    assert waiting.is_late(clock.now())
    catalog.reap()
    done = catalog.backlog(local.repo.uid)
    assert (done.due, done.objects, done.bytes, done.last_at) == (0, 1, 3, clock.now())


def test_no_row_is_left_that_nothing_needs(world: World) -> None:
    main = world.repo.branch("main")
    linked = main.get_physical_address("linked")
    world.storage.put(linked.address, b"linked")
    main.link_physical_address("linked", linked)
    main.commit("linked")
    world.repo.take_lease("main", holder="reader", length=timedelta(hours=1))
    main.put("a", b"a")
    main.reset()
    catalog = world.opened()
    catalog.reap()
    world.clock.advance(days=32)
    catalog.reap()
    assert raw.rows(world.repo, ledger) == []
    assert raw.rows(world.repo, upload_tokens) == []
    # A run has looked at leases before.
    assert len(world.repo.leases()) == 1
    world.backend.close()
    world.repo = world.other()
    world.apply(world.plan(allowed_fraction=1.0))
    assert world.repo.leases() == []
    states = sorted(row.state for row in raw.rows(world.repo, staging_tokens))
    assert states == ["committed", "open"]


def test_an_unknown_setting(local: World) -> None:
    from reclaim.catalog.settings import parse

    with pytest.raises(InvalidInput, match="unknown setting 'hard'"):
        parse({"hard": "on"})
    with pytest.raises(InvalidInput, match="cannot be 'yes'"):
        parse({"hard_delete": "yes"})
    assert parse({"hard_delete": "off"}) == {"hard_delete": False}


def test_an_open_catalog_reaps_in_the_background(local: World) -> None:
    main = local.repo.branch("main")
    main.put("a", b"a")
    main.delete("a")
    local.clock.advance(minutes=16)
    catalog: Catalog = local.opened()
    catalog._reaper.renew()
    assert objects(local) == set()
    assert catalog._reaping._thread is not None
    assert catalog._reaping._thread.is_alive()


def test_rows_of_what_an_offline_run_took(local: World) -> None:
    """Where nothing is deleted online, a run takes the objects, and later their rows."""
    local.repo.change_settings(hard_delete=False)
    main = local.repo.branch("main")
    main.put("a", b"a")
    main.delete("a")
    local.backend.close()
    local.repo = local.other()
    local.age()
    plan = local.plan(allowed_fraction=1.0)
    assert plan.document.candidates == 1
    local.apply(plan)
    assert objects(local) == set()
    assert raw.rows(local.repo, ledger) == []


def test_what_is_staged_stays_however_old_it_is(world: World) -> None:
    main = world.repo.branch("main")
    main.put("a", b"a")
    main.copy("a", "b")
    main.delete("a")
    world.clock.advance(days=3)
    world.opened().reap()
    assert main.get("b") == b"a"


def test_rows_of_objects_that_are_there_stay(local: World) -> None:
    """Nothing may refer to a condemned address for as long as there are bytes."""
    local.repo.change_settings(hard_delete=False)
    main = local.repo.branch("main")
    main.put("a", b"a")
    main.delete("a")
    local.clock.advance(days=3)
    local.opened().clean()
    assert len(raw.rows(local.repo, ledger)) == 1
    local.storage.delete(*objects(local))
    local.opened().clean()
    assert raw.rows(local.repo, ledger) == []


def test_online_and_offline_together_leave_nothing(world: World) -> None:
    """What was committed and is dead is left to a run; what was not has gone before it."""
    main = world.repo.branch("main")
    main.put("kept", b"kept")
    main.commit("kept")
    work = world.repo.create_branch("work")
    work.put("dead", b"dead")
    work.commit("dead")
    work.put("never committed", b"x")
    given = main.get_physical_address("never linked", valid=timedelta(minutes=1))
    world.storage.put(given.address, b"y")
    world.repo.delete_branch("work")
    world.backend.close()
    world.repo = world.other()
    world.clock.advance(hours=1)
    world.opened().reap()
    world.clock.advance(minutes=16)
    assert [done.objects for done in world.opened().reap()] == [2]
    dead = objects(world) - world.needed()
    assert len(dead) == 1
    world.quiet()
    world.opened().clean()
    assert raw.rows(world.repo, ledger) == []
    assert objects(world) <= world.needed()


def test_partitions_in_which_nothing_is_left(world: World) -> None:
    main = world.repo.branch("main")
    main.put("kept", b"kept")
    main.commit("kept")
    used = {row.id for row in raw.rows(world.repo, partitions)}
    with world.opened() as catalog:
        work = catalog.repository(NAME).create_branch("work")
        work.put("dead", b"dead")
        work.commit("dead")
        catalog.repository(NAME).delete_branch("work")
    world.backend.close()
    world.repo = world.other()
    world.age()
    world.apply(world.plan(allowed_fraction=1.0))
    assert len(raw.rows(world.repo, partitions)) == 2
    # A month later, and after others have counted.
    world.clock.advance(days=31)
    with world.opened() as catalog:
        catalog.repository(NAME).branch("main").put("more", b"more")
    world.clock.advance(days=2)
    world.apply(world.plan(allowed_fraction=1.0))
    left = {row.id for row in raw.rows(world.repo, partitions)}
    assert used <= left
    assert len(left) == 2
    # SeaweedFS lists folders in which nothing is: nobody takes them for unknown partitions.
    world.quiet()
    assert world.store().unknown_guards() == []


def test_what_a_run_set_aside_is_left_to_it(local: World) -> None:
    """An undo brings it back, and finds it where it was brought; then it goes."""
    local.repo.change_settings(hard_delete=False)
    main = local.repo.branch("main")
    main.put("a", b"a")
    main.delete("a")
    local.backend.close()
    local.repo = local.other()
    local.age()
    run = local.apply(local.plan(allowed_fraction=1.0), removal=MoveToQuarantine()).run
    assert len(raw.rows(local.repo, ledger)) == 1
    local.repo.change_settings(hard_delete=True)
    catalog = local.opened()
    assert [done.objects for done in catalog.reap()] == [0]
    assert catalog.backlog(local.repo.uid).due == 0
    catalog.clean()
    assert [row.state for row in raw.rows(local.repo, ledger)] == [LedgerState.CONDEMNED]
    # What is thrown away since is nobody's.
    local.clock.advance(minutes=1)
    branch = local.other().branch("main")
    branch.put("b", b"b")
    branch.delete("b")
    local.clock.advance(minutes=16)
    assert [done.objects for done in catalog.reap()] == [1]
    assert local.undo(run).objects == 1
    assert [done.objects for done in catalog.reap()] == [1]
    assert objects(local) == set()


@pytest.mark.parametrize("what", ["reap", "clean"])
def test_a_clock_that_jumped(embedded: Backend, what: str) -> None:
    """Nothing ends by a clock that is not the storage's: neither leases nor uploads."""
    world = World.make(embedded)
    world.repo.change_settings(hard_delete=True)
    main = world.repo.branch("main")
    main.put("a", b"a")
    main.commit("a")
    world.repo.take_lease("main", holder="reader", length=timedelta(days=20))
    linked = main.get_physical_address("linked")
    world.storage.put(linked.address, b"linked")
    main.link_physical_address("linked", linked)
    main.get_physical_address("up")
    main.put("b", b"b")
    main.delete("b")
    catalog = world.opened()
    assert embedded._clocked is not None
    embedded._clocked.skew = -timedelta(days=60)
    world.clock.advance(days=60)
    with pytest.raises(ClockSkew):
        catalog.reap() if what == "reap" else catalog.clean()
    assert len(world.repo.leases()) == 1
    states = sorted(row.state for row in raw.rows(world.repo, upload_tokens))
    assert states == ["pending", "used"]


def test_who_asks_for_what_was_deleted_is_told(local: World) -> None:
    """For a day; then nobody has the entry any more, who looked it up while it was there."""
    main = local.repo.branch("main")
    entry = main.put("a", b"a")
    main.delete("a")
    local.clock.advance(minutes=16)
    local.opened().reap()
    told = local.repo._workspace.missing(entry)
    assert isinstance(told, Gone)
    assert "the online ledger (deleted" in str(told)
    local.clock.advance(days=2)
    local.opened().reap()
    assert raw.rows(local.repo, ledger) == []


def test_what_an_undo_is_bringing_back_is_left_to_it(local: World) -> None:
    local.repo.change_settings(hard_delete=False)
    local.repo.branch("main").put("a", b"a")
    local.repo.branch("main").reset()
    local.backend.close()
    local.repo = local.other()
    local.age()
    run = local.apply(local.plan(allowed_fraction=1.0), removal=MoveToQuarantine()).run
    local.repo.change_settings(hard_delete=True)
    local.clock.advance(minutes=16)
    assert [done.objects for done in local.opened().reap()] == [0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(locks, "_give_back", lambda *_: None)
        with pytest.raises(Died):
            local.undo(run, store=stepped(local.store(), Reached("before restore")))
    assert len(objects(local)) == 1
    assert [done.objects for done in local.opened().reap()] == [0]
    local.clock.advance(minutes=12)
    assert local.undo(run).objects == 1
    assert [done.objects for done in local.opened().reap()] == [1]


def test_nothing_goes_where_no_home_is_registered(local: World) -> None:
    """A catalog of an older version has none before something is written or collected."""
    main = local.repo.branch("main")
    main.put("a", b"a")
    main.delete("a")
    local.clock.advance(minutes=16)
    local.storage.delete(HOME)
    with local.repo._workspace.database.write() as connection:
        connection.execute(sql_delete(catalog_info).where(catalog_info.c.key == REGISTERED))
    with pytest.raises(AnotherDatabase, match="has no registered home yet"):
        local.opened().reap()
    assert len(objects(local)) == 1
    local.opened().repository(NAME).branch("main").put("b", b"b")
    assert [done.objects for done in local.opened().reap()] == [1]
