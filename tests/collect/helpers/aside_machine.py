"""The machine of collection, with applies that set aside, and others that meddle with it.

How objects are set aside is the affair of a ``Driver``. What runs took and owe is in a book, which
is kept by reading the storage before and after them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from reclaim.errors import Partial, PlanRefused, Refused
from reclaim.run.apply.applied import Applied
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.sweep.removal import DELETE, MARKED, MoveToQuarantine, Removal
from reclaim.run_record import Phase, RunRecord
from tests.collect.apply.test_machine import FATAL, CollectMachine, Stepping
from tests.collect.helpers.promised import Promises
from tests.collect.helpers.removals import ENABLED, OFF, SUSPENDED, Driver
from tests.collect.helpers.world import addresses_of
from tests.conftest import Backend

DEATHS = FATAL | st.sampled_from(
    ["before set_aside", "after set_aside", "journal.json", "bucket cover", "before restore"]
)
WEEK, HOUR = timedelta(days=7), timedelta(hours=1)
KEEPS = st.sampled_from([WEEK, HOUR])
NOT_KEPT = "it is (off|suspended) here"


class AsideMachine(CollectMachine):
    """Applies that set aside, overlap, die and end halfway."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.removals: dict[str, Removal] = {}
        self.foreign: dict[str, bytes] = {}
        """What somebody else wrote to places from which objects were set aside."""
        self.deleted: dict[str, bytes] = {}
        """What somebody else deleted in a bucket that keeps it."""
        self.applied: Applied | None = None
        super().__init__()

    def make_backend(self, folder: Path) -> Backend:
        return self.driver.backend(folder)

    def start(self) -> None:
        self.promises = Promises(self.world)
        super().start()

    def undo_one(self, run_id: str) -> None:
        """Undo a run, and check what it says."""
        raise NotImplementedError

    # Applying.

    def removal(self, plan: WrittenPlan) -> Removal:
        """Two of three plans are applied with quarantine, and go on as they began."""
        turn = len(self.removals) % 3
        other = DELETE if turn == 2 else self.driver.removal((WEEK, HOUR)[turn])
        return self.removals.setdefault(plan.document.run, other)

    def apply_run(self, plan: WrittenPlan, *, step: Stepping | None = None) -> None:
        run = self.run_of(plan.document.run)
        if self.is_stuck(self.removal(plan).name):
            with pytest.raises(Refused, match=NOT_KEPT):
                self.world.apply(plan, removal=self.removal(plan))
            if run is not None:
                return
            self.removals[plan.document.run] = MoveToQuarantine()
        ended = run is not None and run.phase in (Phase.UNDONE, Phase.PURGED)
        if run is not None and (ended or run.undoing or run.purging):
            # One that died may have the lock still.
            self.world.clock.advance(minutes=12)
            with pytest.raises(PlanRefused, match=r"the plan was applied|begun to"):
                self.world.apply(plan, removal=self.removal(plan))
            return
        self.promises.learn()
        before = self.promises.read(self.world.candidates(plan))
        going_on = self.left_out_as_begun(plan, run)
        with going_on, suppress(Partial), pytest.MonkeyPatch.context() as patch:
            if step:
                self.driver.tell(patch, step)
            super().apply_run(plan, step=step)
        there = self.world.there()
        if self.removal(plan) is not DELETE:
            gone = {home: data for home, data in before.items() if home not in there}
            self.promises.note(plan.document.run, gone)
        # What others wrote may be collected like anything that nothing refers to.
        self.foreign = {home: data for home, data in self.foreign.items() if home in there}
        self.check_report(plan)

    @contextmanager
    def left_out_as_begun(self, plan: WrittenPlan, run: RunRecord | None) -> Iterator[None]:
        """One that is not finished goes on only without what was left out of it before."""
        here = self.left_out
        begun = run.left_out.globs if run and run.unfinished else ()
        if not set(begun) <= set(here):
            # One that died may have the lock still.
            self.world.clock.advance(minutes=12)
            with pytest.raises(PlanRefused, match="this plan was begun with --exclude"):
                self.world.apply(plan, removal=self.removal(plan), exclude=here)
            self.left_out = sorted({*here, *begun})
        try:
            yield
        finally:
            self.left_out = here

    def reported(self, applied: Applied) -> None:
        self.applied = applied

    def check_report(self, plan: WrittenPlan) -> None:
        """An apply tells all that was set aside, also by those before it that were cut off."""
        applied, self.applied = self.applied, None
        if applied is not None and self.removal(plan) is not DELETE:
            taken = self.promises.taken[plan.document.run]
            told = applied.summary()
            # Markers that an apply wrote and did not journal are missing to the next one. And what
            # it took and did not journal is not looked for by one that leaves it out.
            unnoted = told["missing"] if self.removal(plan).name == MARKED else 0
            unnoted += len(taken.keys() & set(self.left_out))
            assert told["objects"] <= len(taken) <= told["objects"] + unnoted

    def run_of(self, run_id: str) -> RunRecord | None:
        return next((run for run in self.repo.runs() if run.id == run_id), None)

    def is_stuck(self, name: str | None) -> bool:
        """Whether runs of a kind can go neither on nor back, because no versions are kept."""
        return name == MARKED and self.driver.versioning != ENABLED

    def aside(self) -> list[str]:
        """The runs that can be undone, the oldest first."""
        runs = [run for run in self.repo.runs() if run.undoable]
        return [
            run.id for run in sorted(runs, key=lambda run: str(run.promised and run.promised.since))
        ]

    @rule(data=st.data(), keep=KEEPS, dies=st.none() | DEATHS, undone=st.booleans())
    def set_aside(
        self, data: st.DataObject, keep: timedelta, dies: int | str | None, undone: bool
    ) -> None:
        """What dies is set aside at once, and may come back at once."""
        self.bury(data)
        self.plan({}, timedelta(0))
        plan = self.plans[-1]
        self.removals[plan.document.run] = self.driver.removal(keep)
        if dies is None:
            self.apply_one(plan)
        else:
            self.die(plan, dies)
        if undone and plan.document.run in self.aside():
            self.undo_one(plan.document.run)

    @rule(data=st.data(), delete=st.booleans())
    def overlap(self, data: st.DataObject, delete: bool) -> None:
        """Two plans of the same, of which the second has the shorter window, or none."""
        self.bury(data)
        for removal in (self.driver.removal(WEEK), DELETE if delete else self.driver.removal(HOUR)):
            self.plan({}, timedelta(0))
            self.removals[self.plans[-1].document.run] = removal
        for plan in self.plans:
            self.apply_one(plan)

    @rule(data=st.data())
    def bury_late(self, data: st.DataObject) -> None:
        """Set aside a dead commit whose data is old and whose containers are young."""
        commit, name = self.model.branches[self.pick(data)[0]].head, self.name("grave")
        branch = self.repo.create_branch(name, commit)
        branch.put("a", name.encode())
        self.reopen()
        self.world.clock.advance(hours=30)
        files = self.model.commits[commit] | {"a": name.encode()}
        self.model.commits[self.repo.branch(name).commit("late").id] = files
        self.repo.delete_branch(name)
        self.plan({}, timedelta(hours=24))
        self.removals[self.plans[-1].document.run] = self.driver.removal(WEEK)
        self.apply_one(self.plans[-1])

    @rule(data=st.data())
    def bury_in_parts(self, data: st.DataObject) -> None:
        """Set aside a dead commit whose containers are old, and whose data somebody renewed."""
        commit, name = self.model.branches[self.pick(data)[0]].head, self.name("grave")
        branch = self.repo.create_branch(name, commit)
        branch.put("a", name.encode())
        made = branch.commit("in parts").id
        self.model.commits[made] = self.model.commits[commit] | {"a": name.encode()}
        self.repo.delete_branch(name)
        self.reopen()
        self.world.clock.advance(hours=30)
        live = set(addresses_of(self.repo, commit))
        for home in addresses_of(self.repo, made) - live:
            if "/branches/" in home:
                self.world.storage.put(home, self.world.storage.get(home))
        self.plan({}, timedelta(hours=24))
        self.removals[self.plans[-1].document.run] = self.driver.removal(WEEK)
        self.apply_one(self.plans[-1])

    @rule(data=st.data(), nth=st.integers(1, 6), keep=KEEPS)
    def ends_halfway(self, data: st.DataObject, nth: int, keep: timedelta) -> None:
        """Some of a plan cannot be taken."""
        self.bury(data)
        self.plan({}, timedelta(0))
        self.removals[self.plans[-1].document.run] = self.driver.removal(keep)
        with pytest.MonkeyPatch.context() as patch:
            self.apply_one(self.plans[-1], step=self.driver.deny(patch, nth))

    @rule(
        data=st.data(),
        which=st.sets(st.integers(0, 9), min_size=1, max_size=3),
        keep=KEEPS,
        dies=st.none() | DEATHS,
    )
    def leave_out(
        self, data: st.DataObject, which: set[int], keep: timedelta, dies: int | str | None
    ) -> None:
        """A person leaves some of what is set aside where it is."""
        self.bury(data)
        self.plan({}, timedelta(0))
        self.removals[self.plans[-1].document.run] = self.driver.removal(keep)
        self.apply_without(which, dies)

    @precondition(lambda self: self.plans)
    @rule(which=st.sets(st.integers(0, 9), min_size=1, max_size=3))
    def leave_out_again(self, which: set[int]) -> None:
        """The same of a plan that may have been applied before."""
        self.apply_without(which, None)

    def apply_without(self, which: set[int], dies: int | str | None) -> None:
        plan = self.plans[-1]
        listed = sorted(self.world.candidates(plan))
        if not listed:
            return
        self.left_out = [listed[one % len(listed)] for one in sorted(which)]
        before = self.world.there().intersection(self.left_out)
        try:
            if dies is None:
                self.apply_one(plan)
            else:
                self.die(plan, dies)
        finally:
            self.left_out = ()
        assert before <= self.world.there()

    @rule()
    def collect(self) -> None:
        """Everything that nothing needs is deleted for good."""
        self.plan({}, timedelta(0))
        self.removals[self.plans[-1].document.run] = DELETE
        self.apply_one(self.plans[-1])

    # What others do.

    @precondition(lambda self: self.promises.taken)
    @rule(which=st.integers(0, 20), same_size=st.booleans())
    def write_to_a_home(self, which: int, same_size: bool) -> None:
        """Somebody writes other bytes to where something was set aside from."""
        homes = self.promises.homes()
        if not homes:
            return
        home, kept = homes[which % len(homes)]
        other = b"!" if kept[:1] == b"?" else b"?"
        self.foreign[home] = other * (len(kept) + (not same_size))
        if not self.driver.write(self.world, home, self.foreign[home]):
            self.promises.lost.add(home)

    @precondition(lambda self: self.foreign)
    @rule()
    def clear_homes(self) -> None:
        """Whoever wrote there takes it away again."""
        for home in self.foreign:
            self.driver.take_away(self.world, home)
        self.foreign.clear()

    @precondition(lambda self: self.driver.versioning == ENABLED and self.promises.waiting)
    @rule(which=st.integers(0, 20))
    def delete_what_was_spared(self, which: int) -> None:
        """Somebody deletes what a run could not take; the bucket keeps its bytes."""
        spared = [one for one in self.promises.spared() if one not in self.foreign]
        if spared:
            home = spared[which % len(spared)]
            self.deleted |= self.promises.drop(home)
            self.world.storage.delete(home)

    @precondition(lambda self: self.driver.versioning is not None)
    @rule(status=st.sampled_from([ENABLED, SUSPENDED]))
    def switch_versioning(self, status: str) -> None:
        if (self.driver.versioning, status) != (OFF, SUSPENDED):
            self.driver.switch(status)
