"""The same machine, with applies that set aside, undos and purges among everything else.

The dictionaries do not change by any of them: what a ref, a lease or staging reaches reads back.
What an undo brought back reads as it did before, or is named. ``RECLAIM_SOAK=1`` makes it run for
long.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from reclaim.catalog.schema import CommitState, commits
from reclaim.errors import Conflict, PlanRefused
from reclaim.model import RunState
from reclaim.run.plan import Plan
from reclaim.run.undo import Undone
from reclaim.run.ways import DELETE, Move, Way
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
        super().__init__()

    def teardown(self) -> None:
        try:
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
        if any(run.id == plan.document.run and run.state in ended for run in self.repo.runs()):
            # One that died may have the lock still.
            self.world.clock.advance(minutes=12)
            with pytest.raises(PlanRefused, match="already"):
                self.world.apply(plan, way=self.way(plan))
            return
        super().apply_run(plan, step=step)

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
        done = self.work(lambda **how: self.world.undo(run, **how), step)
        self.check()
        if not isinstance(done, Undone):
            return
        with self.world.opened() as catalog:
            repo = catalog.repository(NAME)
            for commit in taken:
                if not any(left.startswith(f"commit {commit}:") for left in done.left):
                    assert whole(repo, commit) == self.model.commits[commit]

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
