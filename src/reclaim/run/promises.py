"""What runs have promised to give back, and may still lie, or lie again, at its old place.

A run that sets objects aside promises them for its window, and so it does with the snapshots that
it condemned. No other run takes what is at its old place of that: what an unfinished run was about
to take or an unfinished undo has begun to bring back, and what snapshots need that were condemned
and of which not everything was set aside. What delete markers cover has one marker only. The record
of such a run stays too. Where a snapshot is of no use without others, these stay with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from reclaim.engine.base import Engine
from reclaim.engine.tasks.parts import Opener, Part, Place, read_part, write_hashed
from reclaim.engine.tasks.reading import each_once, snapshot_containers
from reclaim.errors import Corrupt, PlanRefused, Refused
from reclaim.ids import new_uid
from reclaim.model import Run, RunState
from reclaim.run.removal import MARKED, find_record
from reclaim.stores.abilities import NeedsOtherSnapshots, Quarantines
from reclaim.stores.base import Store
from reclaim.stores.observation import Observation


def keep_promises(
    seen: Observation,
    store: Store,
    engine: Engine,
    *,
    besides: str,
    place: Place,
    opener: Opener,
) -> Observation:
    """An observation in which what other runs promised is needed as well.

    ``besides`` is the run that asks; ``place`` is where files with addresses are read from.
    """
    if store.deleted:
        # Nothing of it can be brought back.
        return seen
    parts: list[Part] = []
    taking: list[str] = []
    for run in _promising(store, besides):
        stem = place.at(f"promised-{new_uid()}")
        for rows in (*_taking(run, opener), _record(store, run)):
            parts.append(write_hashed(opener(place.url), f"{stem}-{len(parts)}", rows))
            if isinstance(store, NeedsOtherSnapshots):
                taking += rows.column("address").to_pylist()
        parts += _needed(store, engine, run, place.below(f"promised-{new_uid()}"))
    if isinstance(store, NeedsOtherSnapshots):
        seen = store.keep_whole(seen, taking, besides=besides, reader=engine)
    return replace(
        seen,
        held=(*seen.held, *(part.address for part in parts)),
        held_count=seen.held_count + sum(part.rows for part in parts),
    )


def _promising(store: Store, besides: str) -> Iterator[Run]:
    """The other runs that can be undone. One whose record cannot be read may be one of them."""
    for run in store.runs():
        if run.state == RunState.UNREADABLE:
            raise Refused(
                f"the record of run {run.id} cannot be read, and it may have promised to give "
                "something back",
                hint=str(run.summary.get("error", "look at its file")),
            )
        if run.quarantine and run.id != besides:
            yield run


def _taking(run: Run, opener: Opener) -> Iterator[pa.Table]:
    """The addresses that a run was about to take, some hundred thousand at a time.

    Of one that is done they are not where they were, but for what markers cover.
    """
    aside = run.quarantine
    assert aside is not None
    if not run.unfinished and aside.way != MARKED:
        return
    record = find_record(run, opener)
    if record is None or not record.is_whole:
        raise _not_known(run)
    for part in record.promised():
        try:
            yield read_part(opener(record.place.url), part, ["address"])
        except (PlanRefused, Corrupt) as error:
            raise _not_known(run) from error


def _not_known(run: Run) -> Refused:
    assert run.quarantine is not None
    again = f"apply its plan again (`reclaim apply {run.place}`)"
    if run.quarantine.way != MARKED:
        again = f"{again}, undo it (`reclaim undo {run.id}`), or end it with `reclaim purge`"
    return Refused(
        f"run {run.id} set objects aside, and its plan and journal are not whole any more at "
        f"{run.place}: what it promised to keep is not known",
        hint=again,
    )


def _record(store: Store, run: Run) -> pa.Table:
    """The files of a run's own folder: its journal tells what to bring back."""
    folder = store.place(run.id)[1].rstrip("/")
    addresses = [stored.address for stored in store.storage.list(folder)]
    return pa.table({"address": pa.array(addresses, pa.string())})


def _needed(store: Store, engine: Engine, run: Run, place: Place) -> Sequence[Part]:
    """What snapshots need that a run condemned and has not set aside."""
    if not isinstance(store, Quarantines):
        return ()
    waiting = store.waiting(run.id).items()
    named = each_once([snapshot_containers(list(each), kind) for kind, each in waiting])
    return engine.needed(store.format, named, place) if named.num_rows else ()
