"""The same machine, with applies that set aside, undos and purges among everything else.

The dictionaries do not change by any of them: what a ref, a lease or staging reaches reads back.
Runs overlap, die, end halfway, and are undone in any order and more than once, while others write
to where something was set aside from. An undo that says it is done has brought every commit and
byte back; one that does not names what is missing, and can be done again. ``RECLAIM_SOAK=1`` makes
it run for long.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from reclaim.catalog.database.schema import CommitState, commits
from reclaim.errors import Conflict, Partial, PlanRefused, StorageDenied
from reclaim.model import RunState
from reclaim.run.plan import Plan
from reclaim.run.removal import DELETE, Move, Way
from reclaim.testing.faults import FaultyStorage
from tests.catalog import raw
from tests.collect.test_machine import EXAMPLES, FATAL, STEPS, CollectMachine, Stepping, writes
from tests.collect.world import NAME, At, stepped, whole
from tests.dying import Died

POINTS = st.sampled_from(
    ["before begin", "sweep quarantine", "before taken", "before restore", "after restore"]
)


class QuarantineMachine(CollectMachine):
    def __init__(self) -> None:
        self.ways: dict[str, Way] = {}
        self.foreign: dict[str, bytes] = {}
        """What somebody else wrote to places from which objects were set aside."""
        super().__init__()

    def teardown(self) -> None:
        try:
            self.clear_homes()
            self.world.clock.advance(hours=1)
            self.work(lambda **how: self.world.purge(timedelta(0), **how))
        finally:
            super().teardown()

    def way(self, plan: Plan) -> Way:
        """Two of three plans are applied with quarantine, and go on as they began."""
        other = DELETE if len(self.ways) % 3 == 2 else Move()
        return self.ways.setdefault(plan.document.run, other)

    def apply_run(self, plan: Plan, *, step: Stepping | None = None) -> None:
        ended = (RunState.UNDONE, RunState.PURGED)
        run = next((run for run in self.repo.runs() if run.id == plan.document.run), None)
        if run is not None and (run.state in ended or run.undoing):
            # One that died may have the lock still.
            self.world.clock.advance(minutes=12)
            with pytest.raises(PlanRefused, match=r"already|begun to be undone"):
                self.world.apply(plan, way=self.way(plan))
            return
        with suppress(Partial):
            super().apply_run(plan, step=step)
        # What others wrote may be collected like anything that nothing refers to.
        there = self.world.there()
        self.foreign = {home: data for home, data in self.foreign.items() if home in there}

    def aside(self) -> list[str]:
        """The runs that can be undone."""
        return [run.id for run in self.repo.runs() if run.quarantine]

    def work(self, run: Callable[..., object], step: Stepping | None = None) -> object:
        """Undo or purge, when the lock of one that died is over; None if it dies too."""
        world, take = self.world, step or (lambda *_: None)
        catalog = world.opened()
        storage = FaultyStorage(world.storage, writes(take)) if step else world.storage
        try:
            return run(store=stepped(world.store(catalog), take), step=take, storage=storage)
        except Died:
            return None
        except Conflict as error:
            if "is working on this repository" not in str(error):
                raise
        finally:
            catalog.close()
        world.clock.advance(minutes=12)
        return self.work(run, step)

    def undo_one(self, run: str, step: Stepping | None = None) -> None:
        taken = {
            row.id
            for row in raw.rows(self.repo, commits)
            if row.run_id == run and row.state == CommitState.QUARANTINED
        }
        partial: Partial | None = None
        try:
            done = self.work(lambda **how: self.world.undo(run, **how), step)
        except Partial as error:
            done = partial = error
        named = partial.details["waits"] if partial else []
        if partial:
            assert run in self.aside()
            assert named or partial.details["failed"]
        self.check()
        for home, data in self.foreign.items():
            assert self.world.storage.get(home) == data
        if done is None:
            return
        with self.world.opened() as catalog:
            repo = catalog.repository(NAME)
            for commit in taken:
                if not any(left.startswith(f"commit {commit}:") for left in named):
                    assert whole(repo, commit) == self.model.commits[commit]

    @precondition(lambda self: self.world.aside())
    @rule(which=st.integers(0, 20), same_size=st.booleans())
    def write_to_a_home(self, which: int, same_size: bool) -> None:
        """Somebody writes other bytes to where something was set aside from."""
        world = self.world
        homes = sorted(world.aside() - world.there())
        if not homes:
            return
        home = homes[which % len(homes)]
        sizes = {
            one.address.partition("/quarantine/")[2].partition("/")[2]: one.size
            for one in world.storage.list(f"repos/{world.repo.uid}/_reclaim/quarantine")
        }
        size = sizes[home.removeprefix(f"repos/{world.repo.uid}/")]
        self.foreign[home] = b"?" * (size if same_size else size + 1)
        world.storage.put(home, self.foreign[home])

    @precondition(lambda self: self.foreign)
    @rule()
    def clear_homes(self) -> None:
        """Whoever wrote there takes it away again."""
        for home in self.foreign:
            self.world.storage.delete(home)
        self.foreign.clear()

    @rule(data=st.data(), nth=st.integers(1, 6))
    def ends_halfway(self, data: st.DataObject, nth: int) -> None:
        """Some of a plan cannot be moved."""
        self.bury(data)
        self.plan({}, timedelta(0))
        self.ways[self.plans[-1].document.run] = Move()

        moves = 0

        def stuck(step: str) -> None:
            nonlocal moves
            kind, _, address = step.partition(" ")
            moves += kind == "move"
            if kind == "move" and moves % 6 == nth % 6:
                raise StorageDenied(f"cannot move {address}")

        self.apply_one(self.plans[-1], step=stuck)

    @precondition(lambda self: self.aside())
    @rule(
        data=st.data(),
        how=st.sampled_from(["whole", "whole", "dies", "races"]),
        fatal=FATAL,
        point=POINTS,
        what=st.integers(0, 6),
    )
    def undo(self, data: st.DataObject, how: str, fatal: int, point: str, what: int) -> None:
        run = data.draw(st.sampled_from(self.aside()), label="run")
        if how == "dies":
            self.die_in(lambda step: self.undo_one(run, step), fatal)
        elif how == "races":
            self.undo_one(run, At(point, lambda: self.revive(data, what)))
        else:
            self.undo_one(run)

    @rule(data=st.data(), options=st.just({}), undone=st.booleans())
    def set_aside(self, data: st.DataObject, options: dict[str, str], undone: bool) -> None:
        """What dies is set aside at once, and may come back at once."""
        self.bury(data)
        self.plan(options, timedelta(0))
        run = self.plans[-1].document.run
        self.ways[run] = Move()
        self.apply_one(self.plans[-1])
        if undone and run in self.aside():
            self.undo_one(run)

    @precondition(lambda self: self.aside())
    @rule(older=st.sampled_from([timedelta(0), timedelta(days=1)]), dies=st.booleans(), fatal=FATAL)
    def purge(self, older: timedelta, dies: bool, fatal: int) -> None:
        before = self.world.there()
        self.foreign.clear()

        def work(step: Stepping | None) -> None:
            self.work(lambda **how: self.world.purge(older, **how), step)

        if dies:
            self.die_in(work, fatal)
        else:
            work(None)
        # What is in quarantine is nowhere else, so that a purge takes nothing that is in use.
        assert self.world.there() == before
        self.check()


TestQuarantineMachine = QuarantineMachine.TestCase
TestQuarantineMachine.settings = settings(
    settings.default, max_examples=EXAMPLES // 3, stateful_step_count=STEPS
)
