"""The files beside a store, as power cuts, wrong clocks and people leave them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from reclaim.clock import SKEW
from reclaim.errors import Conflict, Corrupt, InvalidInput, LeaseLapsed, Refused
from reclaim.lease import LONGEST
from reclaim.lock import LENGTH, REQUEST
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.run_record import Phase
from reclaim.stores.sidecar import files
from reclaim.testing.faults import FaultyStorage
from tests.terminus.world import Past, World, bury, taking_what_others_need

BROKEN = {
    "empty": b"",
    "zeros": bytes(60),
    "cut off": b'{"owner": "x", "run',
    "no object": b"[1]",
    "something else": b'{"a": 1}',
    "deep": b"[" * 100_000,
    "null": b"null",
    "no text": b"\xff\xfe",
}
broken = pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)


@pytest.fixture
def past(world: World) -> Past:
    return bury(world)


def put(world: World, name: str, data: bytes, *, at: datetime | None = None) -> Path:
    path = world.folder / ".reclaim" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    when = (at or world.clock.now()).timestamp()
    os.utime(path, (when, when))
    return path


# The lock


@broken
def test_a_lock_that_cannot_be_read(world: World, past: Past, data: bytes) -> None:
    """It may have been somebody's: it counts as held for as long as any lock can be."""
    plan = world.plan()
    path = put(world, "lock/000000000007", data)
    with pytest.raises(Conflict, match=str(path)) as error:
        world.apply(plan)
    assert "remove the file" in (error.value.hint or "")
    world.clock.advance(LENGTH + SKEW + REQUEST)
    world.apply(plan)
    assert world.there() == past.live


def lock_until(until: object) -> bytes:
    return json.dumps({"owner": "o", "run": "r", "expires_at": until}).encode()


@pytest.mark.parametrize("until", ["2030-01-01T00:00:00+00:00", "9999-12-31T23:59:59+00:00"])
def test_a_lock_that_claims_years(world: World, past: Past, until: str) -> None:
    plan = world.plan()
    path = put(world, "lock/000000000001", lock_until(until))
    with pytest.raises(Conflict, match=str(path)):
        world.apply(plan)
    world.clock.advance(LENGTH + SKEW + REQUEST)
    world.apply(plan)
    assert world.there() == past.live


def test_a_lock_of_a_clock_that_was_wrong(world: World, past: Past) -> None:
    """Its holder may be alive, so that a person has to look; the message says at what."""
    plan = world.plan()
    wrong = datetime(2030, 1, 1, tzinfo=UTC)
    until = (wrong + LENGTH).isoformat()
    path = put(world, "lock/000000000001", lock_until(until), at=wrong)
    with pytest.raises(Conflict, match=f"{path} was written in the future") as error:
        world.apply(plan)
    assert "remove the file" in (error.value.hint or "")
    path.unlink()
    world.apply(plan)


@pytest.mark.parametrize("until", [5, "soon", "2026-01-03T00:00:00", ""])
def test_a_lock_with_a_time_that_is_none(world: World, past: Past, until: object) -> None:
    put(world, "lock/000000000001", lock_until(until))
    with pytest.raises(Conflict, match="cannot be read"):
        world.apply(world.plan())


@pytest.mark.parametrize(
    "name", [".DS_Store", "notes.txt", "7", "0000000000001", "00000000000x", "zzz/000000000001"]
)
def test_a_stray_file_beside_the_lock(world: World, past: Past, name: str) -> None:
    path = put(world, f"lock/{name}", b"a note")
    run = world.apply(world.plan()).run
    world.undo(run)
    assert path.read_bytes() == b"a note"
    assert world.there() == past.live | past.dead


def test_a_lock_with_the_last_number(world: World, past: Past) -> None:
    path = put(world, f"lock/{10**12 - 1}", lock_until(None))
    with pytest.raises(Conflict, match=str(path.parent)):
        world.apply(world.plan())


# Leases


@pytest.mark.parametrize("length", [timedelta(weeks=999_999), timedelta(days=31), timedelta(0)])
def test_a_lease_of_such_a_length_is_not_taken(world: World, past: Past, length: timedelta) -> None:
    store = world.store()
    with pytest.raises(InvalidInput, match="cannot last"):
        store.take_lease(past.old[0], holder="reader", length=length)
    assert list(world.folder.glob(".reclaim/leases/*")) == []
    store.take_lease(past.old[0], holder="reader", length=LONGEST)


def lease_of(seconds: object, snapshot: object = "0" * 40) -> bytes:
    return json.dumps({"snapshot": snapshot, "holder": "h", "seconds": seconds}).encode()


@pytest.mark.parametrize(
    "data",
    [
        *BROKEN.values(),
        *map(lease_of, [999_999 * 7 * 86_400, 1e300, float("inf"), float("nan"), -1, 0, "1", None]),
        lease_of(60, snapshot=None),
    ],
)
def test_a_lease_that_cannot_be_read_stops_every_run(world: World, past: Past, data: bytes) -> None:
    plan = world.plan()
    path = put(world, "leases/x.json", data)
    for work in (world.plan, lambda: world.apply(plan), lambda: world.store().leases()):
        with pytest.raises(Corrupt, match=str(path)) as error:
            work()
        assert "lease release" in (error.value.hint or "")
    world.store().release_lease("x")
    world.apply(plan)
    assert world.there() == past.live


def test_what_is_no_lease_is_left_alone(world: World, past: Past) -> None:
    note = put(world, "leases/.DS_Store", b"x")
    world.apply(world.plan())
    assert world.store().leases() == []
    assert note.exists()


def test_a_holder_that_slept_while_it_renewed(world: World, past: Past) -> None:
    """A whole run fits into its sleep: it must not believe that it holds anything."""
    lease = world.store().take_lease(past.old[-1], holder="sleeper", length=timedelta(hours=1))
    plan_before = world.plan()
    slept: list[bool] = []

    def sleep(call: str, _address: str) -> None:
        if call == "put" and not slept:
            slept.append(True)
            world.clock.advance(hours=2)
            world.apply(plan_before)
            world.purge(timedelta(0))
            world.apply(world.plan())
            for path in world.folder.glob(".reclaim/condemned/*"):
                path.unlink()

    store = world.store(lambda storage: FaultyStorage(storage, sleep))
    with pytest.raises(LeaseLapsed, match="while it was renewed"):
        store.renew_lease(lease)
    assert slept
    assert past.old[-1] not in world.there()
    assert world.store().leases() == []


# Records of runs, and lists


@broken
def test_a_record_that_cannot_be_read(world: World, past: Past, data: bytes) -> None:
    """It is named, what the run has aside stays, and the way that the hint names leads out."""
    plan = world.plan()
    run = world.apply(plan).run
    path = put(world, f"runs/{run}/run.json", data)
    [found] = world.store().runs()
    assert (found.id, found.phase) == (run, "unreadable")
    world.clock.advance(MoveToQuarantine().keep)
    assert world.purge() is None
    # What it has promised is not known, so that nobody takes anything.
    with pytest.raises(Refused, match=run):
        world.plan()
    for work in (lambda: world.undo(run), lambda: world.apply(plan)):
        with pytest.raises(Corrupt, match=str(path)) as error:
            work()
        assert "apply the plan" in (error.value.hint or "")
    assert world.aside() == past.dead
    path.unlink()
    world.apply(plan)
    world.undo(run)
    assert world.there() == past.live | past.dead
    assert [one.phase for one in world.store().runs()] == [Phase.UNDONE]


def test_what_an_unreadable_run_has_aside_still_needs_its_parents(world: World, past: Past) -> None:
    """A layer of one run's quarantine that is labelled again stands on one of another's."""
    write = world.write
    parent = write.layer(values=["parent"])
    child = write.layer(parent)
    world.age()
    plan = world.plan()
    lease = world.store().take_lease(parent, holder="reader")
    first = world.apply(plan).run
    world.store().release_lease(lease.id)
    with taking_what_others_need():
        world.apply(world.plan())
    assert {parent, child} <= world.aside()
    put(world, f"runs/{first}/run.json", b"")
    write.label("again", child)
    world.clock.advance(MoveToQuarantine().keep)
    world.purge()
    assert parent in world.there()


@broken
def test_a_list_that_cannot_be_read(world: World, past: Past, data: bytes) -> None:
    plan = world.plan()
    path = put(world, "condemned/x.json", data)
    for work in (world.plan, lambda: world.apply(plan)):
        with pytest.raises(Corrupt, match=str(path)) as error:
            work()
        assert "remove the file" in (error.value.hint or "")
    put(world, "condemned/.DS_Store", b"x")
    path.unlink()
    world.apply(plan)
    assert world.there() == past.live


def test_a_file_of_any_length_is_not_read_whole(world: World, past: Past) -> None:
    path = put(world, "leases/x.json", b"")
    with path.open("wb") as file:
        file.truncate(2**42)
    with pytest.raises(Corrupt, match="bytes"):
        world.plan()


def test_a_document_is_there_whole_or_not_at_all(world: World, past: Past) -> None:
    """It is flushed under another name first: what has its name is never half of it."""
    calls: list[tuple[str, str]] = []

    class Noted(FaultyStorage):
        def flush(self, addresses: Iterable[str]) -> None:
            calls.append(("flush", next(iter(addresses))))
            super().flush(addresses)

    storage = Noted(world.storage, lambda call, address: calls.append((call, address)))
    files.write_document(storage, "store/.reclaim/x.json", {"a": 1})
    (put_, part), (flushed, also), (moved, _), (last, address) = calls
    assert (put_, flushed, moved, last) == ("put", "flush", "move", "flush")
    assert part == also
    assert part != address == "store/.reclaim/x.json"
    assert [path.name for path in (world.folder / ".reclaim").glob("x*")] == ["x.json"]
