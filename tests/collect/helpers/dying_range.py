"""Commits are reverted, and bytes copied, out of dead commits that a run is just taking.

A run applies a plan that has all of them, while several writers go on until they are refused. They
take what only the dead commits have: it stays only if the run sees what they made of it.
"""

from __future__ import annotations

import random
import time
from functools import partial
from threading import Barrier, Event

from reclaim.catalog.database.schema import CommitState, commits
from reclaim.errors import Gone, TransactionFailed
from reclaim.run.plan.planning import WrittenPlan
from tests.collect.helpers.world import World, commit_states
from tests.support.rounds import Orders, run_together
from tests.support.stalling import stall_inserts

WRITERS = 6
REFUSALS = 2
"""After so many a writer ends: each that follows would be like them."""
COPIES = 4
"""One of so many is a copy."""
HEAD_START = 0.1
REFUSED = (Gone, TransactionFailed)
"""What a writer may be told. Never that something is damaged."""


class DyingRange:
    """Rounds of the race. The side that is first is 0 for the writer, 1 for the run."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._opened = world.opened()
        self._store = world.store(self._opened)
        self._writers = [world.other() for _ in range(WRITERS)]
        main = world.repo.branch("main")
        main.put("n", b"odd")
        main.commit("odd")
        self._batches = 0
        stall_inserts(self._opened, commits, share=0.5)

    def batch(self, orders: Orders) -> int:
        self._batches += 1
        repo = self._world.repo
        before = orders.counts.total()
        dead = self._make_commits()
        names = ["copies", *(f"reverts-{number}" for number in range(WRITERS))]
        for name in names:
            repo.create_branch(name, "main")
        self._world.clock.advance(seconds=1)
        plan = self._world.plan(allowed_fraction=1.0, store=self._store)
        beginning, ended = Barrier(WRITERS + 1), Event()
        writing = [
            partial(self._write, number, dead, beginning, ended, orders)
            for number in range(WRITERS)
        ]
        run_together([partial(self._collect, plan, beginning, ended), *writing], [beginning])
        self._check()
        for name in names:
            repo.delete_branch(name)
        return orders.counts.total() - before

    def _make_commits(self) -> list[str]:
        """Dead commits in which ``n`` is even, odd and even: to revert one gives what is before it.

        Whoever made them has ended, so that all of it can be collected.
        """
        with self._world.opened() as catalog:
            repo = catalog.repository(self._world.repo.name)
            dying = repo.create_branch("dying", "main")
            dead = []
            for data in (b"even", b"odd", b"even"):
                dying.put("n", data)
                dead.append(dying.commit("dying").id)
            repo.delete_branch("dying")
        return dead

    def _write(
        self, number: int, dead: list[str], beginning: Barrier, ended: Event, orders: Orders
    ) -> None:
        """Revert the dead commits in turn, and copy, until the run was first."""
        repo = self._writers[number]
        reverting, copying = repo.branch(f"reverts-{number}"), repo.branch("copies")
        tried = reverted = 0
        left = {"revert": REFUSALS, "copy": REFUSALS}
        beginning.wait()
        while any(left.values()):
            tried += 1
            kind = "copy" if (tried + number) % COPIES == 0 or not left["revert"] else "revert"
            if not left[kind]:
                continue
            late = ended.is_set()
            try:
                if kind == "revert":
                    reverting.revert(dead[1 + reverted % 2])
                    reverted += 1
                else:
                    copying.copy("n", f"{number}", source_ref=dead[0])
            except REFUSED:
                left[kind] -= 1
                orders.note(kind, 1)
            else:
                assert not late, "the run has ended, and what it took is still there"
                orders.note(kind, 0)

    def _collect(self, plan: WrittenPlan, beginning: Barrier, ended: Event) -> None:
        chance = random.Random(self._batches)
        beginning.wait()
        time.sleep(chance.uniform(0, HEAD_START))
        try:
            self._world.apply(plan, store=self._store)
        finally:
            ended.set()

    def _check(self) -> None:
        """All that can be reached reads back its own bytes, and none of it is marked."""
        with self._world.opened() as catalog:
            repo = catalog.repository(self._world.repo.name)
            self._world.check(repo)
            states = commit_states(repo)
            reached = {states[commit] for commit in self._world.reached(repo)}
        assert reached == {CommitState.LIVE}
        assert CommitState.PROVISIONAL not in states.values()
