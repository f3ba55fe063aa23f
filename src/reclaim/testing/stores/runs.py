"""Whole runs over a store: rules, removal in every order, quarantine and undo."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial

from reclaim.engine.tasks.parts import read_part
from reclaim.errors import InvalidInput, Partial, ReclaimError, Refused
from reclaim.ids import new_uid
from reclaim.model import SnapshotId
from reclaim.policy import Duration, Match, Policy, Rules
from reclaim.run.apply.applied import Applied
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.plan import plan_snapshots
from reclaim.run.plan.planning import PlanOptions, WrittenPlan, make_plan
from reclaim.run.purge.purge import Purged, purge
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine, Removal
from reclaim.run.undo.undo_run import Undone, undo_run
from reclaim.run_record import Phase
from reclaim.storage import ObjectStorage
from reclaim.stores.abilities import (
    EditsHistory,
    ExpiresItself,
    HeldQuarantine,
    KeepsBackups,
    KeepsParents,
    NeedsMoreOnceEdited,
    Quarantines,
    ReportsRereferenced,
)
from reclaim.testing.stores.subject import (
    BackupSubject,
    Contract,
    EditedSubject,
    HistorySubject,
    LibrarySubject,
    NamingSubject,
    Subject,
    failure_of,
)

WINDOW = timedelta(days=7)
INEXPRESSIBLE = {
    "keep_last": Policy(Rules(keep_last=1)),
    "keep_within": Policy(Rules(keep_within=Duration.parse("1d"))),
    "rules by ref": Policy(Rules(), ((Match("none"), Rules(older_than=Duration.parse("1d"))),)),
}


class _Stopped(Exception):
    """The process dies."""


class RunContract(Contract):
    """The duties of a store towards runs."""

    def plan(self, subject: Subject, policy: Policy | None = None) -> WrittenPlan:
        options = PlanOptions(policy=policy or Policy(), allowed_fraction=1.0)
        return make_plan(subject.store, self.engine(subject), options, opener=self.opener(subject))

    def apply(
        self,
        subject: Subject,
        plan: WrittenPlan,
        removal: Removal = DELETE,
        *,
        stop_at: str = "",
        exclude: Sequence[str] = (),
    ) -> Applied:
        def step(name: str) -> None:
            if name == stop_at:
                raise _Stopped(name)

        return apply_plan(
            subject.store,
            self.engine(subject, step),
            plan.place,
            removal=removal,
            exclude=exclude,
            opener=self.opener(subject),
        )

    def quarantine(self, subject: Subject, policy: Policy | None = None) -> str:
        """Plan and apply with quarantine. Return the run."""
        return self.apply(subject, self.plan(subject, policy), MoveToQuarantine(WINDOW)).run

    def undo(
        self, subject: Subject, run: str, step: Callable[[str], None] = lambda _step: None
    ) -> Undone:
        opener = self.opener(subject)
        return undo_run(subject.store, self.engine(subject, step), run, opener=opener)

    def purge(self, subject: Subject) -> Purged | None:
        return purge(
            subject.store,
            self.engine(subject),
            older_than=timedelta(0),
            opener=self.opener(subject),
        )

    def dead_by(self, subject: Subject, plan: WrittenPlan) -> set[SnapshotId]:
        part = plan.document.snapshots.part
        return set(plan_snapshots.read(subject.store.storage, part).dead)

    def check_dies(self, subject: Subject, plan: WrittenPlan, kind: str) -> None:
        """Check an apply interrupted before the first object of a kind."""
        dying = partial(self.apply, subject, plan, stop_at=f"sweep {kind}")
        error = failure_of(Exception, dying)
        assert isinstance(error.__cause__ or error, _Stopped)

    def test_a_run_takes_what_is_dead_and_nothing_else(self, subject: Subject) -> None:
        living = [*subject.live_otherwise().values(), subject.live()]
        dead = subject.dead()
        subject.age()
        stays = {address for live in living for address in subject.needs(live)}
        before = subject.objects()
        goes = set(subject.needs(dead)) - stays
        plan = self.plan(subject)
        assert dead in self.dead_by(subject, plan)
        assert self.dead_by(subject, plan).isdisjoint(living)
        assert subject.objects() == before
        done = self.apply(subject, plan)
        assert done.collected >= 1
        assert stays <= subject.objects()
        assert not goes & subject.objects()
        assert all(map(subject.usable, living))
        assert not subject.usable(dead)
        assert self.plan(subject).document.candidates == 0

    def test_it_is_safe_to_die_before_each_kind(self, subject: Subject) -> None:
        """The order of kinds: snapshots left by any crash are complete or unreachable."""
        live = subject.live()
        stays = set(subject.needs(live))
        for kind in subject.store.format.order:
            dead = subject.dead()
            goes = set(subject.needs(dead)) - stays
            subject.age()
            plan = self.plan(subject)
            if kind not in {group.kind for group in plan.document.going}:
                continue
            self.check_dies(subject, plan, kind)
            assert stays <= subject.objects()
            assert not subject.usable(dead)
            # A new plan is still possible, and repeating the run finishes it.
            subject.age()
            self.plan(subject)
            self.apply(subject, plan)
            assert not goes & subject.objects()
            assert stays <= subject.objects()

    def test_what_is_left_out_stays_until_the_next_run(self, subject: Subject) -> None:
        """An object of each kind is left out, of a deleted snapshot."""
        live = subject.live()
        stays = set(subject.needs(live))
        for kind in subject.store.format.order:
            dead = subject.dead()
            subject.age()
            plan = self.plan(subject)
            goes = {
                address: of for address, of in subject.needs(dead).items() if address not in stays
            }
            there = goes.keys() & subject.objects()
            left_out = sorted(address for address in there if goes[address] == kind)[:1]
            if not left_out:
                self.apply(subject, plan)
                continue
            done = self.apply(subject, plan, exclude=left_out)
            assert set(left_out) <= subject.objects()
            assert done.left_out.objects == 1
            assert stays <= subject.objects()
            assert subject.usable(live)
            assert self.plan(subject).document.candidates
            self.apply(subject, self.plan(subject))
            assert not goes.keys() & subject.objects()
            assert stays <= subject.objects()

    def test_rules_take_what_they_say(self, subject: HistorySubject) -> None:
        self.require(subject, EditsHistory, ExpiresItself)
        line = subject.line()
        plan = self.plan(subject, Policy(Rules(older_than=Duration.parse("15d"))))
        going = self.dead_by(subject, plan)
        assert going == {line[0]}
        goes, before = set(subject.needs(line[0])), subject.objects()
        stays = {address for snapshot in line[1:] for address in subject.needs(snapshot)}
        done = self.apply(subject, plan)
        assert (done.unplanned, done.spared) == (0, 0)
        assert going.isdisjoint(subject.reached())
        assert set(line[1:]) <= subject.reached()
        assert before - subject.objects() >= goes - stays
        assert stays <= subject.objects()

    def test_a_rule_that_cannot_be_expressed_is_refused(self, subject: HistorySubject) -> None:
        self.require(subject, ExpiresItself)
        subject.line()
        store = subject.store
        assert isinstance(store, ExpiresItself)
        for name, policy in INEXPRESSIBLE.items():
            if name in store.expressible_rules() or issubclass(store.handle, EditsHistory):
                continue
            refused = failure_of(Refused, partial(self.plan, subject, policy))
            assert name in refused.message
            assert refused.hint

    def test_quarantine_has_a_way_back(self, subject: Subject) -> None:
        self.require(subject, Quarantines)
        store, live, dead = subject.store, subject.live(), subject.dead()
        assert isinstance(store, Quarantines)
        subject.age()
        before = subject.objects()
        needs = before & set(subject.needs(dead))
        run = self.quarantine(subject)
        quarantine = store.format.quarantine_path(run)
        set_aside = {
            store.format.prefix + stored.address.removeprefix(quarantine)
            for stored in store.storage.list(quarantine.rstrip("/"))
        }
        assert before - subject.objects() == set_aside & before
        assert needs - set(subject.needs(live)) <= set_aside
        assert dead in store.taken(run)
        assert not subject.usable(dead)
        seen = self.observed(subject)
        assert dead not in {*seen.ids, *seen.marked}
        assert not [kind for kind, addresses in seen.containers.items() if dead in addresses]
        steps: list[str] = []
        back = self.undo(subject, run, steps.append)
        # In the journal of the run, named by its record.
        assert "recall" in steps
        assert back.snapshots >= 1
        assert subject.objects() == before
        assert subject.usable(dead)
        record = store.find_run(run)
        assert record is not None
        assert (record.phase, record.quarantine) == (Phase.UNDONE, None)

    def test_another_run_leaves_what_was_promised(self, subject: Subject) -> None:
        """Objects left by a run because of their age, of a snapshot it took, stay in the next
        run."""
        self.require(subject, Quarantines)
        store = subject.store
        assert isinstance(store, Quarantines)
        old = subject.dead()
        subject.age()
        dead = [old, subject.dead()]
        subject.wait(timedelta(minutes=1))
        needs = {snapshot: subject.objects() & set(subject.needs(snapshot)) for snapshot in dead}
        run = self.quarantine(subject)
        promised = [snapshot for snapshot in dead if snapshot in store.taken(run)]
        assert old in promised
        subject.age()
        self.apply(subject, self.plan(subject))
        self.undo(subject, run)
        for snapshot in promised:
            assert needs[snapshot] <= subject.objects()
            assert subject.usable(snapshot)

    def test_two_quarantines_are_apart(self, subject: Subject) -> None:
        self.require(subject, Quarantines)
        store, runs = subject.store, []
        dead = []
        for _ in range(2):
            dead.append(subject.dead())
            subject.age()
            runs.append(self.quarantine(subject))
        folders = [store.format.quarantine_path(run).rstrip("/") for run in runs]
        contents = [{stored.address for stored in store.storage.list(folder)} for folder in folders]
        assert all(contents)
        assert contents[0].isdisjoint(contents[1])
        self.undo(subject, runs[0])
        assert subject.usable(dead[0])
        assert not subject.usable(dead[1])
        assert {stored.address for stored in store.storage.list(folders[1])} == contents[1]
        self.undo(subject, runs[1])
        assert all(map(subject.usable, dead))

    def test_a_part_can_come_back_before_the_rest(self, subject: Subject) -> None:
        """Complete snapshots come back, incomplete ones wait, and in the end everything is back."""
        self.require(subject, Quarantines)
        store, (parent, child), dead = subject.store, subject.dead_pair(), subject.dead()
        subject.age()
        parents = {node.id: node.parents for node in self.observed(subject).snapshots}
        others = {*subject.needs(child), *subject.needs(dead)}
        before, own = subject.objects(), set(subject.needs(parent)) - others
        run = self.quarantine(subject)
        quarantine = store.format.quarantine_path(run)
        lost = quarantine + min(own & before).removeprefix(store.format.prefix)
        elsewhere = f"{store.format.prefix.rstrip('/')}-lost/object"
        storage = ObjectStorage.open(store.storage.url)
        size = storage.head(lost).size
        storage.move(lost, elsewhere, size=size)
        failure_of(Partial, partial(self.undo, subject, run))
        assert subject.usable(dead)
        assert not subject.usable(parent)
        record = store.find_run(run)
        assert record is not None
        assert record.quarantine
        assert record.phase == Phase.UNDOING
        storage.move(elsewhere, lost, size=size)
        self.undo(subject, run)
        assert subject.objects() == before
        assert all(map(subject.usable, (parent, child, dead)))
        assert {node.id: node.parents for node in self.observed(subject).snapshots} == parents

    def test_an_undo_that_is_not_complete_goes_on(self, subject: Subject) -> None:
        """Snapshots may be back before the last object is; until then the run is not undone."""
        self.require(subject, Quarantines)
        store, dead = subject.store, subject.dead()
        assert isinstance(store, Quarantines)
        subject.age()
        before = subject.objects()
        run = self.quarantine(subject)
        with store.lock(run) as held:
            assert isinstance(held, HeldQuarantine)
            held.begin()
            held.restore(run, list(store.taken(run)), complete=False)
        record = store.find_run(run)
        assert record is not None
        assert record.phase != Phase.UNDONE
        self.undo(subject, run)
        assert subject.objects() == before
        assert subject.usable(dead)

    def test_purge_ends_a_quarantine(self, subject: Subject) -> None:
        self.require(subject, Quarantines)
        store, live, dead = subject.store, subject.live(), subject.dead()
        assert isinstance(store, Quarantines)
        subject.age()
        stays = set(subject.needs(live))
        run = self.quarantine(subject)
        purged = self.purge(subject)
        assert purged is not None
        assert (purged.runs, purged.failed) == ([run], 0)
        assert not list(store.storage.list(store.format.quarantine_path(run).rstrip("/")))
        assert not store.taken(run)
        with store.lock(new_uid()) as held:
            # Nothing of it comes back with the next run.
            held.begin()
        assert not subject.usable(dead)
        assert dead not in self.observed(subject).ids
        assert stays <= subject.objects()

    def test_what_a_run_left_condemned_is_promised_by_the_next(self, subject: Subject) -> None:
        """A condemned snapshot without deleted objects comes back with the run that takes it
        over."""
        self.require(subject, Quarantines)
        subject.live()
        dead = subject.dead()
        subject.age()
        before = subject.objects()
        plan = self.plan(subject)
        kinds = {group.kind for group in plan.document.going}
        self.check_dies(subject, plan, next(k for k in subject.store.format.order if k in kinds))
        assert not subject.usable(dead)
        subject.age()
        run = self.quarantine(subject)
        self.undo(subject, run)
        assert before <= subject.objects()
        assert subject.usable(dead)

    def test_parents_of_promised_snapshots_stay(self, subject: HistorySubject) -> None:
        """Another run deletes neither the parents nor their objects, as long as an undo is
        possible."""
        self.require(subject, KeepsParents)
        parent = subject.line()[-1]
        dead = subject.dead()
        subject.age()
        run = self.quarantine(subject)
        needs = set(subject.needs(parent))
        subject.line()
        plan = self.plan(subject, Policy(Rules(older_than=Duration.parse("15d"))))
        assert plan.document.candidates
        self.apply(subject, plan)
        assert needs <= subject.objects()
        self.undo(subject, run)
        assert subject.usable(dead)
        assert subject.usable(parent)

    def test_an_edit_that_cannot_be_undone_leaves_time(self, subject: HistorySubject) -> None:
        """Restored but unreachable snapshots are held until the end of the promised window.

        Each of them: the library may cut the links to the others.
        """
        self.require(subject, ExpiresItself)
        store, line, dead = subject.store, subject.line(), subject.dead_pair()
        assert isinstance(store, ExpiresItself)
        aged = Policy(Rules(older_than=Duration.parse("15d")))
        plan = self.plan(subject, aged)
        sentence = store.irreversible()
        assert not sentence or sentence in plan.document.warnings
        returned = (*dead, *line[:2])
        needs = {address for snapshot in returned for address in subject.needs(snapshot)}
        run = self.apply(subject, plan, MoveToQuarantine(WINDOW)).run
        assert subject.reached().isdisjoint(returned)
        back = self.undo(subject, run)
        assert bool(back.left) == bool(sentence)
        assert sentence or set(line) <= subject.reached()
        # To give the library work again.
        subject.live()
        subject.wait(WINDOW - timedelta(hours=1))
        for policy in (aged, None):
            again = self.plan(subject, policy)
            assert self.dead_by(subject, again).isdisjoint(returned)
            self.apply(subject, again)
        assert needs <= subject.objects()
        assert all(map(subject.usable, returned))

    def test_a_library_that_is_missing_is_told(self, subject: LibrarySubject) -> None:
        """Before any edit, and only for callers that need the library."""
        self.require(subject, ExpiresItself)
        subject.line()
        aged = Policy(Rules(older_than=Duration.parse("15d")))
        before, plan = subject.reached(), self.plan(subject, aged)
        with subject.without_library():
            for call in (partial(self.plan, subject, aged), partial(self.apply, subject, plan)):
                assert failure_of(ReclaimError, call).hint
            self.plan(subject)
        assert subject.reached() == before
        assert self.apply(subject, self.plan(subject, aged)).edit.released == 1

    def test_what_is_needed_once_edited_is_not_named(self, subject: EditedSubject) -> None:
        self.require(subject, NeedsMoreOnceEdited)
        line = subject.line()
        subject.age()
        before = subject.objects()
        plan = self.plan(subject, Policy(Rules(older_than=Duration.parse("35d"))))
        storage = subject.store.storage
        named = {
            address
            for file in plan.document.files
            for address in read_part(storage, file.part).column("address").to_pylist()
        }
        done = self.apply(subject, plan)
        assert done.summary()["objects"] == len(named) > 0
        assert before - subject.objects() == named
        assert set(subject.needs_besides(line[-1])) <= subject.objects()

    def test_old_backups_go_on_request(self, subject: BackupSubject) -> None:
        """Except backups needed by the store's own log, now or after further operations."""
        self.require(subject, KeepsBackups)
        store = subject.store
        assert isinstance(store, KeepsBackups)
        for _ in range(12):
            subject.live()
        subject.age()
        backups, log = subject.backups(), subject.operations()
        if not backups:
            assert failure_of(InvalidInput, store.collect_backups).hint
            return
        self.apply(subject, self.plan(subject))
        assert backups <= subject.backups()
        store.collect_backups()
        self.apply(subject, self.plan(subject))
        assert backups - subject.backups()
        for _ in range(3):
            subject.live()
            assert list(subject.operations())[-len(log) :] == list(log)

    def test_what_is_referred_to_again_comes_back(self, subject: NamingSubject) -> None:
        self.require(subject, ReportsRereferenced)
        store, live, dead = subject.store, subject.live(), subject.dead()
        assert isinstance(store, ReportsRereferenced)
        subject.age()
        needs = subject.objects() & set(subject.needs(dead))
        run = self.quarantine(subject)
        assert not store.needed(run, self.engine(subject))
        moved = needs - subject.objects()
        assert moved
        subject.name(dead)
        quarantine = store.format.quarantine_path(run)
        needed = store.needed(run, self.engine(subject))
        assert {quarantine + address.removeprefix(store.format.prefix) for address in moved} <= set(
            needed
        )
        self.purge(subject)
        assert needs | set(subject.needs(live)) <= subject.objects()
