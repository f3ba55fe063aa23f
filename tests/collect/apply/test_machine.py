"""Everything together: writers, readers and collectors in any order, held to plain dictionaries.

The model knows what every commit and branch shows. Reachability is worked out here from the rows.
After every run: what a ref, a lease or staging reaches reads back its bytes, and every deletion was
in the plan. At the end of each example, after a quiet run, nothing else survives and a second run
finds nothing.

Rules are few and wide, so that between a plan and its apply something happens to what is dead.
``RECLAIM_SOAK=1`` makes it run for long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from reclaim.catalog.collection import locks
from reclaim.errors import ClockSkew, Conflict
from reclaim.policy import from_options
from reclaim.run.apply.applied import Applied
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.sweep.removal import DELETE, Removal
from reclaim.stores.observation import Margins
from reclaim.testing.faults import FaultyStorage
from tests.collect.helpers.world import At, Interrupting, stepped
from tests.collect.helpers.writers import BYTES, PATHS, POLICIES, WriterMachine
from tests.support.dying import Countdown, Died, Reached
from tests.support.soak import SOAK

Stepping = Callable[..., None]
EXAMPLES, STEPS = (3_000, 40) if SOAK else (8, 15)
MARGINS = st.sampled_from([timedelta(0), timedelta(0), timedelta(0), timedelta(hours=24)])
POINTS = st.sampled_from(
    [
        "before observe",
        "before condemn",
        "after condemn",
        "after observe",
        "confirm",
        "before promote",
        "after promote",
        "sweep data",
        "sweep range",
        "before collect",
    ]
)
FATAL = st.integers(1, 60)


class CollectMachine(WriterMachine):
    def __init__(self) -> None:
        super().__init__()
        self.plans: list[WrittenPlan] = []

    def teardown(self) -> None:
        try:
            self.check()
            self.world.clock.advance(hours=1)
            self.world.margins = Margins()
            self.world.quiet()
            self.check()
        finally:
            self.close()

    @rule(options=POLICIES, margin=MARGINS)
    def plan(self, options: dict[str, Any], margin: timedelta) -> None:
        """Plan with nothing in the way: what was written lies in closed partitions."""
        self.reopen()
        self.make_plan(options, margin)

    def make_plan(self, options: dict[str, Any], margin: timedelta) -> None:
        world = self.world
        world.clock.advance(minutes=1)
        world.margins = Margins(margin, margin, timedelta(days=365))
        before = world.there()
        plan = world.plan(from_options(**options), allowed_fraction=1.0)
        assert world.there() == before
        if not options:
            assert not set(world.candidates(plan)) & world.needed()
        self.plans = [*self.plans[-1:], plan]

    @rule(
        data=st.data(),
        options=POLICIES,
        deeds=st.lists(st.integers(0, 6), min_size=1, max_size=2),
        how=st.sampled_from(["whole", "dies", "races"]),
        fatal=FATAL,
        point=POINTS,
    )
    def between(
        self,
        data: st.DataObject,
        options: dict[str, Any],
        deeds: list[int],
        how: str,
        fatal: int,
        point: str,
    ) -> None:
        """What dies before a plan comes back after it, and then the plan is applied."""
        self.bury(data)
        self.plan(options, timedelta(0))
        for what in deeds:
            self.revive(data, what)
        if how == "whole":
            self.apply_one(self.plans[-1])
        elif how == "dies":
            self.die(self.plans[-1], fatal)
        else:
            self.apply_races(data, point, 1, deeds[0])

    def bury(self, data: st.DataObject) -> None:
        """Make commits that nothing reaches."""
        commit, name = self.model.branches[self.pick(data)[0]].head, self.name("grave")
        branch = self.repo.create_branch(name, commit)
        files = dict(self.model.commits[commit])
        for path in ("a", "b/x"):
            files[path] = f"{name} {path}".encode()
            branch.put(path, files[path])
            self.model.commits[branch.commit("dies").id] = dict(files)
        self.repo.delete_branch(name)

    def pick_plan(self, data: st.DataObject) -> WrittenPlan:
        return self.plans[data.draw(st.integers(0, len(self.plans) - 1), label="plan")]

    @precondition(lambda self: self.plans)
    @rule(data=st.data())
    def apply(self, data: st.DataObject) -> None:
        self.apply_one(self.pick_plan(data))

    @rule(
        data=st.data(),
        path=PATHS,
        content=BYTES,
        folder=st.sampled_from(["branches", "meta"]),
        minutes=st.sampled_from([1, 14, 20]),
    )
    def collect_in_the_middle(
        self, data: st.DataObject, path: str, content: bytes, folder: str, minutes: int
    ) -> None:
        """A whole run goes by while an object or a container has been written and not more."""

        def collect() -> None:
            self.world.clock.advance(minutes=minutes)
            self.make_plan({}, timedelta(0))
            self.apply_run(self.plans[-1])

        name, model, _ = self.pick(data)
        self.reopen(lambda storage: Interrupting(storage, f"/{folder}/", collect))
        self.repo.branch(name).put(path, content)
        model.files[path] = content
        if folder == "meta":
            # One that stands still for five minutes takes its own delay for a wrong clock.
            with suppress(ClockSkew):
                self.commit_on(model, self.repo.branch(name))
        self.reopen()
        self.check()

    @precondition(lambda self: self.plans)
    @rule(data=st.data(), fatal=FATAL, again=st.booleans())
    def apply_dies(self, data: st.DataObject, fatal: int, again: bool) -> None:
        plan = self.pick_plan(data)
        self.die(plan, fatal)
        if again:
            self.apply_one(plan)

    def die(self, plan: WrittenPlan, fatal: int | str) -> None:
        self.die_in(lambda step: self.apply_one(plan, step=step), fatal)

    def die_in(self, work: Callable[[Stepping], None], fatal: int | str) -> None:
        """Do something and die at a step, by its number or its name, with the lock in hand."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(locks, "_give_back", lambda *_: None)
            work(Countdown(fatal) if isinstance(fatal, int) else Reached(fatal))

    @precondition(lambda self: self.plans)
    @rule(data=st.data(), point=POINTS, nth=st.integers(1, 2), what=st.integers(0, 6))
    def apply_races(self, data: st.DataObject, point: str, nth: int, what: int) -> None:
        """Another instance revives a commit while an apply is at some step."""
        self.apply_one(self.plans[-1], step=At(point, lambda: self.revive(data, what), nth=nth))

    def apply_one(self, plan: WrittenPlan, *, step: Stepping | None = None) -> None:
        self.apply_run(plan, step=step)
        self.check()

    def removal(self, plan: WrittenPlan) -> Removal:
        """How a plan's objects are taken away."""
        return DELETE

    left_out: Sequence[str] = ()
    """The addresses that a person leaves out of applies."""

    def reported(self, applied: Applied) -> None:
        """What an apply that came to its end says."""

    def apply_run(self, plan: WrittenPlan, *, step: Stepping | None = None) -> None:
        world = self.world
        listed = set(world.candidates(plan))
        before = world.there()
        take = step or (lambda *_: None)
        storage = FaultyStorage(world.storage, writes(take)) if step else world.storage
        catalog = world.opened()
        try:
            store = stepped(world.store(catalog), take)
            self.reported(
                world.apply(
                    plan,
                    step=take,
                    store=store,
                    storage=storage,
                    removal=self.removal(plan),
                    exclude=self.left_out,
                )
            )
        except Died:
            pass
        except Conflict as error:
            if "is working on this repository" in str(error):
                # The one that died has the lock until that expires.
                world.clock.advance(minutes=12)
                self.apply_run(plan, step=step)
                return
            if "since this was planned" not in str(error) and "no new reference" not in str(error):
                raise
        finally:
            catalog.close()
        assert before - world.there() <= listed - set(self.left_out)


def writes(step: Callable[..., None]) -> Callable[[str, str], None]:
    """Calls of the storage that leave a trace are steps too."""

    def fault(call: str, address: str) -> None:
        if call in ("put", "move", "delete", "delete_page"):
            step(f"{call} {address}")

    return fault


TestCollectMachine = CollectMachine.TestCase
TestCollectMachine.settings = settings(
    settings.default, max_examples=EXAMPLES, stateful_step_count=STEPS
)
