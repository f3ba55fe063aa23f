"""Delete records of expired addresses no commit refers to: no reader can ask for them.

A full run knows every range reachable from branches, tags and leases. The record of an address in
none of them is deleted, if no other commit can become reachable: there is no unreachable commit,
and none to be restored by an undo. In doubt the record is kept until the next full run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from reclaim.engine import pipelines
from reclaim.engine.answers import ContainerFiles
from reclaim.engine.base import Engine
from reclaim.engine.requests import ConfirmRequest
from reclaim.engine.tasks.judging import CANDIDATES
from reclaim.engine.tasks.parts import Opener, Part, Place, read_part, write_part
from reclaim.errors import IncompleteRead
from reclaim.run.plan.plan_document import PlanDocument
from reclaim.run.record.checkpoints import Mode, find_barriers
from reclaim.storage import hashed_files
from reclaim.stores.abilities import HeldClaims, TakesReferenced
from reclaim.stores.base import Store
from reclaim.stores.observation import Observation


def may_forget(store: Store, planned: PlanDocument, seen: Observation) -> bool:
    """Whether every readable commit was read by the plan, or descends from such commits only."""
    section = planned.lifecycle
    if section is None or section.mode != Mode.FULL or planned.dead or seen.marked:
        return False
    runs = store.runs()
    # An undo since then has restored commits the plan has not read.
    if not find_barriers(runs) <= frozenset(section.barriers):
        return False
    return not any(run.quarantine for run in runs if run.id != planned.run)


def forget_unreferenced(
    store: Store,
    held: HeldClaims,
    engine: Engine,
    planned: PlanDocument,
    seen: Observation,
    *,
    own: Place,
    opener: Opener,
) -> int:
    """Delete records of expired addresses no commit refers to; return their number.

    Ranges are read a second time if an earlier run deleted anything. ``own`` is a folder in the
    storage of the plan.
    """
    if not isinstance(store, TakesReferenced) or not may_forget(store, planned, seen):
        return 0
    storage = opener(own.url)
    expired = store.write_expired(storage, own.at("expired/"), besides=planned.run)
    if not expired.count:
        return 0
    files = (hashed_files.read(storage, file) for file in expired.files)
    questions = [
        write_part(storage, own.at(f"asked/{number}.parquet"), _as_candidates(rows))
        for number, rows in enumerate(files)
    ]
    containers = [file.part for file in planned.containers]
    count = sum(part.rows for part in containers)
    # With a count of zero, an engine reads no containers.
    live = ContainerFiles(containers, 0, count, planned.expected.entries)
    confirmed = pipelines.confirm(
        engine,
        ConfirmRequest(
            store.format,
            questions,
            live,
            seen.held,
            frozenset(),
            (),
            own.below("forgotten"),
            own.below("work"),
        ),
    )
    for unit, expected, read in (
        ("containers", count, confirmed.read.containers),
        ("entries", planned.expected.entries, confirmed.read.entries),
    ):
        if expected != read:
            raise IncompleteRead(
                f"{expected} {unit} were expected and {read} were read to forget unit rules took"
            )
    return held.forget_expired(_addresses(confirmed.parts, opener, own))


def _as_candidates(rows: pa.Table) -> pa.Table:
    """Convert addresses to candidates for an engine; missing objects have no guard."""
    count = rows.num_rows
    values = {
        "address": rows.column("address"),
        "size": pa.repeat(pa.scalar(0, pa.int64()), count),
        "last_modified": pa.repeat(pa.scalar(0, pa.timestamp("us", tz="UTC")), count),
        "path": pa.nulls(count, pa.string()),
    }
    empty = pa.repeat(pa.scalar(""), count)
    return pa.table([values.get(name, empty) for name in CANDIDATES.names], schema=CANDIDATES)


def _addresses(parts: Sequence[Part], opener: Opener, own: Place) -> Iterator[str]:
    for part in parts:
        yield from read_part(opener(own.url), part, ["address"]).column("address").to_pylist()
