"""What holds for a run as long as its window is open, whatever others do, and however late."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from uuid import NAMESPACE_OID, uuid5

import pytest

from reclaim.errors import ClockSkew, Partial, Refused, StorageUnavailable, UnsafeFolder
from reclaim.model import StoredObject
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.record.journal import Journal
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine, Removal, find_record
from reclaim.run_record import Phase
from reclaim.storage import LastCheck, Storage, no_check
from reclaim.testing.storage import StorageWrapper
from tests.collect.helpers.dying import dies
from tests.collect.helpers.world import NAME, At, World, bury, opening, stepped, whole
from tests.collect.quarantine.test_promises import aside_of, check_back, dies_at, run_of
from tests.support.dying import Died

MOVE = MoveToQuarantine()
LATER: dict[str, Removal] = {"deletes": DELETE, "moves": MoveToQuarantine(timedelta(hours=1))}


def late_commit(world: World) -> str:
    """A dead commit whose data is old and whose containers are young."""
    with world.opened() as catalog:
        branch = catalog.repository(NAME).create_branch("late", "main")
        branch.put("z", b"late z")
        world.clock.advance(hours=30)
        commit = branch.commit("late").id
        catalog.repository(NAME).delete_branch("late")
    world.clock.advance(hours=1)
    return commit


@pytest.mark.parametrize("later", LATER)
def test_a_commit_of_which_a_run_took_a_part_is_its_own(local: World, later: str) -> None:
    bury(local)
    commit = late_commit(local)
    run = local.apply(local.plan(), removal=MOVE).run
    local.age()
    local.apply(local.plan(), removal=LATER[later])
    local.clock.advance(hours=2)
    local.purge()
    local.undo(run)
    assert whole(local.other(), commit)["z"] == b"late z"


def test_another_plan_in_its_place_is_not_the_run_s(local: World) -> None:
    """As when a folder outside the store is emptied and used for another plan."""
    bury(local)
    first, second = local.plan(), local.plan()
    local.apply(first, removal=MOVE)
    run = run_of(local, first)
    assert find_record(local.store(), run, opening(local.storage)) is not None
    moved = replace(run, place=str(second.place))
    assert find_record(local.store(), moved, opening(local.storage)) is None


@pytest.mark.parametrize("damage", ["missing", "empty"])
def test_a_list_of_what_was_intended_that_is_lost(local: World, damage: str) -> None:
    past = bury(local)
    plan = local.plan()
    dies_at(local, "before set_aside", lambda **how: local.apply(plan, removal=MOVE, **how))
    change(local, plan, "/intended.json", None if damage == "missing" else b"")
    local.age()
    with pytest.raises(Refused, match="are incomplete"):
        local.plan(allowed_fraction=1.0)
    assert local.undo(plan.document.run).snapshots == 2
    check_back(local, past)


@pytest.mark.parametrize("name", ["/plan.json", "/journal.json", "/intended.json"])
def test_a_damaged_record_of_a_run_that_is_done(local: World, name: str) -> None:
    """Its folder tells what it took; nobody else is held up."""
    past = bury(local)
    plan = local.plan()
    local.apply(plan, removal=MOVE)
    change(local, plan, name, b"{")
    local.plan()
    assert local.undo(plan.document.run).snapshots == 2
    check_back(local, past)


def change(world: World, plan: WrittenPlan, name: str, data: bytes | None) -> None:
    """Damage the files of a run that have a name, or remove them."""
    for stored in list(world.storage.list(plan.place.prefix.rstrip("/"))):
        if stored.address.endswith(name):
            if data is None:
                world.storage.delete(stored.address)
            else:
                world.storage.put(stored.address, data)


def test_a_purge_by_a_clock_that_is_ahead(local: World) -> None:
    bury(local)
    local.apply(local.plan(), removal=MOVE)
    assert local.backend._clocked is not None
    local.clock.advance(days=10)
    local.backend._clocked.skew = -timedelta(days=10)
    with pytest.raises(ClockSkew):
        local.purge()
    assert local.aside()


def test_a_link_where_something_was(local: World) -> None:
    """It is not taken for what it points at, which is the only copy."""
    past = bury(local)
    plan = local.plan()
    run = local.apply(plan, removal=MOVE).run
    root = Path(local.backend.location) / "objects"
    home = next(address for address in sorted(local.candidates(plan)) if "/branches/" in address)
    (root / home).symlink_to(root / aside_of(local, run, home))
    with pytest.raises(Partial) as partial:
        local.undo(run)
    assert partial.value.details["cause"]["kind"] == UnsafeFolder.kind
    (root / home).unlink()
    assert local.undo(run).snapshots == 2
    check_back(local, past)


def test_other_bytes_written_after_an_undo_was_cut_off(local: World) -> None:
    past = bury(local)
    plan = local.plan()
    run = local.apply(plan, removal=MOVE).run
    dies_at(local, "before restore", lambda **how: local.undo(run, **how))
    home = next(one for one in local.candidates(plan) if local.storage.get(one) == b"old y")
    local.storage.put(home, b"ODD Y")
    with pytest.raises(
        Partial, match="not in quarantine, and its original address has an object of the same size"
    ):
        local.undo(run)
    assert whole(local.other(), past.first) == past.files[past.first]
    assert run_of(local, plan).phase == Phase.UNDOING


@pytest.mark.parametrize(
    ("data", "said"),
    [(None, "and its original address is empty"), (b"longer", "has 6 bytes instead of 5")],
    ids=["nothing", "more"],
)
def test_an_undo_says_what_lies_at_an_old_place(
    local: World, data: bytes | None, said: str
) -> None:
    bury(local)
    plan = local.plan()
    run = local.apply(plan, removal=MOVE).run
    dies_at(local, "before restore", lambda **how: local.undo(run, **how))
    home = next(one for one in local.candidates(plan) if local.storage.get(one) == b"old y")
    local.storage.delete(home)
    if data is not None:
        local.storage.put(home, data)
    with pytest.raises(Partial, match=f"{home} is not in quarantine, .*{said}"):
        local.undo(run)


def test_what_comes_back_one_by_one_is_flushed_too(local: World) -> None:
    bury(local)
    plan = local.plan()
    run = local.apply(plan, removal=MOVE).run
    local.storage.put(min(local.candidates(plan)), b"somebody else's")
    flushed: set[str] = set()

    class Watching(StorageWrapper):
        def flush_moved(self, addresses: Iterable[str]) -> None:
            moved = list(addresses)
            flushed.update(moved)
            super().flush_moved(moved)

    with pytest.raises(Partial):
        local.undo(run, storage=Watching(local.storage))
    assert flushed == set(local.candidates(plan)) - {min(local.candidates(plan))}


def test_the_record_of_a_run_that_can_be_undone_outlives_an_older_plan(local: World) -> None:
    past = bury(local)
    plan = local.plan()
    local.clock.advance(days=31)
    older = local.plan(allowed_fraction=1.0)
    assert any("plan.json" in address for address in local.candidates(older))
    local.apply(plan, removal=MOVE)
    local.apply(older)
    assert any(one.address.endswith("plan.json") for one in local.storage.list(plan.place.prefix))
    assert local.undo(plan.document.run).snapshots == 2
    check_back(local, past)


def test_what_is_set_aside_is_flushed(local: World) -> None:
    """Before the journal says that it is in quarantine."""
    bury(local)
    plan = local.plan()
    flushed: set[str] = set()

    class Watching(StorageWrapper):
        def flush_moved(self, addresses: Iterable[str]) -> None:
            moved = list(addresses)
            flushed.update(moved)
            super().flush_moved(moved)

    run = local.apply(plan, removal=MOVE, storage=Watching(local.storage)).run
    folder = local.store().format.quarantine_path(run)
    prefix = local.store().format.prefix
    assert flushed == {folder + one.removeprefix(prefix) for one in local.candidates(plan)}


def test_other_bytes_written_over_what_no_journal_has(local: World) -> None:
    """An apply and an undo were cut off; what the undo brought back is known all the same."""
    past = bury(local)
    plan = local.plan()
    run = plan.document.run

    def cut_off(*_: object) -> None:
        raise Died

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "note", cut_off)
        with pytest.raises(Died):
            local.apply(plan, removal=MOVE)
    local.clock.advance(minutes=12)
    dies_at(local, "before restore", lambda **how: local.undo(run, **how))
    data = [one for one in local.candidates(plan) if "/branches/" in one]
    home = next(one for one in data if local.storage.get(one) == b"old y")
    local.storage.put(home, b"ODD Y")
    with pytest.raises(
        Partial, match="not in quarantine, and its original address has an object of the same size"
    ):
        local.undo(run)
    assert run_of(local, plan).phase == Phase.UNDOING
    assert whole(local.other(), past.first) == past.files[past.first]


def test_what_was_made_again_is_known_by_an_undo_that_is_repeated(local: World) -> None:
    past = bury(local)
    plan = local.plan()
    run = local.apply(plan, removal=MOVE).run
    home = min(local.candidates(plan))
    local.storage.put(home, local.storage.get(aside_of(local, run, home)))
    dies_at(local, "before restore", lambda **how: local.undo(run, **how))
    assert local.undo(run).snapshots == 2
    check_back(local, past)


class NewEtags(StorageWrapper):
    """A storage that copies, and gives every write another etag, as Azure and S3 with KMS do."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.at_once = 4

    def head(self, address: str) -> StoredObject:
        found = super().head(address)
        return replace(found, etag=uuid5(NAMESPACE_OID, f"{address} {found.last_modified}").hex)

    def copy(self, source: str, target: str) -> None:
        # On a disk a copy is a second link to the same file, with one time for both.
        self.put(target, self.get(source))

    def move(
        self,
        source: str,
        target: str,
        *,
        size: int,
        fresh: datetime | None = None,
        last_check: LastCheck = no_check,
    ) -> None:
        self.copy(source, target)
        assert self.head(target).size == size
        last_check()
        self.delete(source)


@pytest.mark.parametrize("journal", ["kept", "lost"])
def test_an_undo_that_dies_where_every_write_has_a_new_etag(local: World, journal: str) -> None:
    """It dies at one write after the other, and each time goes on where it was."""
    past = bury(local)
    plan = local.plan()
    run = local.apply(plan, removal=MOVE, storage=NewEtags(local.storage)).run
    if journal == "lost":
        change(local, plan, "/journal.json", b"[]")
    fatal = 1
    while dies(
        local,
        lambda world, **how: world.undo(run, storage=NewEtags(world.storage), **how),
        fatal,
    ):
        local.clock.advance(minutes=12)
        fatal += 2
    assert fatal > 10
    assert not local.aside()
    assert run_of(local, plan).phase == Phase.UNDONE
    check_back(local, past)


def test_other_bytes_where_every_write_has_a_new_etag(local: World) -> None:
    bury(local)
    plan = local.plan()
    storage = NewEtags(local.storage)
    run = local.apply(plan, removal=MOVE, storage=storage).run
    dies_at(local, "before restore", lambda **how: local.undo(run, storage=storage, **how))
    home = next(one for one in local.candidates(plan) if local.storage.get(one) == b"old y")
    local.storage.put(home, b"ODD Y")
    with pytest.raises(
        Partial, match="not in quarantine, and its original address has an object of the same size"
    ):
        local.undo(run, storage=storage)


DAY = timedelta(days=1)
LONG = MoveToQuarantine(14 * DAY, may_shorten=True)


def end_of_window(world: World) -> datetime | None:
    [run] = world.repo.runs()
    return run.promised.until if run.promised else None


@pytest.mark.parametrize("step", ["", "sweep data", "before promote"], ids=str)
def test_a_window_is_not_shortened_unasked(local: World, step: str) -> None:
    """Whether the first apply was done, ended halfway, or came to nothing."""
    bury(local)
    plan = local.plan(allowed_fraction=1.0)

    def fail() -> None:
        if step:
            raise StorageUnavailable("down")

    at = At(step, fail)
    promised = local.clock.now() + LONG.keep
    with suppress(StorageUnavailable, Partial):
        local.apply(plan, removal=LONG, store=stepped(local.store(), at), step=at)
    assert end_of_window(local) == promised
    local.clock.advance(days=1)
    assert local.apply(plan, removal=MoveToQuarantine()).until == promised
    assert end_of_window(local) == promised
    # Asked for, it is.
    asked = MoveToQuarantine(3 * DAY, may_shorten=True)
    assert local.apply(plan, removal=asked).until == local.clock.now() + 3 * DAY
    # And a longer one is longer in any case.
    assert local.apply(plan, removal=MoveToQuarantine()).until == local.clock.now() + 7 * DAY
