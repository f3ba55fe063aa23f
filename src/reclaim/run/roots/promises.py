"""Promises of runs to restore objects, and the promised objects still at their original address.

A run with a quarantine promises its objects, and the snapshots it condemned, until the quarantine
ends. No other run deletes promised objects at their original address: objects an unfinished run was
about to move, or an unfinished undo began to restore; objects of promised snapshots that were too
young to move, or shared with others; and snapshots removed from history by a store's own library
for a run interrupted before its quarantine. Objects under delete markers have a single marker only.
The record of such a run stays too, as do the ancestors of promised snapshots and the snapshots they
depend on. Once a purge begins to delete a quarantine, its run promises nothing: it cannot be undone
(decision 0031).

The record of an interrupted lifecycle run stays as well, until the run is finished or cancelled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa

from reclaim.engine import pipelines
from reclaim.engine.requests import NeededRequest
from reclaim.engine.tasks.parts import Opener, Part, read_part, write_hashed
from reclaim.engine.tasks.promised import COVERED, PROMISED, Unread, promised_containers
from reclaim.errors import Conflict, Corrupt, IncompleteRead, PlanRefused, Refused
from reclaim.ids import new_uid
from reclaim.model import SnapshotId
from reclaim.run.expire.released import still_promised
from reclaim.run.roots.interrupted_runs import find_interrupted
from reclaim.run.roots.request import RootRequest, holding
from reclaim.run.sweep.removal import MARKED, find_record
from reclaim.run_record import Action, RunRecord
from reclaim.stores.abilities import KeepsParents, NeedsOtherSnapshots, Quarantines
from reclaim.stores.base import Store
from reclaim.stores.observation import Observation
from reclaim.stores.registry import name_of


def hold_promises(seen: Observation, request: RootRequest) -> Observation:
    """Add the promises of other runs to an observation; see ``hold_needed_by_promises``."""
    store, besides, opener, place = request.store, request.run, request.opener, request.place
    if store.deleted:
        # A deleted store cannot be restored.
        return seen
    parts: list[Part] = []
    taking = list(request.left_out)
    released: frozenset[SnapshotId] = frozenset()
    for run in _promising(store):
        stem = place.at(f"promised-{new_uid()}")
        promised_rows = () if run.id == besides else _taking(store, run, opener)
        if run.id != besides and run.undoable:
            released |= still_promised(store, run)
        for rows in (*promised_rows, _record(store, run)):
            parts.append(write_hashed(opener(place.url), f"{stem}-{len(parts)}", rows))
            if isinstance(store, NeedsOtherSnapshots):
                taking += rows.column("address").to_pylist()
    for run in find_interrupted(store):
        if run.quarantine is None:
            # The run can be finished while its plan exists.
            rows = _record(store, run)
            stem = place.at(f"promised-{new_uid()}")
            parts.append(write_hashed(opener(place.url), stem, rows))
    if isinstance(store, NeedsOtherSnapshots):
        seen = store.keep_whole(seen, taking, besides=besides, reader=request.engine)
    if isinstance(store, KeepsParents):
        seen = store.keep_parents(seen, besides=besides)
    if released:
        seen = replace(seen, promised=seen.promised | (released & seen.ids))
    return holding(seen, parts)


def hold_needed_by_promises(seen: Observation, request: RootRequest) -> Observation:
    """Add the objects needed by promised snapshots of other runs.

    Live containers already read by the run are not read again: their entries are no candidates.
    """
    store, besides, marked = request.store, request.run, request.marked
    assert marked is not None
    if store.deleted or not isinstance(store, Quarantines):
        return seen
    # A run being purged cannot be undone, and its containers may be deleted.
    runs = {run.id: run for run in _promising(store) if run.undoable and run.id != besides}
    named = [
        promised_containers(list(addresses), kind, _quarantine_location(store, runs[run_id]))
        for run_id, containers in store.promised(list(runs)).items()
        for kind, addresses in containers.items()
    ]
    promised = pa.concat_tables([PROMISED.empty_table(), *named])
    if not promised.num_rows:
        return seen
    within = request.place.below(f"promised-{new_uid()}")
    needed_request = NeededRequest(store.format, promised, within, marked.known)
    needed = pipelines.needed(request.engine, needed_request)
    if needed.unread.count:
        raise _not_read(store, needed.unread, runs.values(), besides=besides)
    return holding(seen, needed.parts)


def _not_read(
    store: Store, unread: Unread, runs: Iterable[RunRecord], *, besides: str
) -> IncompleteRead | Conflict:
    """Error for promised snapshots with missing or damaged containers.

    Their entries are unknown, and the containers may be recoverable.
    """
    ids = sorted(run.id for run in runs if _quarantine_location(store, run) in unread.asides)
    lock = store.lock_state()
    still = {run.id for run in _promising(store) if run.undoable}
    if (lock is not None and lock.run != besides) or not still.issuperset(ids):
        return Conflict(
            f"quarantines of {store.name} were undone or purged while they were read: run "
            f"{', '.join(ids)}",
            hint="nothing was deleted; try again when the undo or purge is done",
        )
    unnamed = unread.count - len(unread.examples)
    named = ", ".join(unread.examples) + (f" and {unnamed} more" if unnamed else "")
    store_name = name_of(store.kind, store.name, store.uid)
    option = "" if store_name == store.name else f" --store {store_name}"
    return IncompleteRead(
        f"cannot read {unread.count} metadata files of quarantined {store.noun}s (original "
        f"location or quarantine of run {', '.join(ids)}): {named}; their objects are unknown",
        hint="nothing was deleted; restore the files from a backup; if they are lost, restore "
        f"complete {store.noun}s with `reclaim undo {ids[0]}{option}`, and end the quarantine of "
        f"the run with `reclaim purge {store_name} --run {ids[0]}`",
        runs=ids,
        unreadable=unread.count,
    )


def _quarantine_location(store: Store, run: RunRecord) -> str:
    """Location of the objects quarantined by a run."""
    covered = run.quarantine is not None and run.quarantine.removal == MARKED
    return COVERED if covered else store.format.quarantine_path(run.id)


def _promising(store: Store) -> Iterator[RunRecord]:
    """Runs with objects in quarantine. Refuse unreadable records, which may belong to such runs."""
    for run in store.runs():
        if not run.allows(Action.ANOTHER):
            raise unreadable_record(run)
        if run.quarantine:
            yield run


def unreadable_record(run: RunRecord) -> Refused:
    """Error for deletes next to a run with an unreadable record."""
    return Refused(
        f"{run.error}; nothing is deleted while the needs of its undo are unknown",
        hint=run.hint,
        run=run.id,
    )


def _taking(store: Store, run: RunRecord, opener: Opener) -> Iterator[pa.Table]:
    """Addresses a run was about to take, some hundred thousand at a time.

    After a finished run, only objects under delete markers keep their original address. A run being
    purged promises nothing.
    """
    quarantine = run.quarantine
    assert quarantine is not None
    if run.purging or (quarantine.removal != MARKED and not run.unfinished):
        return
    record = find_record(store, run, opener)
    if record is None or not record.is_whole:
        raise _not_known(run)
    for part in record.promised():
        try:
            yield read_part(opener(record.place.url), part, ["address"])
        except (PlanRefused, Corrupt) as error:
            raise _not_known(run) from error


def _not_known(run: RunRecord) -> Refused:
    assert run.quarantine is not None
    again = f"apply its plan again (`reclaim apply {run.place}`)"
    if run.quarantine.removal != MARKED:
        again = f"{again}, undo it (`reclaim undo {run.id}`), or end it with `reclaim purge`"
    return Refused(
        f"run {run.id} has objects in quarantine, but its plan and journal at {run.place} are "
        "incomplete: the needs of its undo are unknown",
        hint=again,
    )


def _record(store: Store, run: RunRecord) -> pa.Table:
    """Files in a run's own folder: the undo needs its journal."""
    folder = store.place(run.id)[1].rstrip("/")
    addresses = [stored.address for stored in store.storage.list(folder)]
    return pa.table({"address": pa.array(addresses, pa.string())})
