"""Sweep: take objects away in waves, each of which ends before the lock could be lost.

A wave that fails may leave tasks behind that go on until its time is over, and the lock is not
free before that. So the first waves are short: what fails early can soon be repeated. Later ones
are longer, because each has to look again at what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from reclaim.engine import pipelines
from reclaim.engine.base import Engine
from reclaim.engine.requests import SweepRequest
from reclaim.engine.tasks.deleting import FAILED, GOING, RESTORED, Deleter, Outcome, as_going
from reclaim.engine.tasks.parts import Part, Place, read_part, write_part
from reclaim.ids import new_uid
from reclaim.run.record.journal import Journal
from reclaim.safety import SAFETY
from reclaim.storage import Storage
from reclaim.stores.abilities import NeedsOtherSnapshots
from reclaim.stores.base import HeldLock, Store

FIRST_WAVE = SAFETY.first_wave
"""How long the first wave may take; each later one may take twice as long as the one before."""


def sweep(
    store: Store,
    engine: Engine,
    lock: HeldLock,
    deleter: Deleter,
    *,
    candidates: Sequence[Part],
    kind: str,
    journal: Journal,
    place: Place,
    storage: Storage,
    over: Sequence[Part] = (),
    renewed: Callable[[Sequence[Part]], Sequence[Part]] | None = None,
) -> Outcome:
    """Take the candidates of one kind, but for those that are ``over``; each wave counts once it is
    in the journal. ``renewed`` is asked before each wave for those that may still go."""
    outcome = Outcome()
    back = deleter.outcome == RESTORED
    done: list[Part] = list(over)
    longest = FIRST_WAVE
    while True:
        if renewed is not None:
            candidates = renewed(candidates)
            if not candidates:
                return outcome
        lock.renew()
        if isinstance(store, NeedsOtherSnapshots):
            mine = _in_order(
                store, engine, storage, candidates, kind, done, place.below("work"), back=back
            )
            known: Sequence[Part] = ()
        else:
            mine, known = candidates, done
        with lock.lend(longest, engine.ended) as time:
            request = SweepRequest(
                store.format, mine, kind, known, deleter, time, place.below("journal")
            )
            swept = pipelines.sweep(engine, request)
        longest *= 2
        outcome.add(swept.outcome)
        done.extend(swept.parts)
        journal.note(kind, swept.parts, swept.outcome)
        # Where the order matters, nothing goes that comes after one that could not.
        if swept.finished or (store.format.sequential and not back and outcome.counts[FAILED]):
            return outcome


def _in_order(
    store: NeedsOtherSnapshots,
    engine: Engine,
    storage: Storage,
    candidates: Sequence[Part],
    kind: str,
    done: Sequence[Part],
    place: Place,
    *,
    back: bool,
) -> Sequence[Part]:
    """The rest of a kind, in the order in which it has to go, in one part.

    The snapshots of such a store are known to the driver, so there may be as many rows here.
    """
    rows = pa.concat_tables(
        [GOING.empty_table()]
        + [as_going(read_part(storage, part)) for part in candidates if part.group == kind]
    )
    over = {
        address
        for part in done
        for address in read_part(storage, part, ["address"]).column("address").to_pylist()
    }
    numbers = {address: at for at, address in enumerate(rows.column("address").to_pylist())}
    addresses = store.in_order(list(numbers), engine)
    if back:
        addresses = addresses[::-1]
    order = [numbers[one] for one in addresses if one not in over]
    if not order:
        return ()
    sorted_rows = rows.take(pa.array(order, pa.int64()))
    part = write_part(storage, place.at(f"{kind}-{new_uid()}.parquet"), sorted_rows)
    return [replace(part, group=kind)]
