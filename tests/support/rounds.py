"""Rounds of a race, with connections that really work at once: who begins when, and who was first.

A race has two sides. On each there may be several threads, each with a catalog of its own.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, BrokenBarrierError, Lock
from typing import TypeVar

from sqlalchemy import select

from reclaim.catalog import Catalog
from reclaim.catalog.database.schema import (
    LedgerState,
    TokenState,
    ledger,
    staged_entries,
    staging_tokens,
)

T = TypeVar("T")

FOLLOWS = {3: 0, 7: 1}
"""In two of ten rounds one side begins when the other has ended, so that both orders occur on any
machine."""


class Pace:
    """When each side acts in a round: at once, a little later than the other, or after it."""

    def __init__(self, head_start: float, parties: int = 2) -> None:
        self.ended = Barrier(parties)
        self._longest = 10 * head_start
        self._took = [head_start] * 2
        """How many seconds each side takes, at most, of late."""

    def act(self, side: int, at: int, chance: random.Random, work: Callable[[], T]) -> T:
        """Do what a side does in the round ``at``, which has begun."""
        follower = FOLLOWS.get(at % 10)
        if follower == side:
            self.ended.wait()
        elif follower is None:
            # Otherwise the longer of two would never be first with what matters.
            pause = min(2 * self._took[1 - side], self._longest)
            time.sleep(chance.choice((0, 0, chance.uniform(0, pause))))
        began = time.monotonic()
        done = work()
        self._took[side] = max(0.9 * self._took[side], time.monotonic() - began)
        if follower == 1 - side:
            self.ended.wait()
        return done


def run_together(tasks: Sequence[Callable[[], object]], barriers: Sequence[Barrier]) -> None:
    """Run each task in a thread of its own; who fails leaves nobody waiting at the barriers."""

    def guarded(task: Callable[[], object]) -> None:
        try:
            task()
        except BaseException:
            for barrier in barriers:
                barrier.abort()
            raise

    with ThreadPoolExecutor(len(tasks)) as pool:
        running = [pool.submit(guarded, task) for task in tasks]
        errors = [error for task in running if (error := task.exception()) is not None]
    # Those who only waited for it say nothing new.
    for error in sorted(errors, key=lambda error: isinstance(error, BrokenBarrierError)):
        raise error


class Orders:
    """Which side was first, in rounds of several kinds."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, int]] = Counter()
        self._lock = Lock()

    def note(self, kind: str, first: int) -> None:
        with self._lock:
            self.counts[kind, first] += 1

    def check(self) -> None:
        """Both orders occurred, of each kind."""
        kinds = {kind for kind, _ in self.counts}
        missing = [(kind, side) for kind in kinds for side in (0, 1) if not self.counts[kind, side]]
        assert kinds
        assert not missing, f"nobody was first in {missing}: {dict(self.counts)}"


def check_staged(catalog: Catalog) -> None:
    """Nothing that is staged is condemned, and its bytes are there."""
    holding = (TokenState.OPEN, TokenState.SEALED, TokenState.COMMITTED)
    held = (
        select(staged_entries.c.address, ledger.c.state)
        .join(staging_tokens, staging_tokens.c.id == staged_entries.c.token_id)
        .outerjoin(ledger, staged_entries.c.address == ledger.c.address)
        .where(staged_entries.c.owned, staging_tokens.c.state.in_(holding))
    )
    with catalog._database.read() as connection:
        rows = connection.execute(held).all()
    assert not [row for row in rows if row.state not in (None, LedgerState.LIVE)]
    there = {stored.address for stored in catalog.storage.list("repos/")}
    assert {row.address for row in rows if row.address} <= there
