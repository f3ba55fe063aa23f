"""Tasks that stand still until others are at work, and then go on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

import pytest
from obstore.store import MemoryStore

from reclaim.engine.tasks.deleting import RESTORED, Target
from reclaim.engine.tasks.quarantine import PurgeQuarantined, QuarantineFolder, ToQuarantine
from reclaim.engine.tasks.restoring import FromQuarantine
from reclaim.errors import Partial, StorageDenied
from reclaim.model import StoredObject
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine
from reclaim.run_record import Phase
from reclaim.storage import LastCheck, ObjectStorage, Storage, no_check
from reclaim.storage.pace import TimeOver
from reclaim.testing.storage import StorageWrapper
from tests.collect.helpers.world import World, bury
from tests.collect.quarantine.test_promises import check_back, run_of

MOVE = MoveToQuarantine()
ASIDE = QuarantineFolder("store/", "store/q/")
TARGETS = [Target(f"store/{name}", 5) for name in ("x", "y", "z")]


class Moving(StorageWrapper):
    """Does something once, when a file is about to be moved or has been."""

    def __init__(self, inner: Storage, meanwhile: Callable[[], object], *, moved: bool) -> None:
        super().__init__(inner)
        self._meanwhile = meanwhile
        self._moved = moved
        self.late = ""

    def move(
        self,
        source: str,
        target: str,
        *,
        size: int,
        fresh: datetime | None = None,
        last_check: LastCheck = no_check,
    ) -> None:
        if self.late:
            self.inner.move(source, target, size=size, fresh=fresh, last_check=last_check)
            return
        self.late = source
        if self._moved:
            self.inner.move(source, target, size=size, fresh=fresh, last_check=last_check)
            self._meanwhile()
        else:
            # It stands still between the last check and the rename itself.
            last_check()
            self._meanwhile()
            self.inner.move(source, target, size=size, fresh=fresh)


def test_what_another_apply_counted_stays_aside(local: World) -> None:
    """A task that wakes up takes nothing out of a quarantine that others have promised."""
    past = bury(local)
    plan = local.plan()

    def apply_again() -> None:
        local.clock.advance(minutes=30)
        local.apply(plan, removal=MOVE)

    storage = Moving(local.storage, apply_again, moved=True)
    with pytest.raises(Partial):
        local.apply(plan, removal=MOVE, storage=storage)
    assert local.aside() == set(local.candidates(plan))
    assert storage.late not in local.there()
    local.age()
    local.apply(local.plan(allowed_fraction=1.0), removal=DELETE)
    assert local.undo(plan.document.run).snapshots == 2
    check_back(local, past)


def test_what_is_moved_after_an_undo_is_put_back(local: World) -> None:
    past = bury(local)
    plan = local.plan()
    run = plan.document.run

    def undo() -> None:
        local.clock.advance(minutes=30)
        local.undo(run)
        check_back(local, past)

    storage = Moving(local.storage, undo, moved=False)
    with pytest.raises(Partial):
        local.apply(plan, removal=MOVE, storage=storage)
    assert storage.late
    assert not local.aside()
    assert run_of(local, plan).phase == Phase.UNDONE
    check_back(local, past)


@pytest.mark.parametrize("end", ["undo", "purge", "apply"])
def test_what_is_moved_late_is_found_by_whoever_comes_next(local: World, end: str) -> None:
    past = bury(local)
    plan = local.plan()
    storage = Moving(local.storage, lambda: local.clock.advance(minutes=30), moved=False)
    with pytest.raises(Partial):
        local.apply(plan, removal=MOVE, storage=storage)
    assert local.aside() == {storage.late}
    if end == "undo":
        assert local.undo(plan.document.run).snapshots == 2
        check_back(local, past)
    elif end == "purge":
        local.clock.advance(MOVE.keep)
        assert local.purge() is not None
        assert not local.aside()
        local.quiet()
    else:
        local.apply(plan, removal=MOVE)
        assert local.aside() == set(local.candidates(plan))
        assert local.undo(plan.document.run).snapshots == 2
        check_back(local, past)


def test_one_by_one_nothing_is_taken_too_late(local: World) -> None:
    """One object of a page cannot be moved, and a later one stands still before it is."""
    past = bury(local)
    plan = local.plan()
    data = sorted(address for address in local.candidates(plan) if "/branches/" in address)

    def undo() -> None:
        local.clock.advance(minutes=30)
        local.undo(plan.document.run)
        check_back(local, past)

    class Standing(StorageWrapper):
        """Stands still before the last check, not after it."""

        late = ""

        def move(
            self,
            source: str,
            target: str,
            *,
            size: int,
            fresh: datetime | None = None,
            last_check: LastCheck = no_check,
        ) -> None:
            if source == data[0] and not self.late:
                raise StorageDenied(f"cannot move {source}")
            if source in data[1:] and not self.late:
                self.late = source
                undo()
            self.inner.move(source, target, size=size, fresh=fresh, last_check=last_check)

    with pytest.raises(Partial):
        local.apply(plan, removal=MOVE, storage=Standing(local.storage))
    assert not local.aside()
    assert run_of(local, plan).phase == Phase.UNDONE
    check_back(local, past)


# Where moving is copying.


class SlowCopies(ObjectStorage):
    """A storage in memory, in which a copy, with the look at it, can take very long."""

    def __init__(self) -> None:
        super().__init__("memory://", MemoryStore())
        self.at_once = 4
        self.meanwhile: Callable[[], object] = no_check
        self.over = False

    def head(self, address: str) -> StoredObject:
        found = super().head(address)
        if address.startswith(ASIDE.folder):
            meanwhile, self.meanwhile = self.meanwhile, no_check
            meanwhile()
        return found

    def in_time(self) -> bool:
        return not self.over


@pytest.fixture
def copying() -> Iterator[SlowCopies]:
    storage = SlowCopies()
    for target in TARGETS:
        storage.put(target.address, b"bytes")
    yield storage
    check_there(storage)


def check_there(storage: Storage) -> None:
    for target in TARGETS:
        assert storage.get(target.address) == b"bytes"


def aside_targets() -> list[Target]:
    return [Target(ASIDE.of(target.address), target.size) for target in TARGETS]


def bring_back(storage: Storage) -> None:
    undo = FromQuarantine(ASIDE, (datetime.now().astimezone(),))
    undo.page(storage, aside_targets(), lambda: True)


def test_a_copy_that_took_too_long_is_not_followed_by_a_delete(copying: SlowCopies) -> None:
    """An undo has found both meanwhile, and kept the one that is about to go."""

    def undo() -> None:
        copying.over = True
        bring_back(copying)

    copying.meanwhile = undo
    with pytest.raises(TimeOver):
        ToQuarantine(ASIDE, "begun").page(copying, TARGETS, copying.in_time)
    # Here, because another target may have been the one that was out of time.
    check_there(copying)


@pytest.mark.parametrize("end", ["undo", "purge", "apply"])
def test_a_copy_that_was_left_is_found_by_whoever_comes_next(copying: SlowCopies, end: str) -> None:
    def stand_still() -> None:
        copying.over = True

    copying.meanwhile = stand_still
    with pytest.raises(TimeOver):
        ToQuarantine(ASIDE, "begun").page(copying, TARGETS, copying.in_time)
    assert [one.address for one in copying.list("store/q")]
    if end == "undo":
        bring_back(copying)
    elif end == "purge":
        PurgeQuarantined(()).page(copying, aside_targets(), lambda: True)
    else:
        ToQuarantine(ASIDE, "begun", again=True).page(copying, TARGETS, lambda: True)
        assert {one.address for one in copying.list("store")} == {
            one.address for one in aside_targets()
        }
        bring_back(copying)
    assert not list(copying.list("store/q"))


def test_what_was_compared_for_too_long_is_not_deleted(copying: SlowCopies) -> None:
    """The same of an apply that finds both, and compares them."""
    for target in TARGETS:
        copying.copy(target.address, ASIDE.of(target.address))

    class Comparing(StorageWrapper):
        def same(self, first: str, second: str) -> bool:
            same = super().same(first, second)
            if not copying.over:
                copying.over = True
                bring_back(copying)
            return same

    with pytest.raises(TimeOver):
        ToQuarantine(ASIDE, "begun", again=True).page(Comparing(copying), TARGETS, copying.in_time)


def test_a_purge_that_looked_for_too_long_deletes_nothing(copying: SlowCopies) -> None:
    ToQuarantine(ASIDE, "begun").page(copying, TARGETS, lambda: True)
    asked = iter([True] * len(TARGETS))
    with pytest.raises(TimeOver):
        PurgeQuarantined(()).page(copying, aside_targets(), lambda: next(asked, False))
    [*taken] = FromQuarantine(ASIDE, (datetime.now().astimezone(),)).page(
        copying, aside_targets(), lambda: True
    )
    assert {one.outcome for one in taken} == {RESTORED}
