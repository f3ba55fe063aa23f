"""Settling the claims of a run that nobody will finish: what is at home is released.

What is gone stays gone, with its run and its rule. Each address is looked for by a request of its
own, on executors, and only one that was found there is released: from then on it can be referred to
and claimed again. Whoever settles holds the lock, has noted in the run's record that nobody may go
on with it, and has left the note that its late tasks look for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.base import Engine
from reclaim.engine.tasks.deleting import FAILED, GOING, MISSING
from reclaim.engine.tasks.parts import Opener, Part, Place, read_part, write_part
from reclaim.engine.tasks.presence import AT_HOME, CheckPresence
from reclaim.engine.tasks.quarantine import QuarantineFolder
from reclaim.engine.tasks.recall import not_restored
from reclaim.run.record.journal import Journal
from reclaim.run.sweep.sweep import sweep
from reclaim.storage import Storage, hashed_files
from reclaim.stores.abilities import HeldClaims, TakesReferenced
from reclaim.stores.base import Held, Store

CLAIMED = "claimed"
"""The kind of what is looked for."""


@dataclass(frozen=True, slots=True)
class Settled:
    """How many addresses of a run were released, how many are gone, and of how many it is not
    known."""

    released: int = 0
    gone: int = 0
    unknown: int = 0


NOTHING_SETTLED = Settled()


def has_claims(store: Store, run_id: str) -> bool:
    """Whether a run has claimed, for good, what live snapshots refer to."""
    return isinstance(store, TakesReferenced) and run_id in store.expired_by()


def settle(
    store: Store,
    held: Held,
    engine: Engine,
    run_id: str,
    *,
    place: Place,
    opener: Opener,
    failed: Sequence[Part] = (),
    aside: QuarantineFolder | None = None,
) -> Settled:
    """Release what a run claimed and that is where it belongs.

    ``place`` is a folder in the storage of the store. What the journals ``failed`` say could not be
    brought back stays claimed, whatever lies in its place; ``aside`` is where these have it.
    """
    if not has_claims(store, run_id):
        return NOTHING_SETTLED
    assert isinstance(store, TakesReferenced)
    assert isinstance(held, HeldClaims)
    storage = opener(place.url)
    written = store.write_expired(storage, place.at("claimed/"), of=run_id)
    asked = [
        _write(storage, place.at(f"asked/{number}.parquet"), hashed_files.read(storage, file))
        for number, file in enumerate(written.files)
    ]
    over = [
        _write(storage, place.at(f"over/{number}.parquet"), _addresses(storage, part, aside))
        for number, part in enumerate(failed)
    ]
    journal = Journal(storage, place, place, known={})
    outcome = sweep(
        store,
        engine,
        held.lock,
        CheckPresence(),
        candidates=asked,
        kind=CLAIMED,
        journal=journal,
        place=place,
        storage=storage,
        over=over,
    )
    released = held.release_claims(run_id, _found(storage, journal.own_parts()))
    return Settled(released, outcome.counts[MISSING], outcome.counts[FAILED])


def _found(storage: Storage, parts: Sequence[Part]) -> Iterator[str]:
    """The addresses at which something is, one file at a time."""
    for part in parts:
        rows = read_part(storage, part, ["address", "outcome"])
        there = rows.filter(pc.equal(rows.column("outcome"), AT_HOME))
        yield from there.column("address").to_pylist()


def _addresses(storage: Storage, part: Part, aside: QuarantineFolder | None) -> pa.Table:
    """The objects that a journal says could not be brought back, by their own addresses."""
    return pa.table({"address": not_restored(read_part(storage, part), aside)})


def _write(storage: Storage, address: str, rows: pa.Table) -> Part:
    """Addresses as a sweep is given them."""
    count = rows.num_rows
    empty = pa.repeat(pa.scalar(""), count)
    values = {
        "address": rows.column("address").cast(pa.string()),
        "size": pa.repeat(pa.scalar(0, pa.int64()), count),
        "kind": pa.repeat(pa.scalar(CLAIMED), count),
        "path": pa.nulls(count, pa.string()),
    }
    table = pa.table([values.get(name, empty) for name in GOING.names], schema=GOING)
    return replace(write_part(storage, address, table), group=CLAIMED)
