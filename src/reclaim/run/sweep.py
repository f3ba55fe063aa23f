"""Sweep: take objects away in waves, each of which ends before the lock could be lost."""

from __future__ import annotations

from collections.abc import Sequence

from reclaim.run.journal import Journal
from reclaim.stores.base import Format, HeldLock
from reclaim.tasks.deleting import Deleter, Outcome
from reclaim.tasks.engine import Engine
from reclaim.tasks.parts import Part, Place


def sweep(
    format: Format,
    engine: Engine,
    lock: HeldLock,
    deleter: Deleter,
    *,
    candidates: Sequence[Part],
    kind: str,
    journal: Journal,
    place: Place,
) -> Outcome:
    """Take the candidates of one kind; each wave counts once it is in the journal."""
    outcome = Outcome()
    done: list[Part] = []
    while True:
        lock.renew()
        swept = engine.sweep(format, candidates, kind, done, deleter, lock.remaining(), place)
        outcome.add(swept.outcome)
        done.extend(swept.parts)
        journal.note(kind, swept.parts)
        if swept.finished:
            return outcome
