"""Whole runs over a store: rules, removal in every order, quarantine, and the way back."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

from reclaim.errors import Refused
from reclaim.model import RunState, SnapshotId
from reclaim.policy import Duration, Match, Policy, Rules
from reclaim.run import plan_snapshots
from reclaim.run.apply import Applied, apply_plan
from reclaim.run.plan import Plan, PlanOptions, make_plan
from reclaim.run.purge import Purged, purge
from reclaim.run.removal import DELETE, MoveToQuarantine, Removal
from reclaim.run.undo import Undone, undo_run
from reclaim.stores.abilities import (
    EditsHistory,
    ExpiresItself,
    KeepsParents,
    Quarantines,
    ReportsRereferenced,
    SetsAside,
    TakesOver,
)
from reclaim.testing.stores.subject import (
    Contract,
    HistorySubject,
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

    def plan(self, subject: Subject, policy: Policy | None = None) -> Plan:
        options = PlanOptions(policy=policy or Policy(), allowed_fraction=1.0)
        storage = subject.store.storage
        return make_plan(subject.store, self.engine(subject), options, opener=lambda _url: storage)

    def apply(
        self, subject: Subject, plan: Plan, removal: Removal = DELETE, *, stop_at: str = ""
    ) -> Applied:
        def step(name: str) -> None:
            if name == stop_at:
                raise _Stopped(name)

        storage = subject.store.storage
        return apply_plan(
            subject.store,
            self.engine(subject, step),
            plan.place,
            removal=removal,
            opener=lambda _url: storage,
        )

    def undo(self, subject: Subject, run: str) -> Undone:
        storage = subject.store.storage
        return undo_run(subject.store, self.engine(subject), run, opener=lambda _url: storage)

    def purge(self, subject: Subject) -> Purged | None:
        storage = subject.store.storage
        return purge(
            subject.store,
            self.engine(subject),
            older_than=timedelta(0),
            opener=lambda _url: storage,
        )

    def dead_by(self, subject: Subject, plan: Plan) -> set[SnapshotId]:
        part = plan.document.snapshots.part
        return set(plan_snapshots.read(subject.store.storage, part).dead)

    def check_dies(self, subject: Subject, plan: Plan, kind: str) -> None:
        """An apply is cut off before it takes anything of a kind."""
        dying = partial(self.apply, subject, plan, stop_at=f"sweep {kind}")
        error = failure_of(Exception, dying)
        assert isinstance(error.__cause__ or error, _Stopped)

    def test_a_run_takes_what_is_dead_and_nothing_else(self, subject: Subject) -> None:
        live, dead = subject.live(), subject.dead()
        subject.age()
        stays, before = set(subject.needs(live)), subject.objects()
        goes = set(subject.needs(dead)) - stays
        plan = self.plan(subject)
        assert dead in self.dead_by(subject, plan)
        assert live not in self.dead_by(subject, plan)
        assert subject.objects() == before
        done = self.apply(subject, plan)
        assert done.collected >= 1
        assert stays <= subject.objects()
        assert not goes & subject.objects()
        assert subject.usable(live)
        assert not subject.usable(dead)
        assert self.plan(subject).document.candidates == 0

    def test_it_is_safe_to_die_before_each_kind(self, subject: Subject) -> None:
        """The order of kinds: what is left by any crash is whole, or unreachable."""
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
            # Whoever looks now can still plan, and whoever goes on comes to the end.
            subject.age()
            self.plan(subject)
            self.apply(subject, plan)
            assert not goes & subject.objects()
            assert stays <= subject.objects()

    def test_rules_take_what_they_say(self, subject: HistorySubject) -> None:
        self.require(subject, EditsHistory, ExpiresItself)
        line = subject.line()
        plan = self.plan(subject, Policy(Rules(older_than=Duration.parse("15d"))))
        going = self.dead_by(subject, plan)
        assert going == {line[0]}
        goes, before = set(subject.needs(line[0])), subject.objects()
        stays = {one for snapshot in line[1:] for one in subject.needs(snapshot)}
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
        self.require(subject, Quarantines, SetsAside)
        store, live, dead = subject.store, subject.live(), subject.dead()
        assert isinstance(store, Quarantines)
        subject.age()
        before = subject.objects()
        needs = before & set(subject.needs(dead))
        plan = self.plan(subject)
        run = self.apply(subject, plan, MoveToQuarantine(WINDOW)).run
        aside = store.format.quarantine_path(run)
        set_aside = {
            store.format.prefix + one.address.removeprefix(aside)
            for one in store.storage.list(aside.rstrip("/"))
        }
        assert before - subject.objects() == set_aside & before
        assert needs - set(subject.needs(live)) <= set_aside
        assert dead in store.taken(run)
        assert not subject.usable(dead)
        back = self.undo(subject, run)
        assert back.snapshots >= 1
        assert subject.objects() == before
        assert subject.usable(dead)
        found = store.find_run(run)
        assert found is not None
        assert (found.state, found.quarantine) == (RunState.UNDONE, None)

    def test_purge_ends_a_quarantine(self, subject: Subject) -> None:
        self.require(subject, Quarantines, SetsAside)
        store, live, dead = subject.store, subject.live(), subject.dead()
        assert isinstance(store, Quarantines)
        subject.age()
        stays = set(subject.needs(live))
        run = self.apply(subject, self.plan(subject), MoveToQuarantine(WINDOW)).run
        purged = self.purge(subject)
        assert purged is not None
        assert (purged.runs, purged.failed) == ([run], 0)
        assert not list(store.storage.list(store.format.quarantine_path(run).rstrip("/")))
        assert not store.taken(run)
        assert not subject.usable(dead)
        assert stays <= subject.objects()

    def test_what_a_run_left_condemned_is_promised_by_the_next(self, subject: Subject) -> None:
        """One that nothing was deleted of comes back with the run that takes it over."""
        self.require(subject, TakesOver)
        subject.live()
        dead = subject.dead()
        subject.age()
        before = subject.objects()
        plan = self.plan(subject)
        kinds = {group.kind for group in plan.document.going}
        self.check_dies(subject, plan, next(k for k in subject.store.format.order if k in kinds))
        assert not subject.usable(dead)
        subject.age()
        run = self.apply(subject, self.plan(subject), MoveToQuarantine(WINDOW)).run
        self.undo(subject, run)
        assert before <= subject.objects()
        assert subject.usable(dead)

    def test_parents_of_promised_snapshots_stay(self, subject: HistorySubject) -> None:
        """Another run deletes neither them nor what they need, for as long as an undo can come."""
        self.require(subject, KeepsParents)
        parent = subject.line()[-1]
        dead = subject.dead()
        subject.age()
        run = self.apply(subject, self.plan(subject), MoveToQuarantine(WINDOW)).run
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
        """Snapshots that came back unreachable are held until the window ends that was promised."""
        self.require(subject, ExpiresItself)
        store, line = subject.store, subject.line()
        assert isinstance(store, ExpiresItself)
        plan = self.plan(subject, Policy(Rules(older_than=Duration.parse("15d"))))
        sentence = store.irreversible()
        assert not sentence or sentence in plan.document.warnings
        needs = set(subject.needs(line[0]))
        run = self.apply(subject, plan, MoveToQuarantine(WINDOW)).run
        back = self.undo(subject, run)
        assert bool(back.left) == bool(sentence)
        subject.age()
        subject.age()
        again = self.plan(subject)
        assert line[0] not in self.dead_by(subject, again)
        self.apply(subject, again)
        assert needs <= subject.objects()
        assert subject.usable(line[0])

    def test_what_is_referred_to_again_comes_back(self, subject: NamingSubject) -> None:
        self.require(subject, ReportsRereferenced)
        store, live, dead = subject.store, subject.live(), subject.dead()
        assert isinstance(store, ReportsRereferenced)
        subject.age()
        needs = subject.objects() & set(subject.needs(dead))
        run = self.apply(subject, self.plan(subject), MoveToQuarantine(WINDOW)).run
        assert not store.needed(run, self.engine(subject))
        subject.name(dead)
        aside = store.format.quarantine_path(run)
        needed = store.needed(run, self.engine(subject))
        assert {aside + one.removeprefix(store.format.prefix) for one in needs} <= set(needed)
        self.purge(subject)
        assert needs | set(subject.needs(live)) <= subject.objects()
