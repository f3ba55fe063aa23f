"""The contract of the abilities a store declares: for the store, its handle and its format."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pyarrow as pa

from reclaim.errors import Gone, NotFound, ReclaimError
from reclaim.history import Edit, build
from reclaim.history.graph import reachable
from reclaim.ids import new_uid
from reclaim.model import Ref, SnapshotId
from reclaim.policy import Duration, Match, Policy, Rules, evaluate
from reclaim.run_record import Phase, RunRecord
from reclaim.stores.abilities import (
    BY_REF,
    DeletesOnline,
    EditsHistory,
    Examines,
    Expiration,
    ExpiresItself,
    HeldExpiration,
    HeldGuards,
    HistorySeen,
    HoldsLeases,
    KeepsGuards,
    NeedsOtherSnapshots,
    ShowsHistory,
)
from reclaim.stores.base import Held, Store
from reclaim.stores.findings import Level
from reclaim.stores.format import (
    NO_READ,
    OWNED,
    SNAPSHOTS,
    DecodesSnapshots,
    SurveysContainers,
)
from reclaim.stores.registry import check_declared
from reclaim.testing.stores.subject import (
    GuardedSubject,
    HistorySubject,
    LeasingSubject,
    NamingSubject,
    Subject,
    failure_of,
)
from reclaim.testing.stores.taking import TakingContract

REF_RULES = ("delete_expired_tags", "delete_expired_branches")
KNOWN_RULES = frozenset({*Rules.__dataclass_fields__, *REF_RULES, BY_REF})
LENGTH = timedelta(hours=2)
"""The length of leases."""
AGED = Policy(Rules(older_than=Duration.parse("15d")))
_SHORT = Duration.parse("5d")
_LONG = Duration.parse("999d")
KEEPING = {
    "keep_within": Policy(Rules(older_than=_SHORT, keep_within=_LONG)),
    "keep_last": Policy(Rules(older_than=_SHORT, keep_last=99)),
    "keep_hourly": Policy(Rules(older_than=_SHORT, keep_hourly=99)),
    "keep_daily": Policy(Rules(older_than=_SHORT, keep_daily=99)),
    "keep_weekly": Policy(Rules(older_than=_SHORT, keep_weekly=99)),
    BY_REF: Policy(Rules(older_than=_SHORT), ((Match("*"), Rules(older_than=_LONG)),)),
}
"""Rules by name, each of which keeps a whole line where the age alone would not."""


class AbilityContract(TakingContract):
    """The duties of a store that declares an ability."""

    def test_it_declares_what_it_can_do(self, subject: Subject) -> None:
        """As declared when the store is opened by name."""
        check_declared(subject.store)

    def test_what_goes_online_is_counted(self, subject: Subject) -> None:
        self.require(subject, DeletesOnline)
        assert isinstance(subject.store, DeletesOnline)
        online = subject.store.online_deletes()
        assert (online.due, online.oldest, online.late) == (0, None, False)

    # Histories

    def test_a_history_is_edited_whole(self, subject: HistorySubject) -> None:
        self.require(subject, EditsHistory)
        subject.live_otherwise()
        line = subject.line()
        subject.tag("old", line[0])
        with subject.store.lock(new_uid()) as held:
            seen, under = _begin(held, subject.store)
            assert subject.reached() == _reached(seen)
            above, gone = {line[2]: _parents(seen, line[1])}, [_ref(seen, "old")]
            assert under.edit_history(above, gone, seen)
            assert line[1] not in subject.reached()
            assert set(line[::2]) <= subject.reached()
            after = under.read_history()
            assert "old" not in {ref.name for ref in after.refs}
            assert _parents(after, line[2]) == _parents(seen, line[1])

    def test_an_edit_by_an_old_reading_is_not_made(self, subject: HistorySubject) -> None:
        self.require(subject, EditsHistory)
        line = subject.line()
        with subject.store.lock(new_uid()) as held:
            seen, under = _begin(held, subject.store)
            subject.tag("new", line[1])
            assert not under.edit_history({line[2]: _parents(seen, line[1])}, (), seen)
            assert _parents(under.read_history(), line[2]) == (line[1],)

    def test_an_edit_is_rolled_back(self, subject: HistorySubject) -> None:
        self.require(subject, EditsHistory)
        line = subject.line()
        subject.tag("old", line[0])
        run = new_uid()
        with subject.store.lock(run) as held:
            seen, under = _begin(held, subject.store)
            gone = [_ref(seen, "old")]
            assert under.edit_history({line[2]: _parents(seen, line[1])}, gone, seen)
            self.check_editor(subject.store, run)
            assert under.roll_back() == []
            self.check_editor(subject.store, None)
            back = under.read_history()
            assert _parents(back, line[2]) == (line[1],)
            assert "old" in {ref.name for ref in back.refs}
        assert set(line) <= subject.reached()

    def check_editor(self, store: Store, run: str | None) -> None:
        """Check the editor in a read: the run whose edit may still be reverted."""
        if isinstance(store, ShowsHistory):
            assert store.current_history().editor == run

    def test_the_library_does_what_is_predicted(self, subject: HistorySubject) -> None:
        """First with rules alone, then with the refs the library can be asked to delete."""
        self.require(subject, ExpiresItself)
        store = subject.store
        assert isinstance(store, ExpiresItself)
        rules = store.expressible_rules()
        assert "older_than" in rules <= KNOWN_RULES
        subject.live_otherwise()
        line = subject.line()
        subject.tag("old", line[0])
        edit = self.check_predicted(subject, Expiration(AGED, store.clock.now()))
        assert not edit.delete_refs
        assert edit.unreachable
        flags = {name: True for name in REF_RULES if name in rules}
        if flags:
            asked = Expiration(AGED, store.clock.now(), **flags)
            assert self.check_predicted(subject, asked).delete_refs

    def test_the_library_is_not_asked_by_an_old_reading(self, subject: HistorySubject) -> None:
        self.require(subject, ExpiresItself)
        store, line = subject.store, subject.line()
        with store.lock(new_uid()) as held:
            held.begin()
            assert isinstance(held, HeldExpiration)
            seen = held.read_history()
            subject.tag("late", line[0])
            assert not held.expire_by_library(Expiration(AGED, store.clock.now()), seen)
            assert _parents(held.read_history(), line[2]) == (line[1],)
        assert set(line) <= subject.reached()

    def test_a_rule_that_is_expressed_is_kept_to(self, subject: HistorySubject) -> None:
        """Each rule keeps everything, so a library ignoring it would remove more."""
        self.require(subject, ExpiresItself)
        store = subject.store
        assert isinstance(store, ExpiresItself)
        subject.line()
        for name in sorted(store.expressible_rules() & KEEPING.keys()):
            edit = self.check_predicted(subject, Expiration(KEEPING[name], store.clock.now()))
            assert not edit.unreachable

    def check_predicted(self, subject: HistorySubject, asked: Expiration) -> Edit:
        """Let the library run twice, and compare the result with the prediction."""
        store, objects = subject.store, subject.objects()
        assert isinstance(store, ExpiresItself)
        reached = subject.reached()
        with store.lock(new_uid()) as held:
            held.begin()
            assert isinstance(held, HeldExpiration)
            before = held.read_history()
            assert _reached(before) == reached
            history = build(before.snapshots, before.refs)
            kept = evaluate(asked.policy, history, now=asked.now).kept
            edit = store.predict_edit(history, kept, asked)
            held.expire_by_library(asked, before)
            after = held.read_history()
            held.expire_by_library(asked, after)
            again = held.read_history()
        left = reached - set(edit.unreachable)
        assert subject.reached() == left == _reached(after)
        assert {ref.name for ref in after.refs} == {
            ref.name for ref in before.refs if ref not in edit.delete_refs
        }
        for guard in left:
            assert _parents(after, guard) == edit.reparent.get(guard, _parents(before, guard))
        assert (_reached(again), len(again.refs)) == (_reached(after), len(after.refs))
        assert subject.objects() == objects
        return edit

    def test_anybody_can_read_the_history(self, subject: HistorySubject) -> None:
        self.require(subject, ShowsHistory)
        store = subject.store
        assert isinstance(store, ShowsHistory)
        subject.live_otherwise()
        subject.line()
        with subject.another().lock(new_uid()):
            seen = store.current_history()
            assert _reached(seen) == subject.reached()
            assert (seen.count, seen.editor) == (len(seen.snapshots), None)

    def test_a_policy_is_kept(self, subject: Subject) -> None:
        store, another = subject.store, subject.another()
        assert store.stored_policy() is None
        for document in ("", "{}", '{"policy": "keep_last: 3 # \u00e4"}'):
            store.store_policy(document)
            assert another.stored_policy() == document
        another.store_policy(None)
        assert store.stored_policy() is None

    # Leases

    def test_a_lease_is_a_root(self, subject: LeasingSubject) -> None:
        store, dead = subject.store, subject.dead()
        lease = subject.hold(dead, LENGTH)
        assert [(lease_row.id, valid) for lease_row, valid in store.leases()] == [(lease, True)]
        # To the end of the lease, not only for most of it.
        subject.wait(LENGTH - timedelta(minutes=1))
        assert [valid for _, valid in store.leases()] == [True]
        assert dead in {held_lease.snapshot for held_lease in self.observed(subject).leases}
        with store.lock(new_uid()) as held:
            held.begin()
            held.condemn({dead: "a rule"})
            assert held.promote() == 0
        subject.age()
        assert [valid for _, valid in store.leases()] == [False]
        assert not self.observed(subject).leases

    def test_leases_are_taken_renewed_and_given_back(self, subject: Subject) -> None:
        self.require(subject, HoldsLeases)
        store, dead = subject.store, subject.dead()
        assert isinstance(store, HoldsLeases)
        lease = store.take_lease(dead, holder="contract", length=timedelta(hours=2))
        assert (lease.snapshot, lease.holder) == (dead, "contract")
        assert store.renew_lease(lease).length == lease.length
        store.release_lease(lease.id)
        assert store.leases() == []
        failure_of(NotFound, lambda: store.release_lease(lease.id))
        with store.lock(new_uid()) as held:
            held.begin()
            held.condemn({dead: "a rule"})
            failure_of(
                Gone,
                lambda: store.take_lease(dead, holder="late", length=timedelta(hours=2)),
            )
            assert store.leases() == []

    def test_who_leases_late_is_told(self, subject: Subject) -> None:
        """A run condemns just before the lease is written: either must see the other."""
        self.require(subject, HoldsLeases)
        store, dead = subject.store, subject.dead()
        assert isinstance(store, HoldsLeases)
        promoted: list[int] = []

        def condemn() -> None:
            if promoted:
                return
            with subject.another().lock(new_uid()) as held:
                held.begin()
                held.condemn({dead: "a rule"})
                promoted.append(held.promote())

        late = subject.interrupted(condemn)
        assert isinstance(late, HoldsLeases)
        failure_of(Gone, lambda: late.take_lease(dead, holder="late", length=LENGTH))
        assert promoted == [1]
        assert store.leases() == []

    # Snapshots as files, and snapshots that need others

    def test_a_survey_reads_every_snapshot(self, subject: Subject) -> None:
        self.require(subject, DecodesSnapshots)
        store, made = subject.store, {subject.live(), subject.dead()}
        assert isinstance(store.format, DecodesSnapshots)
        ranges = [
            keys
            for keys in store.format.key_ranges(store.storage)
            if store.format.has_snapshots(keys)
        ]
        rows = store.format.survey(store.storage, ranges)
        assert rows.schema.equals(SNAPSHOTS)
        surveyed = {
            stored.address
            for keys in ranges
            for stored in store.storage.list(keys.prefix, after=keys.after, until=keys.until)
        }
        assert set(rows.column("address").to_pylist()) == surveyed
        assert surveyed <= subject.objects()
        assert made <= set(rows.column("id").to_pylist())
        assert not [fault for fault in rows.column("fault").to_pylist() if fault]
        chosen = [
            address
            for snapshot in made
            for address, kind in subject.needs(snapshot).items()
            if kind in ("layer", "snapshot")
        ]
        read = store.format.snapshots(store.storage, chosen)
        assert set(read.column("id").to_pylist()) == made
        subject.lose(min(made))
        lost = store.format.snapshots(store.storage, chosen)
        assert len([fault for fault in lost.column("fault").to_pylist() if fault]) == 1

    def test_a_survey_tells_what_snapshots_list(self, subject: Subject) -> None:
        """Equal to reading each snapshot, which becomes unnecessary."""
        self.require(subject, SurveysContainers)
        store, made = subject.store, {subject.live(), subject.dead()}
        format = store.format
        assert isinstance(format, SurveysContainers)
        if not format.surveys_containers:
            return
        ranges = [keys for keys in format.key_ranges(store.storage) if format.has_snapshots(keys)]
        pieces = list(format.survey_containers(store.storage, ranges))
        rows = pa.concat_tables([rows for rows, _ in pieces])
        surveyed = format.survey(store.storage, ranges)
        assert sorted(rows.to_pylist(), key=str) == sorted(surveyed.to_pylist(), key=str)
        assert all(owned.schema.equals(OWNED) for _, owned in pieces)
        listed: dict[str, list[dict[str, Any]]] = {}
        for _, owned in pieces:
            for row in owned.to_pylist():
                listed.setdefault(row.pop("owner"), []).append(row)
        assert made <= set(rows.column("id").to_pylist())
        assert listed.keys() == set(rows.column("address").to_pylist())
        for owner, of_owner in listed.items():
            own = [row for row in of_owner if row["address"] == owner]
            assert len(own) == 1, f"{owner} must have a single row of its own"
            itself, others = own[0], [row for row in of_owner if row["address"] != owner]
            assert (itself["detail"], itself["entries"]) == (NO_READ, len(others))
            expected = format.containers(store.storage, owner).to_pylist()
            assert sorted(others, key=str) == sorted(expected, key=str)

    def test_what_goes_one_after_the_other_is_ordered(self, subject: NamingSubject) -> None:
        # Taken objects are left out by a join, which keeps no order.
        store = subject.store
        assert not store.format.sequential or isinstance(store, NeedsOtherSnapshots)

    def test_deletes_are_ordered(self, subject: NamingSubject) -> None:
        self.require(subject, NeedsOtherSnapshots)
        store, dead = subject.store, subject.dead()
        assert isinstance(store, NeedsOtherSnapshots)
        assert store.format.sequential
        self.observed(subject)
        below = [address for snapshot in subject.below(dead) for address in subject.needs(snapshot)]
        above = list(subject.needs(dead))
        there = [address for address in (*below, *above) if address in subject.objects()]
        for given in (there, there[::-1]):
            order = list(store.in_order(given, self.engine(subject)))
            assert sorted(order) == sorted(there)
            last_above = max(order.index(address) for address in above if address in there)
            assert last_above < min(order.index(address) for address in below if address in there)

    def test_what_promised_snapshots_need_is_live(self, subject: NamingSubject) -> None:
        self.require(subject, NeedsOtherSnapshots)
        store, dead = subject.store, subject.dead()
        assert isinstance(store, NeedsOtherSnapshots)
        subject.age()
        seen = self.observed(subject)
        assert seen.reached is not None
        assert dead not in seen.reached
        engine, held = self.engine(subject), list(subject.needs(dead))
        kept = store.keep_whole(seen, held, besides=new_uid(), reader=engine)
        assert kept.reached is not None
        assert {dead, *subject.below(dead)} <= kept.reached
        same = store.keep_whole(self.observed(subject), [], besides=new_uid(), reader=engine)
        assert same.reached == seen.reached

    def test_what_is_missing_is_allowed_by_name(self, subject: NamingSubject) -> None:
        self.require(subject, NeedsOtherSnapshots)
        store, live = subject.store, subject.live()
        assert isinstance(store, NeedsOtherSnapshots)
        subject.age()
        subject.lose(min(subject.below(live)))
        failure_of(ReclaimError, lambda: self.observed(subject))
        store.allow_missing()
        assert self.observed(subject).warnings

    # Upkeep

    def test_what_dead_runs_left_is_cleaned(self, subject: Subject) -> None:
        store, dead = subject.store, subject.dead()
        with store.lock(new_uid()) as held:
            held.begin()
            held.condemn({dead: "a rule"})
            other = subject.another()
            # Not during a run.
            other.clean()
            assert not subject.usable(dead)
        store.clean()
        assert subject.usable(dead)

    def test_the_doctor_misses_what_is_lost(self, subject: Subject) -> None:
        self.require(subject, Examines)
        store, live = subject.store, subject.live()
        assert isinstance(store, Examines)
        healthy = list(store.findings(deep=True, advance=None))
        assert not [finding for finding in healthy if finding.level is Level.PROBLEM]
        subject.lose(live)
        findings = list(store.findings(deep=True, advance=None))
        problems = [finding for finding in findings if finding.level is Level.PROBLEM]
        assert problems
        assert all(problem.exit_code and problem.repository for problem in problems)

    # Guards

    def test_what_is_out_of_time_is_ended(self, subject: GuardedSubject) -> None:
        self.require(subject, KeepsGuards)
        guard = subject.overdue()
        # A plan may count it as ended; nobody deletes before it is.
        assert guard in self.observed(subject).closed
        assert guard in self.observed(subject, settled=True).open
        with subject.store.lock(new_uid()) as held:
            held.begin()
            assert isinstance(held, HeldGuards)
            held.close_overdue()
        assert guard in self.observed(subject, settled=True).closed

    def test_what_only_the_storage_knows_is_adopted(self, subject: GuardedSubject) -> None:
        self.require(subject, KeepsGuards)
        store, guard = subject.store, subject.stranger()
        assert isinstance(store, KeepsGuards)
        assert list(store.unknown_guards()) == [guard]
        with store.lock(new_uid()) as held:
            assert isinstance(held, HeldGuards)
            held.adopt([guard])
        assert list(store.unknown_guards()) == []
        assert guard in self.observed(subject).closed

    def test_uploads_that_were_left_can_be_given_up(self, subject: Subject) -> None:
        self.require(subject, KeepsGuards)
        store = subject.store
        assert isinstance(store, KeepsGuards)
        assert list(store.old_uploads()) == []
        assert store.abort_uploads([]) == 0


def _begin(held: Held, store: Store) -> tuple[HistorySeen, EditsHistory]:
    """Return a started run's edits, and the history it sees."""
    assert isinstance(held, EditsHistory)
    held.begin()
    lock = store.lock_state()
    assert lock is not None
    held.start(RunRecord(lock.run, "collect", Phase.STARTED, store.clock.now()))
    return held.read_history(), held


def _reached(seen: HistorySeen) -> set[SnapshotId]:
    history = build(seen.snapshots, seen.refs)
    reached = reachable(history.parents, history.tips)
    return {
        snapshot.id for snapshot, there in zip(history.snapshots, reached, strict=True) if there
    }


def _parents(seen: HistorySeen, snapshot: SnapshotId) -> tuple[SnapshotId, ...]:
    return next(node.parents for node in seen.snapshots if node.id == snapshot)


def _ref(seen: HistorySeen, name: str) -> Ref:
    return next(ref for ref in seen.refs if ref.name == name)
