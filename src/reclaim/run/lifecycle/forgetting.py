"""Forgetting what rules took once no commit refers to it: then nobody can ask for it any more.

A full run knows every range that branches, tags and leases reach. An address in none of them is
forgotten, if there is no other commit that somebody could come back to: none that nothing reaches,
and none that an undo could bring back. In doubt it is remembered until the next full run.
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
    """Whether every commit that anybody could read is one that the plan has read, or was made of
    such since."""
    section = planned.lifecycle
    if section is None or section.mode != Mode.FULL or planned.dead or seen.marked:
        return False
    runs = store.runs()
    # An undo since then has brought back commits that the plan has not read.
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
    """Forget what earlier runs took and no commit has any more; returns how many addresses.

    Ranges are read once more for it, if an earlier run took anything. ``own`` is a folder in the
    storage of the plan.
    """
    if not isinstance(store, TakesReferenced) or not may_forget(store, planned, seen):
        return 0
    storage = opener(own.url)
    expired = store.write_expired(storage, own.at("expired/"), besides=planned.run)
    if not expired.count:
        return 0
    files = (hashed_files.read(storage, file) for file in expired.files)
    asked = [
        write_part(storage, own.at(f"asked/{number}.parquet"), _as_candidates(rows))
        for number, rows in enumerate(files)
    ]
    containers = [file.part for file in planned.containers]
    count = sum(part.rows for part in containers)
    # An engine reads none where there are said to be none.
    live = ContainerFiles(containers, 0, count, planned.expected.entries)
    found = pipelines.confirm(
        engine,
        ConfirmRequest(
            store.format,
            asked,
            live,
            seen.held,
            frozenset(),
            (),
            own.below("forgotten"),
            own.below("work"),
        ),
    )
    for what, expected, read in (
        ("containers", count, found.read.containers),
        ("entries", planned.expected.entries, found.read.entries),
    ):
        if expected != read:
            raise IncompleteRead(
                f"{expected} {what} were expected and {read} were read to forget what rules took"
            )
    return held.forget_expired(_addresses(found.parts, opener, own))


def _as_candidates(rows: pa.Table) -> pa.Table:
    """Addresses as an engine is asked for them; nothing guards what is not there."""
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
