"""Sweep: remove objects in waves, each of which ends before the lock could be lost.

A failed wave may leave tasks that run until the wave's time is over, and the lock is not free
before that. So the first waves are short: an early failure can soon be repeated. Later waves are
longer, because each has to check again which objects remain.
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
"""Maximum duration of the first wave; doubled with each wave."""


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
    """Remove the candidates of a kind, except those in ``over``. A wave counts once it is in the
    journal. ``renewed`` is called before each wave to filter the candidates."""
    outcome = Outcome()
    restores = deleter.outcome == RESTORED
    done: list[Part] = list(over)
    longest = FIRST_WAVE
    while True:
        if renewed is not None:
            candidates = renewed(candidates)
            if not candidates:
                return outcome
        lock.renew()
        if isinstance(store, NeedsOtherSnapshots):
            going = _in_order(
                store,
                engine,
                storage,
                candidates,
                kind,
                done,
                place.below("work"),
                restores=restores,
            )
            known: Sequence[Part] = ()
        else:
            going, known = candidates, done
        with lock.lend(longest, engine.ended) as time:
            request = SweepRequest(
                store.format, going, kind, known, deleter, time, place.below("journal")
            )
            swept = pipelines.sweep(engine, request)
        longest *= 2
        outcome.add(swept.outcome)
        done.extend(swept.parts)
        journal.note(kind, swept.parts, swept.outcome)
        # If the order matters, stop after the first failure.
        if swept.finished or (store.format.sequential and not restores and outcome.counts[FAILED]):
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
    restores: bool,
) -> Sequence[Part]:
    """Sort the remaining objects of a kind into the required order, in a single part.

    The driver knows the snapshots of such a store, so it can hold as many rows.
    """
    rows = pa.concat_tables(
        [GOING.empty_table()]
        + [as_going(read_part(storage, part)) for part in candidates if part.group == kind]
    )
    excluded = {
        address
        for part in done
        for address in read_part(storage, part, ["address"]).column("address").to_pylist()
    }
    numbers = {address: number for number, address in enumerate(rows.column("address").to_pylist())}
    addresses = store.in_order(list(numbers), engine)
    if restores:
        addresses = addresses[::-1]
    order = [numbers[address] for address in addresses if address not in excluded]
    if not order:
        return ()
    sorted_rows = rows.take(pa.array(order, pa.int64()))
    part = write_part(storage, place.at(f"{kind}-{new_uid()}.parquet"), sorted_rows)
    return [replace(part, group=kind)]
