"""The lock beside a store: one holder at a time, by objects that can be written only once."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from reclaim import lock as timed
from reclaim.clock import SKEW
from reclaim.errors import Conflict, LockLost, Partial, ReclaimError, StorageUnavailable
from reclaim.lock import LENGTH, REQUEST
from reclaim.model import SnapshotId
from reclaim.storage import ObjectStorage, Storage
from reclaim.stores.sidecar.lock import SidecarLock, hold
from reclaim.stores.terminus.held import HeldTerminus
from reclaim.testing import ClockedStorage, FakeClock
from reclaim.testing.faults import FaultyStorage, Nth
from reclaim.testing.storage import StorageWrapper
from tests.terminus.world import At, World, bury, stepped

PREFIX = "store/lock/"


@pytest.fixture
def storage(tmp_path: Path, clock: FakeClock) -> Storage:
    return ClockedStorage(ObjectStorage.open(tmp_path.as_uri()), clock)


def make(storage: Storage, clock: FakeClock, run: str = "run") -> SidecarLock:
    return SidecarLock(storage, PREFIX, clock, run)


def test_one_at_a_time(storage: Storage, clock: FakeClock) -> None:
    with hold(storage, PREFIX, clock, "first") as first:
        first.check()
        with pytest.raises(Conflict, match="run first is working") as error:
            make(storage, clock).take()
        assert error.value.details["run"] == "first"
    with hold(storage, PREFIX, clock, "second"):
        pass


def test_many_at_once(storage: Storage, clock: FakeClock) -> None:
    """Of threads that take it at the same time one gets it; nobody has it beside another."""
    threads, rounds = 8, 15
    inside = 0
    most = 0
    taken = 0
    turn = threading.Lock()
    start = threading.Barrier(threads)

    def work(name: str) -> None:
        nonlocal inside, most, taken
        for _ in range(rounds):
            start.wait()
            lock = make(storage, clock, name)
            try:
                lock.take()
            except Conflict:
                continue
            with turn:
                inside += 1
                taken += 1
                most = max(most, inside)
            lock.renew()
            lock.check()
            with turn:
                inside -= 1
            lock.give_back()

    def work_or_stop(name: str) -> None:
        try:
            work(name)
        except BaseException:
            # Otherwise the others would wait for this one.
            start.abort()
            raise

    with ThreadPoolExecutor(threads) as pool:
        working = [pool.submit(work_or_stop, str(n)) for n in range(threads)]
    errors = [error for one in working if (error := one.exception()) is not None]
    assert not [error for error in errors if not isinstance(error, threading.BrokenBarrierError)]
    assert not errors
    assert most == 1
    assert taken >= rounds
    assert len(list(storage.list(PREFIX.rstrip("/")))) == 1


class Overtaken(StorageWrapper):
    """Before what was written is made to last, somebody with a later number tidies up."""

    def flush(self, addresses: Iterable[str]) -> None:
        [address] = addresses
        self.inner.put(f"{PREFIX}000000000099", self.inner.get(address))
        self.inner.delete(address)
        self.inner.flush([address])


def test_one_that_is_overtaken_while_it_writes(storage: Storage, clock: FakeClock) -> None:
    with pytest.raises(Conflict, match="another run has just taken the lock of this store"):
        make(Overtaken(storage), clock).take()


def test_a_holder_that_is_overtaken_while_it_renews(storage: Storage, clock: FakeClock) -> None:
    held = make(storage, clock)
    held.take()
    held._storage = Overtaken(storage)
    with pytest.raises(LockLost, match="lost its lock"):
        held.renew()
    held.give_back()


def test_it_is_not_taken_over_by_a_clock_that_is_ahead(storage: Storage, clock: FakeClock) -> None:
    holder = make(storage, clock, "holder")
    holder.take()
    clock.advance(LENGTH - REQUEST - timedelta(seconds=1))
    # It may still send deletes, which end within the time of a request.
    holder.check()
    ahead = FakeClock(clock.now() + SKEW)
    with pytest.raises(Conflict, match="holder"):
        make(storage, ahead, "other").take()


def test_it_is_taken_over_a_request_after_its_expiry(storage: Storage, clock: FakeClock) -> None:
    dead = make(storage, clock, "dead")
    dead.take()
    clock.advance(LENGTH - REQUEST)
    with pytest.raises(LockLost, match="could not renew"):
        dead.check()
    clock.advance(REQUEST * 2 + SKEW)
    clock.advance(seconds=-1)
    other = make(storage, clock, "other")
    with pytest.raises(Conflict, match="dead"):
        other.take()
    clock.advance(seconds=1)
    other.take()
    other.check()
    with pytest.raises(LockLost):
        dead.renew()
    with pytest.raises(LockLost):
        dead.check()
    # Giving back what one has lost takes nothing from whoever has it.
    dead.give_back()
    other.renew()
    with pytest.raises(Conflict, match="other"):
        make(storage, clock).take()


def test_renewing_makes_it_last(storage: Storage, clock: FakeClock) -> None:
    lock = make(storage, clock)
    lock.take()
    for _ in range(5):
        clock.advance(LENGTH / 2)
        lock.renew()
        assert lock.remaining() == LENGTH - REQUEST
    clock.advance(LENGTH)
    with pytest.raises(LockLost, match="expired"):
        lock.renew()


def test_an_old_look_does_not_take_it(storage: Storage, clock: FakeClock) -> None:
    """Whoever slept between looking and writing finds that others went on, and has nothing."""
    first = make(storage, clock, "first")
    first.take()
    first.give_back()

    def others(call: str, _address: str) -> None:
        if call == "put" and not went:
            went.append(True)
            second.take()
            second.renew()
            second.renew()

    went: list[bool] = []
    second = make(storage, clock, "second")
    slow = make(FaultyStorage(storage, others), clock, "slow")
    with pytest.raises(Conflict):
        slow.take()
    second.renew()
    second.check()
    with pytest.raises(LockLost):
        slow.check()


def test_a_renewal_that_fails_may_be_tried_again(storage: Storage, clock: FakeClock) -> None:
    failing = Nth(2, lambda *_: StorageUnavailable("down"), calls=("put",), times=2)
    lock = make(FaultyStorage(storage, failing), clock)
    lock.take()
    clock.advance(LENGTH / 4)
    for _ in range(2):
        with pytest.raises(StorageUnavailable):
            lock.renew()
    lock.check()
    lock.renew()
    assert lock.remaining() == LENGTH - REQUEST


def test_it_is_renewed_in_the_background(
    storage: Storage, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timed, "RENEWAL", timedelta(milliseconds=5))
    renewed = threading.Event()
    whole = SidecarLock.renew

    def renew(lock: SidecarLock) -> None:
        whole(lock)
        renewed.set()

    monkeypatch.setattr(SidecarLock, "renew", renew)
    lock = make(storage, clock)
    lock.take()
    clock.advance(LENGTH / 4)
    before = lock.remaining()
    with lock.renewed():
        assert renewed.wait(20)
    assert lock.remaining() > before


def test_it_is_left_to_tasks_that_may_still_be_at_work(storage: Storage, clock: FakeClock) -> None:
    """A holder that ends in the middle of their work cannot give it back, and they cannot renew."""
    started = clock.now()

    def work() -> None:
        with hold(storage, PREFIX, clock, "first") as first:
            locks.append(first)
            with first.lend(timedelta(hours=1), ended=lambda: False) as time:
                assert time == LENGTH - REQUEST
            assert first.free_at is None
            clock.advance(seconds=30)
            with first.lend(timedelta(minutes=3), ended=lambda: False) as time:
                assert time == timedelta(minutes=3)
                raise KeyboardInterrupt

    locks: list[SidecarLock] = []
    with pytest.raises(KeyboardInterrupt):
        work()
    [first] = locks
    free_at = started + timedelta(seconds=30, minutes=3) + REQUEST + REQUEST + SKEW
    assert first.free_at == free_at
    with pytest.raises(LockLost):
        first.renew()
    for passed in (timedelta(0), free_at - clock.now() - timedelta(seconds=1)):
        clock.advance(passed)
        with pytest.raises(Conflict, match="may still be working on executors until") as error:
            make(storage, clock).take()
        assert error.value.details == {"run": "first", "free_at": f"{free_at:%FT%T}Z"}
    clock.advance(seconds=1)
    make(storage, clock).take()


@pytest.fixture
def taken_over(world: World) -> Iterator[World]:
    bury(world)
    yield world
    world.check()


@pytest.mark.parametrize("step", ["before condemn", "before release", "before promote", "sweep"])
def test_a_run_that_lost_its_lock_does_not_touch_what_others_do(
    taken_over: World, step: str
) -> None:
    """One that slept wakes up while another applies the same plan, and stops without a trace."""
    world = taken_over
    plan = world.plan()

    def others() -> None:
        world.clock.advance(LENGTH + REQUEST + SKEW)
        lists = sorted(world.folder.glob(".reclaim/condemned/*"))
        done.append(lists)
        world.apply(plan, store=stepped(world.store(), wake))

    def wake(reached: str) -> None:
        """In the middle of the other run the first one goes on, and fails."""
        if reached == "after condemn" and len(done) == 1:
            marks = {path: path.read_bytes() for path in world.folder.glob(".reclaim/condemned/*")}
            assert marks
            [held] = sleeping
            for call in (held.abandon, held.promote, lambda: held.condemn({})):
                with pytest.raises(ReclaimError):
                    call()
            assert marks == {
                path: path.read_bytes() for path in world.folder.glob(".reclaim/condemned/*")
            }
            done.append([])

    done: list[list[Path]] = []
    sleeping: list[HeldTerminus] = []
    sleeper = world.store()
    take = sleeper.lock

    @contextmanager
    def remembered(run_id: str) -> Iterator[HeldTerminus]:
        with take(run_id) as held:
            sleeping.append(held)
            yield held

    sleeper.lock = remembered  # type: ignore[method-assign]
    asleep = At(step, others)
    with pytest.raises(Partial if step == "sweep" else LockLost):
        world.apply(plan, store=stepped(sleeper, asleep), step=asleep)
    [run] = world.store().runs()
    assert run.phase == "done"


def test_marks_of_a_run_that_died_are_taken_off(world: World) -> None:
    """By ``clean``, which every gc begins with; not while the run may still hold the lock."""
    bury(world)
    store = world.store()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SidecarLock, "give_back", lambda *_: None)
        with store.lock("dead") as held:
            held.condemn({SnapshotId("a" * 40): "because"})
    store.clean()
    assert store._sidecar.lists.any_provisional()
    world.clock.advance(LENGTH + REQUEST + SKEW)
    store.clean()
    assert not store._sidecar.lists.any_provisional()
