"""A run whose lock has lapsed goes on, while the next run takes the lock.

The clock of the slow run stands, as it does for a transaction that stalls once it has looked at it:
only the row of the lock tells that it is lost. Whatever the slow run does either is there when the
next run has the lock, or does not happen. Deletes of objects end by time instead, before anybody
can take the lock: ``test_locks``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from threading import Barrier

from sqlalchemy import insert, update

from reclaim.catalog import Catalog
from reclaim.catalog.database.schema import (
    ClaimState,
    CommitState,
    claimed_addresses,
    claims,
    commits,
    locks,
    run_edits,
    runs,
)
from reclaim.errors import LockLost
from reclaim.lock import LENGTH, REQUEST
from reclaim.model import SnapshotId
from reclaim.run_record import COLLECT, Phase, RunRecord
from reclaim.stores.catalog import CatalogStore, HeldRepository
from reclaim.testing import FakeClock
from tests.collect.helpers.world import NAME, World
from tests.support.rounds import Orders, Pace, run_together
from tests.support.stalling import stall

BATCH = 25
STEPS_IN_A_ROUND = 4
SLOW, NEXT, EARLIER = "run-slow", "run-next", "run-earlier"
RULE = "its branch was deleted"
KEPT = (commits, runs, claims, claimed_addresses, run_edits)
"""Tables that runs change, of which every round begins with the same rows."""
RESTORE = "".join(
    f"DELETE FROM {table.name}; INSERT INTO {table.name} TABLE kept.{table.name};" for table in KEPT
)
READ = " UNION ALL ".join(
    [
        # Not the epoch, which the renewal of a partition may count at any time.
        "SELECT 'history', CAST(history_version AS text) FROM repositories",
        *(
            f"SELECT '{table.name}', CAST({table.name} AS text) FROM {table.name}"
            for table in (*KEPT, locks)
        ),
    ]
)


@dataclass(frozen=True)
class Slow:
    """The slow run, in one round."""

    held: HeldRepository
    dead: Mapping[str, SnapshotId]
    """A commit for each step that changes one."""
    addresses: tuple[str, str]
    """One that it claims, and one that it has claimed."""
    at: int

    def start(self) -> None:
        now = self.held.lock._clock.now()
        self.held.start(RunRecord(SLOW, COLLECT, Phase.STARTED, now, partitions=self.at))

    def edit_history(self) -> None:
        history = self.held.read_history()
        self.held.edit_history({self.dead["edit history"]: ()}, [], history)


def _slow(intended: int = 0) -> RunRecord:
    began = datetime(2026, 1, 1, tzinfo=UTC)
    return RunRecord(SLOW, COLLECT, Phase.STARTED, began, intended=intended)


STEPS: dict[str, Callable[[Slow], object]] = {
    "condemn": lambda run: run.held.condemn({run.dead["condemn"]: RULE}),
    "release": lambda run: run.held.release([run.dead["release"]]),
    "promote": lambda run: run.held.promote(),
    "finish": lambda run: run.held.finish(_slow(intended=run.at)),
    "claim": lambda run: run.held.claim([(run.addresses[0], RULE)]),
    "drop claims": lambda run: run.held.drop_claims([run.addresses[1]]),
    "edit history": Slow.edit_history,
    "abandon": lambda run: run.held.abandon(),
    "take over": lambda run: run.held.take_over([run.dead["take over"]]),
    "set aside": lambda run: run.held.set_aside([run.dead["set aside"]]),
    "collect": lambda run: run.held.collect([run.dead["collect"]]),
    "forget": lambda run: run.held.forget(SLOW),
    "start": Slow.start,
}
"""Changes that a run makes under its lock."""
BEFORE: dict[str, tuple[CommitState, str | None]] = {
    "condemn": (CommitState.LIVE, None),
    "release": (CommitState.PROVISIONAL, SLOW),
    "promote": (CommitState.PROVISIONAL, SLOW),
    "edit history": (CommitState.LIVE, None),
    "take over": (CommitState.CONDEMNED, EARLIER),
    "set aside": (CommitState.CONDEMNED, SLOW),
    "collect": (CommitState.CONDEMNED, SLOW),
    "forget": (CommitState.QUARANTINED, SLOW),
    "of the next": (CommitState.LIVE, None),
}
"""The commits of a round, by the step that changes each: their states, and whose they are."""


class StaleLock:
    """Rounds of the race. The side that is first is 0 where a step was made, 1 where it was not."""

    def __init__(self, world: World) -> None:
        self._world = world
        now = world.clock.now()
        self._slow = self._store(FakeClock(now))
        self._next = self._store(FakeClock(now + LENGTH + REQUEST))
        self._dead = self._make_commits()
        inside = f"repos/{world.repo.uid}/branches/dying"
        self._addresses = (f"{inside}/claimed", f"{inside}/dropped")
        self._keep()
        self._check_steps()
        self._rounds = 0

    def batch(self, orders: Orders) -> int:
        meeting, pace = Barrier(2), Pace(0.01)
        rounds = range(self._rounds, self._rounds + BATCH)
        self._rounds += BATCH
        run_together(
            [
                partial(self._go_on, rounds, meeting, pace, orders),
                partial(self._take_over, rounds, meeting, pace),
            ],
            [meeting, pace.ended],
        )
        return BATCH

    def _go_on(self, rounds: range, meeting: Barrier, pace: Pace, orders: Orders) -> None:
        """The slow run: it makes some of its steps, and ends."""
        chance = random.Random(rounds.start)
        names = list(STEPS)
        for at in rounds:
            self._restore()
            begin = at // 10 * STEPS_IN_A_ROUND
            steps = [names[(begin + step) % len(names)] for step in range(STEPS_IN_A_ROUND)]
            with self._slow.lock(SLOW) as held:
                meeting.wait()
                run = Slow(held, self._dead, self._addresses, at)
                made = pace.act(0, at, chance, partial(_make, run, steps))
            meeting.wait()
            assert made == sorted(made, reverse=True), "a lock that was lost came back"
            for name, is_made in zip(steps, made, strict=True):
                orders.note(name, int(not is_made))
            meeting.wait()

    def _take_over(self, rounds: range, meeting: Barrier, pace: Pace) -> None:
        """The next run: it takes the lock, reads what there is, and works.

        In half of the rounds it has the name of the slow run, whose plan was applied again.
        """
        chance = random.Random(-rounds.start)
        for at in rounds:
            with ExitStack() as lock:
                meeting.wait()
                run_id = SLOW if at % 4 < 2 else NEXT
                held, seen = pace.act(1, at, chance, partial(self._work, lock, run_id, chance))
                meeting.wait()
                changed = self._read() ^ seen
                assert not changed, f"a run without its lock has changed something: {changed}"
                # Nor has its end given the lock away.
                held.release([self._dead["of the next"]])
            meeting.wait()

    def _work(
        self, lock: ExitStack, run_id: str, chance: random.Random
    ) -> tuple[HeldRepository, set[tuple[str, str]]]:
        # The steps of the other take longer.
        stall(chance)
        held = lock.enter_context(self._next.lock(run_id))
        seen = self._read()
        # A commit that comes back to life before it is confirmed.
        held.condemn({self._dead["of the next"]: RULE})
        held.release([self._dead["of the next"]])
        return held, seen

    def _store(self, clock: FakeClock) -> CatalogStore:
        """The repository, as an instance with a clock of its own has it."""
        backend = self._world.backend
        catalog = Catalog.open(backend.location, clock=clock, wrap_storage=backend.wrap)
        backend._opened.enter_context(catalog)
        return CatalogStore(catalog.workspace(NAME))

    def _make_commits(self) -> dict[str, SnapshotId]:
        repo = self._world.repo
        dying = repo.create_branch("dying")
        made = {name: dying.commit(name, allow_empty=True).id for name in BEFORE}
        repo.delete_branch("dying")
        return {name: SnapshotId(commit) for name, commit in made.items()}

    def _keep(self) -> None:
        """Make the rows that every round begins with, and keep a copy of them."""
        mine = {"repo_uid": self._world.repo.uid}
        run = {"started_at": 0, "record": _slow().encode()}
        claim = {"state": ClaimState.PROVISIONAL, "made_at": 0}
        claimed = {"address": self._addresses[1], "run_id": SLOW, "rule": RULE}
        with self._world.repo._workspace.database.write() as connection:
            for name, (state, run_id) in BEFORE.items():
                rule = RULE if run_id else None
                commit = update(commits).where(commits.c.id == self._dead[name])
                connection.execute(commit.values(state=state, run_id=run_id, rule=rule))
            connection.execute(insert(runs).values(id=SLOW, **mine, **run))
            connection.execute(insert(claims).values(run_id=SLOW, **mine, **claim))
            connection.execute(insert(claimed_addresses).values(claimed))
            connection.exec_driver_sql("CREATE SCHEMA kept")
            for table in KEPT:
                connection.exec_driver_sql(f"CREATE TABLE kept.{table.name} AS TABLE {table.name}")

    def _check_steps(self) -> None:
        """Whoever makes a step is seen to have made it."""
        for name, make in STEPS.items():
            self._restore()
            with self._slow.lock(SLOW) as held:
                before = self._read()
                make(Slow(held, self._dead, self._addresses, at=-1))
                assert self._read() != before, name

    def _restore(self) -> None:
        with self._world.repo._workspace.database.write() as connection:
            connection.exec_driver_sql(RESTORE)

    def _read(self) -> set[tuple[str, str]]:
        """All that a run can change in the database: the rows of each table."""
        with self._next._workspace.database.read() as connection:
            return {(row[0], row[1]) for row in connection.exec_driver_sql(READ)}


def _make(run: Slow, steps: list[str]) -> list[bool]:
    """Make steps, one after the other; whether each was made."""
    made = []
    for name in steps:
        try:
            STEPS[name](run)
            made.append(True)
        except LockLost:
            made.append(False)
    return made
