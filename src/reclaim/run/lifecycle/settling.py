"""Release claims of a run that will not be finished, for objects that still exist.

Missing objects stay recorded as deleted, with their run and rule. Each address is looked up with a
request of its own, on executors, and released only if an object exists: then it can be referenced
and claimed again. The caller holds the lock, has recorded that nobody may continue the run, and has
left the undo note for its late tasks.
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
"""Kind of the addresses to look up."""


@dataclass(frozen=True, slots=True)
class Settled:
    """Number of released, missing and unknown addresses of a run."""

    released: int = 0
    gone: int = 0
    unknown: int = 0


NOTHING_SETTLED = Settled()


def has_claims(store: Store, run_id: str) -> bool:
    """Whether a run has promoted claims on objects of live snapshots."""
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
    quarantine: QuarantineFolder | None = None,
) -> Settled:
    """Release addresses claimed by a run whose objects exist.

    ``place`` is a folder in the storage of the store. Objects the journals ``failed`` list as not
    restored stay claimed, even if another object has their address; ``quarantine`` holds them.
    """
    if not has_claims(store, run_id):
        return NOTHING_SETTLED
    assert isinstance(store, TakesReferenced)
    assert isinstance(held, HeldClaims)
    storage = opener(place.url)
    written = store.write_expired(storage, place.at("claimed/"), of=run_id)
    claimed = [
        _write(storage, place.at(f"asked/{number}.parquet"), hashed_files.read(storage, file))
        for number, file in enumerate(written.files)
    ]
    excluded = [
        _write(storage, place.at(f"over/{number}.parquet"), _addresses(storage, part, quarantine))
        for number, part in enumerate(failed)
    ]
    journal = Journal(storage, place, place, known={})
    outcome = sweep(
        store,
        engine,
        held.lock,
        CheckPresence(),
        candidates=claimed,
        kind=CLAIMED,
        journal=journal,
        place=place,
        storage=storage,
        over=excluded,
    )
    released = held.release_claims(run_id, _existing(storage, journal.own_parts()))
    return Settled(released, outcome.counts[MISSING], outcome.counts[FAILED])


def _existing(storage: Storage, parts: Sequence[Part]) -> Iterator[str]:
    """Addresses with an object, read file by file."""
    for part in parts:
        rows = read_part(storage, part, ["address", "outcome"])
        at_home = rows.filter(pc.equal(rows.column("outcome"), AT_HOME))
        yield from at_home.column("address").to_pylist()


def _addresses(storage: Storage, part: Part, quarantine: QuarantineFolder | None) -> pa.Table:
    """Original addresses of the objects a journal lists as not restored."""
    return pa.table({"address": not_restored(read_part(storage, part), quarantine)})


def _write(storage: Storage, address: str, rows: pa.Table) -> Part:
    """Write addresses as input of a sweep."""
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
