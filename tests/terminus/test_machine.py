"""A server at work while runs are at any of their steps: nothing that is live ever goes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from reclaim.model import SnapshotId
from reclaim.run.sweep.removal import DELETE, Removal
from reclaim.stores.terminus.store import TerminusStore
from reclaim.stores.terminus.survey import NOT_THERE
from reclaim.testing import FakeClock
from tests.support.memory import folder_in_memory
from tests.support.soak import SOAK
from tests.terminus.server import Server
from tests.terminus.world import MOVE, World, make_world, stepped

INTERRUPTIONS = st.lists(
    st.tuples(st.integers(1, 120), st.sampled_from(Server.ACTIONS)), max_size=4
)
REMOVALS = st.sampled_from([MOVE, MOVE, DELETE])


class Interrupted:
    """At some of the steps of a run the server does something."""

    def __init__(self, server: Server, events: list[tuple[int, str]]) -> None:
        self._server = server
        self._events = sorted(events)
        self._steps = 0
        self._busy = False

    def __call__(self, _step: str) -> None:
        if self._busy:
            return
        self._steps += 1
        while self._events and self._events[0][0] <= self._steps:
            self._busy = True
            try:
                self._server.act(self._events.pop(0)[1])
            finally:
                self._busy = False


class Machine(RuleBasedStateMachine):
    """One store, one server, runs one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self._cleanup = ExitStack()
        patch = self._cleanup.enter_context(pytest.MonkeyPatch.context())
        folder = self._cleanup.enter_context(folder_in_memory())
        self.world: World = make_world(folder, FakeClock(), patch)
        self.random = Random(0)
        self.server = Server(self.world, self.random)
        self.aside: list[str] = []

    def teardown(self) -> None:
        try:
            self.world.clock.advance(days=1)
            self.server.forget_leases()
            # What is in quarantine keeps what it needs.
            self.world.purge(timedelta(0))
            self.world.quiet()
        finally:
            self._cleanup.close()

    @initialize(seed=st.integers(0, 1_000))
    def choose(self, seed: int) -> None:
        self.random.seed(seed)

    @rule(names=st.lists(st.sampled_from(Server.ACTIONS), min_size=1, max_size=6))
    def work(self, names: list[str]) -> None:
        for name in names:
            self.server.act(name)

    @rule()
    def grow_old(self) -> None:
        self.world.age()
        self.server.forget_leases()

    @rule(planning=INTERRUPTIONS, applying=INTERRUPTIONS, between=INTERRUPTIONS, removal=REMOVALS)
    def collect(
        self,
        planning: list[tuple[int, str]],
        applying: list[tuple[int, str]],
        between: list[tuple[int, str]],
        removal: Removal,
    ) -> None:
        world = self.world
        step = Interrupted(self.server, planning)
        plan = world.plan(step=step, store=stepped(world.store(), step), allowed_fraction=1.0)
        for _, name in between:
            self.server.act(name)
        step = Interrupted(self.server, applying)
        self._run(
            lambda: world.apply(
                plan, step=step, store=stepped(world.store(), step), removal=removal
            )
        )
        if removal is MOVE:
            self.aside.append(plan.document.run)

    @rule(events=INTERRUPTIONS)
    def take_back(self, events: list[tuple[int, str]]) -> None:
        if self.aside:
            run = self.aside.pop(self.random.randrange(len(self.aside)))
            step = Interrupted(self.server, events)
            store = stepped(self.world.store(), step)
            self._run(lambda: self.undo_all(run, step=step, store=store))

    def undo_all(self, run: str, *, step: Interrupted, store: TerminusStore) -> None:
        """Bring all of a run back, whatever other runs took or purged meanwhile."""
        undone = self.world.undo(run, step=step, store=store)
        assert not [line for line in undone.left if line.endswith(NOT_THERE)]

    @rule(events=INTERRUPTIONS)
    def end_quarantine(self, events: list[tuple[int, str]]) -> None:
        self.world.clock.advance(MOVE.keep)
        self.server.forget_leases()
        step = Interrupted(self.server, events)
        store = stepped(self.world.store(), step)
        self._run(lambda: self.world.purge(step=step, store=store))
        self.aside.clear()

    def _run(self, work: Callable[[], object]) -> None:
        held = self.world.held()
        before = self.world.live()
        work()
        self.check_held(held)
        # What was live and still is has not moved for a moment.
        assert before & self.world.live() <= self.world.there()

    def check_held(self, held: set[SnapshotId]) -> None:
        assert held & self.world.held() <= self.world.there()

    @invariant()
    def everything_live_is_whole(self) -> None:
        self.world.check()


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    settings.default, max_examples=2_500 if SOAK else 15, stateful_step_count=8, deadline=None
)
