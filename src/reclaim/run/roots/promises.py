"""Promises of runs to give objects back, and which of these lie at home.

A run that sets objects aside promises them for its window, and so it does with the snapshots that
it condemned. No other run takes what of that is at home: what an unfinished run was about to take
or an unfinished undo has begun to bring back, and whatever promised snapshots need, be it that it
was too young to be set aside or that others shared it; and what a store's own library took out of
history for a run that was to set it aside, and that was cut off before it did. What delete markers
cover has one marker only. The record of such a run stays too. Snapshots that promised ones stand
on, or are of no use without, stay with them. From the moment at which a purge begins to delete what
a run set aside, that run promises nothing: nothing of it can come back (decision 0031).
The record of a lifecycle run that was cut off stays as well, until somebody finishes it or gives it
up.
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
from reclaim.run.roots.cut_off import find_cut_off
from reclaim.run.roots.request import RootRequest, holding
from reclaim.run.sweep.removal import MARKED, find_record
from reclaim.run_record import Action, RunRecord
from reclaim.stores.abilities import KeepsParents, NeedsOtherSnapshots, Quarantines
from reclaim.stores.base import Store
from reclaim.stores.observation import Observation
from reclaim.stores.registry import name_of


def hold_promises(seen: Observation, request: RootRequest) -> Observation:
    """An observation that also holds what other runs promised; see ``hold_needed_by_promises``."""
    store, besides, opener, place = request.store, request.run, request.opener, request.place
    if store.deleted:
        # Nothing of it can be brought back.
        return seen
    parts: list[Part] = []
    taking = list(request.left_out)
    released: frozenset[SnapshotId] = frozenset()
    for run in _promising(store):
        stem = place.at(f"promised-{new_uid()}")
        others = () if run.id == besides else _taking(store, run, opener)
        if run.id != besides and run.undoable:
            released |= still_promised(store, run)
        for rows in (*others, _record(store, run)):
            parts.append(write_hashed(opener(place.url), f"{stem}-{len(parts)}", rows))
            if isinstance(store, NeedsOtherSnapshots):
                taking += rows.column("address").to_pylist()
    for run in find_cut_off(store):
        if run.quarantine is None:
            # What it has begun can be finished for as long as its plan is there.
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
    """An observation that also holds what the snapshots of other runs need.

    Live containers that the run has read are not read again: nothing that they list is a candidate.
    """
    store, besides, marked = request.store, request.run, request.marked
    assert marked is not None
    if store.deleted or not isinstance(store, Quarantines):
        return seen
    # Of a run that is being purged the containers may be deleted, and nothing of it comes back.
    runs = {run.id: run for run in _promising(store) if run.undoable and run.id != besides}
    named = [
        promised_containers(list(addresses), kind, _aside(store, runs[run_id]))
        for run_id, containers in store.promised(list(runs)).items()
        for kind, addresses in containers.items()
    ]
    promised = pa.concat_tables([PROMISED.empty_table(), *named])
    if not promised.num_rows:
        return seen
    within = request.place.below(f"promised-{new_uid()}")
    asked = NeededRequest(store.format, promised, within, marked.known)
    needed = pipelines.needed(request.engine, asked)
    if needed.unread.count:
        raise _not_read(store, needed.unread, runs.values(), besides=besides)
    return holding(seen, needed.parts)


def _not_read(
    store: Store, unread: Unread, runs: Iterable[RunRecord], *, besides: str
) -> IncompleteRead | Conflict:
    """The refusal to go on while containers of promised snapshots are away or damaged.

    What only they hold could be anything, and it may be possible to bring them back.
    """
    ids = sorted(run.id for run in runs if _aside(store, run) in unread.asides)
    lock = store.lock_state()
    still = {run.id for run in _promising(store) if run.undoable}
    if (lock is not None and lock.run != besides) or not still.issuperset(ids):
        return Conflict(
            f"quarantines of {store.name} were undone or purged while they were read: run "
            f"{', '.join(ids)}",
            hint="nothing was deleted; try again when that is done",
        )
    more = unread.count - len(unread.examples)
    named = ", ".join(unread.examples) + (f" and {more} more" if more else "")
    store_name = name_of(store.kind, store.name, store.uid)
    option = "" if store_name == store.name else f" --store {store_name}"
    return IncompleteRead(
        f"{unread.count} files that tell what {store.noun}s in quarantine need can be read neither "
        f"at home nor in the quarantine of run {', '.join(ids)}: {named}; what only they hold is "
        "not known",
        hint="nothing was deleted; put them back from a backup; if they are lost, bring back what "
        f"is whole with `reclaim undo {ids[0]}{option}`, and end the quarantine of that run with "
        f"`reclaim purge {store_name} --run {ids[0]}`",
        runs=ids,
        unreadable=unread.count,
    )


def _aside(store: Store, run: RunRecord) -> str:
    """Where a run has set objects aside."""
    covered = run.quarantine is not None and run.quarantine.removal == MARKED
    return COVERED if covered else store.format.quarantine_path(run.id)


def _promising(store: Store) -> Iterator[RunRecord]:
    """The runs that have something in quarantine. One whose record cannot be read may be one."""
    for run in store.runs():
        if not run.allows(Action.ANOTHER):
            raise unreadable_record(run)
        if run.quarantine:
            yield run


def unreadable_record(run: RunRecord) -> Refused:
    """The refusal to delete anything beside a run whose record cannot be read."""
    return Refused(
        f"{run.error}; nothing is deleted while the needs of its undo are unknown",
        hint=run.hint,
        run=run.id,
    )


def _taking(store: Store, run: RunRecord, opener: Opener) -> Iterator[pa.Table]:
    """The addresses that a run was about to take, some hundred thousand at a time.

    Of one that is done they are not where they were, but for what markers cover. One that is being
    purged promises nothing.
    """
    aside = run.quarantine
    assert aside is not None
    if run.purging or (aside.removal != MARKED and not run.unfinished):
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
        f"run {run.id} has objects in quarantine, and its plan and journal at {run.place} are not "
        "complete any more: what its undo needs is not known",
        hint=again,
    )


def _record(store: Store, run: RunRecord) -> pa.Table:
    """The files of a run's own folder: its journal tells what to bring back."""
    folder = store.place(run.id)[1].rstrip("/")
    addresses = [stored.address for stored in store.storage.list(folder)]
    return pa.table({"address": pa.array(addresses, pa.string())})
