"""The duties of every store, whatever its abilities."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any
from unittest import SkipTest

import pyarrow as pa

from reclaim.engine.tasks import reading
from reclaim.engine.tasks.deleting import check_inside
from reclaim.errors import (
    Conflict,
    Corrupt,
    IncompleteRead,
    LockLost,
    OwnedAddress,
    ReclaimError,
    Refused,
)
from reclaim.ids import new_uid
from reclaim.model import SnapshotId
from reclaim.process import Process
from reclaim.run.plan.dead_snapshots import live_containers
from reclaim.run.plan.decide import KEEPS_ALL, decide_seen
from reclaim.run.plan.planning import make_plan
from reclaim.run_record import Phase, RunCounts, RunRecord
from reclaim.safety import SAFETY
from reclaim.storage import KeyRange, hashed_files
from reclaim.stores.abilities import HeldQuarantine, HoldsLeases
from reclaim.stores.format import CONTAINERS, ENTRIES, NO_READ, ReadsContainers
from reclaim.stores.observation import Observation
from reclaim.testing.stores.subject import Contract, Subject, failure_of

LOCK_IS_FREE = SAFETY.lock_length + 2 * (SAFETY.request + SAFETY.clock_skew)
"""Time after its last renewal at which anyone can take a lock."""
INTERRUPTIONS = 6
"""Interruptions of a run: it may have to restart a write each time."""


class StoreContract(Contract):
    """The duties of every store."""

    def named(self, seen: Observation) -> set[SnapshotId]:
        """Return the snapshots with containers."""
        return {snapshot for addresses in seen.containers.values() for snapshot in addresses}

    def held(self, subject: Subject, seen: Observation) -> list[str]:
        storage = subject.store.storage
        tables = [hashed_files.read(storage, file) for file in seen.held]
        return [address for table in tables for address in table.column("address").to_pylist()]

    def test_key_ranges_cover_every_object_once(self, subject: Subject) -> None:
        subject.live()
        subject.dead()
        store = subject.store
        ranges = list(store.format.key_ranges(store.storage))
        folders = sorted({f"{keys.prefix.rstrip('/')}/" for keys in ranges})
        assert len(set(ranges)) == len(ranges)
        assert not any(a != b and b.startswith(a) for a in folders for b in folders)
        listed = [
            stored.address
            for keys in ranges
            for stored in store.storage.list(keys.prefix, after=keys.after, until=keys.until)
        ]
        assert len(listed) == len(set(listed))
        assert subject.objects() <= set(listed)
        assert all(address.startswith(store.format.prefix) for address in listed)
        for address in subject.objects():
            assert sum(_is_in(keys, address) for keys in ranges) == 1, address

    def test_the_format_can_be_sent_elsewhere(self, subject: Subject) -> None:
        format, storage = subject.store.format, subject.store.storage
        needs = sorted(subject.needs(subject.live()))
        copy = pickle.loads(pickle.dumps(format))
        assert copy == format
        assert (copy.root, copy.prefix) == (storage.url, format.prefix)
        assert copy.describe(pa.array(needs)).equals(format.describe(pa.array(needs)))
        assert list(copy.key_ranges(storage)) == list(format.key_ranges(storage))

    def test_the_handle_is_what_the_lock_gives(self, subject: Subject) -> None:
        with subject.store.lock(new_uid()) as held:
            assert type(held) is subject.store.handle

    def test_describe_knows_what_may_go(self, subject: Subject) -> None:
        needed = subject.needs(subject.live())
        format = subject.store.format
        _, place = subject.store.place("contract")
        outside = ["elsewhere/x", "", format.prefix.rstrip("/") + "-not/x"]
        addresses = [*needed, f"{place}plan.json", *outside]
        described = format.describe(pa.array(addresses, pa.string())).to_pylist()
        kinds = dict(zip(addresses, (row["kind"] for row in described), strict=True))
        assert all(kinds[address] in format.order for address in needed)
        data = {kinds[address] for address, kind in needed.items() if kind == "data"}
        assert kinds[f"{place}plan.json"] not in data
        assert format.margins.keys() == set(format.order)
        assert format.reasons.keys() <= set(format.order)
        assert format.guard_noun or not any(row["guard"] for row in described)
        assert not {kinds[address] for address in outside} & set(format.order)

    def test_nothing_outside_is_the_stores(self, subject: Subject) -> None:
        check_inside(subject.store.format, list(subject.needs(subject.live())))
        prefix = subject.store.format.prefix
        for address in ("elsewhere/x", prefix, f"{prefix}../x", f"/{prefix}x"):
            try:
                check_inside(subject.store.format, [address])
            except OwnedAddress:
                continue
            raise AssertionError(f"{address!r} counts as inside")

    def test_containers_and_entries_are_complete(self, subject: Subject) -> None:
        snapshot = subject.live()
        store, seen = subject.store, self.observed(subject)
        named = live_containers(seen, [snapshot])
        assert store.format.reads <= set(store.format.order)
        expanded = pa.concat_tables(reading.expand(store.format, store.storage, named))
        assert expanded.schema.equals(CONTAINERS)
        read: dict[str, str] = {}
        for container in expanded.to_pylist():
            read[container["address"]] = self.kind_of(subject, container)
            if container["detail"] == NO_READ:
                continue
            assert isinstance(store.format, ReadsContainers)
            entries = store.format.entries(store.storage, container, paths=True)
            assert entries.schema.equals(ENTRIES)
            assert entries.num_rows == container["entries"]
            if not store.format.has_paths:
                assert entries.column("path").null_count == entries.num_rows
                assert self.kind_by_name(subject, container["address"]) == container["kind"]
            read |= dict.fromkeys(entries.column("address").to_pylist(), "data")
        # Containers taken by name may be missing.
        by_name = set(named.column("address").to_pylist()) if not store.format.reads else set()
        needs = dict(subject.needs(snapshot))
        assert read.items() >= needs.items()
        assert read.keys() - needs.keys() <= by_name

    def kind_of(self, subject: Subject, container: Mapping[str, Any]) -> str:
        """Return the kind a container is collected as."""
        if container["kind"] in subject.store.format.order:
            return str(container["kind"])
        return self.kind_by_name(subject, container["address"])

    def kind_by_name(self, subject: Subject, address: str) -> str:
        described = subject.store.format.describe(pa.array([address]))
        return str(described.field("kind")[0].as_py())

    def test_observe_tells_the_living_from_the_dead(self, subject: Subject) -> None:
        live, dead = subject.live(), subject.dead()
        seen = self.observed(subject)
        assert {live, dead} <= seen.ids
        assert live in {ref.snapshot for ref in seen.refs}
        assert dead not in {ref.snapshot for ref in seen.refs}
        assert {live, dead} <= self.named(seen)
        assert not seen.marked
        assert seen.read_at <= subject.store.clock.now()
        assert not seen.open & seen.closed
        assert len(self.held(subject, seen)) == seen.held_count

    def test_every_way_to_be_live_is_seen(self, subject: Subject) -> None:
        ways, dead = subject.live_otherwise(), subject.dead()
        live = decide_seen(KEEPS_ALL, self.observed(subject)).live
        assert dead not in live
        assert not [way for way, snapshot in ways.items() if snapshot not in live]

    def test_a_read_that_is_short_stops_a_run(self, subject: Subject) -> None:
        """The number of snapshots is known from another source than reading them."""
        subject.live()
        subject.dead()
        if not subject.shorten():
            raise SkipTest("no read of the store can be short")
        subject.age()
        before = subject.objects()
        failure_of(IncompleteRead, lambda: self.make_plan(subject))
        assert subject.objects() == before

    def test_observe_holds_what_is_not_in_a_snapshot_yet(self, subject: Subject) -> None:
        staged, uploading = subject.staged(), subject.uploading()
        for settled in (False, True):
            seen = self.observed(subject, settled=settled)
            held = self.held(subject, seen)
            if staged is not None:
                assert staged in held
            if uploading is not None:
                described = subject.store.format.describe(pa.array([uploading])).to_pylist()
                assert uploading in held or described[0]["guard"] in seen.open

    def test_a_mark_is_provisional(self, subject: Subject) -> None:
        dead = subject.dead()
        assert subject.usable(dead)
        with subject.store.lock("contract") as held:
            held.begin()
            held.condemn({dead: "a rule"})
            assert not subject.usable(dead)
            assert dead in self.observed(subject).marked
            held.release([dead])
            assert subject.usable(dead)
            assert dead not in self.observed(subject).marked

    def test_a_promoted_mark_is_terminal(self, subject: Subject) -> None:
        dead, live = subject.dead(), subject.live()
        with subject.store.lock("contract") as held:
            held.begin()
            held.condemn({dead: "a rule"})
            assert held.collect([dead, live]) == 0
            assert held.promote() == 1
            held.release([dead])
            assert not subject.usable(dead)
            seen = self.observed(subject)
            assert dead in self.named(seen)
            assert dead not in seen.ids
            subject.swept(dead)
            assert held.collect([dead, live]) == 1
        seen = self.observed(subject)
        assert dead not in self.named(seen)
        assert dead not in seen.marked
        assert live in seen.ids
        assert not subject.usable(dead)

    def test_what_a_ref_names_is_not_marked(self, subject: Subject) -> None:
        ways = subject.live_otherwise()
        named = [subject.live(), *(ways[way] for way in ("branch", "tag") if way in ways)]
        with subject.store.lock("contract") as held:
            held.begin()
            held.condemn(dict.fromkeys(named, "a rule"))
            assert held.promote() == 0
        assert all(map(subject.usable, named))

    def test_a_run_that_stops_takes_its_marks_off(self, subject: Subject) -> None:
        dead = subject.dead()
        with subject.store.lock("contract") as held:
            held.begin()
            held.condemn({dead: "a rule"})
            held.abandon()
            assert subject.usable(dead)
            assert dead not in self.observed(subject).marked
            assert held.promote() == 0

    def test_who_writes_while_a_run_marks_loses_nothing(self, subject: Subject) -> None:
        """A snapshot is made before several writes of the run."""
        dead, revived = subject.dead(), subject.dead()
        written: list[SnapshotId] = []

        def write() -> None:
            if len(written) < INTERRUPTIONS:
                written.append(subject.live())

        store = subject.interrupted(write)
        with store.lock(new_uid()) as held:
            held.begin()
            held.condemn({dead: "a rule", revived: "a rule"})
            held.release([revived])
            assert held.promote() == 1
        live = decide_seen(KEEPS_ALL, self.observed(subject)).live
        assert live.issuperset(written)
        assert all(map(subject.usable, (*written, revived)))
        assert not subject.usable(dead)

    def test_marks_that_were_left_are_taken_off(self, subject: Subject) -> None:
        dead = subject.dead()
        with subject.store.lock("first") as held:
            held.begin()
            held.condemn({dead: "a rule"})
        other = subject.another()
        with other.lock("second") as held:
            held.begin()
            assert subject.usable(dead)
            assert held.promote() == 0

    def test_the_lock_excludes_others(self, subject: Subject) -> None:
        other = subject.another()
        with subject.store.lock("first") as held:
            held.lock.renew()
            held.lock.check()
            try:
                with other.lock("second"):
                    raise AssertionError("two runs hold the lock")
            except Conflict:
                pass
        with other.lock("second"):
            pass

    def test_who_lost_the_lock_changes_nothing(self, subject: Subject) -> None:
        """A run that slept until another run took over notices before it writes."""
        dead, late = subject.dead(), subject.dead()
        first, second = new_uid(), new_uid()
        with subject.store.lock(first) as held:
            held.begin()
            held.condemn({late: "a rule"})
            subject.wait(LOCK_IS_FREE)
            with subject.another().lock(second) as other:
                other.begin()
                other.condemn({dead: "a rule"})
                run = RunRecord(first, "collect", Phase.STARTED, subject.store.clock.now())
                calls: list[Callable[[], object]] = [
                    held.lock.check,
                    held.begin,
                    partial(held.condemn, {late: "a rule"}),
                    partial(held.release, [dead]),
                    held.promote,
                    held.abandon,
                    partial(held.collect, [dead]),
                    partial(held.start, run),
                    partial(held.finish, replace(run, phase=Phase.DONE)),
                ]
                if isinstance(held, HeldQuarantine):
                    calls += [
                        partial(held.set_aside, [dead]),
                        partial(held.restore, second, [dead], complete=True),
                        partial(held.forget, second),
                    ]
                for call in calls:
                    failure_of(LockLost, call)
                assert subject.store.find_run(first) is None
                assert subject.usable(late)
                assert not subject.usable(dead)
                assert other.promote() == 1

    def test_what_reclaim_keeps_is_no_candidate(self, subject: Subject) -> None:
        """Lock, leases, lists and digests: only objects in the folders of runs may be deleted."""
        store, live, dead = subject.store, subject.live(), subject.dead()
        if isinstance(store, HoldsLeases):
            store.take_lease(live, holder="contract", length=timedelta(hours=2))
        run = new_uid()
        store.record_plan(run, "a digest")
        _, place = store.place(run)
        objects, of_runs = subject.objects(), place.removesuffix(f"{run}/")
        with store.lock(run) as held:
            held.begin()
            held.condemn({dead: "a rule"})
            below = store.storage.list(store.format.prefix.rstrip("/"))
            listed = {stored.address for stored in below}
        own = [address for address in sorted(listed - objects) if not address.startswith(of_runs)]
        described = store.format.describe(pa.array(own, pa.string())).to_pylist()
        kinds = {row["kind"] for row in described}
        assert kinds.isdisjoint(store.format.order), dict(zip(own, described, strict=True))

    def test_what_is_missing_stops_a_run(self, subject: Subject) -> None:
        live, dead = subject.live(), subject.dead()
        subject.age()
        subject.lose(live)
        before = subject.objects()
        error = failure_of(ReclaimError, lambda: self.make_plan(subject))
        assert isinstance(error, Corrupt | IncompleteRead)
        assert subject.objects() == before
        assert subject.usable(dead)

    def make_plan(self, subject: Subject) -> None:
        make_plan(subject.store, self.engine(subject), opener=self.opener(subject))

    def test_runs_are_recorded(self, subject: Subject) -> None:
        store, other = subject.store, subject.another()
        started = store.clock.now()
        first, second = new_uid(), new_uid()
        assert store.find_run(first) is None
        with store.lock(first) as held:
            run = RunRecord(first, "collect", Phase.STARTED, started, "somewhere")
            # A run that never started is not recorded as ended.
            held.finish(replace(run, phase=Phase.STOPPED))
            assert other.find_run(first) is None
            held.start(run)
            assert other.find_run(first) == run
            held.finish(replace(run, phase=Phase.DONE, counts=RunCounts(3)))
            held.start(replace(run, counts=RunCounts(3)))
            partial_run = replace(run, phase=Phase.PARTIAL, counts=RunCounts(4))
            held.finish(partial_run)
        assert other.find_run(first) == partial_run
        subject.age()
        later = RunRecord(second, "collect", Phase.DONE, store.clock.now())
        store.add_run(later)
        assert [run.id for run in other.runs()][:2] == [second, first]

    def test_a_plan_is_vouched_for(self, subject: Subject) -> None:
        run = new_uid()
        assert subject.store.recorded_plan(run) is None
        subject.store.record_plan(run, "a digest")
        assert subject.another().recorded_plan(run) == "a digest"
        assert subject.another().recorded_plan(new_uid()) is None

    def test_the_holder_of_the_lock_is_known(self, subject: Subject) -> None:
        run = new_uid()
        assert subject.store.lock_state() is None
        with subject.store.lock(run):
            state = subject.another().lock_state()
            assert state is not None
            assert (state.run, state.process) == (run, Process.current())
            # This very process holds it, and runs.
            failure_of(Refused, lambda: subject.another().release_lock(state))
        assert subject.another().lock_state() is None

    def test_a_plan_has_a_place_of_its_own(self, subject: Subject) -> None:
        places = {subject.store.place(run) for run in ("one", "two")}
        assert len(places) == 2
        for url, prefix in places:
            assert url == subject.store.storage.url
            assert prefix.startswith(subject.store.format.prefix)
            assert prefix.endswith("/")


def _is_in(keys: KeyRange, address: str) -> bool:
    return address.startswith(f"{keys.prefix}/") and address in keys
