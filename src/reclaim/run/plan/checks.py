"""Checks before a plan is complete, and before an apply continues. In doubt, stop."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine import pipelines
from reclaim.engine.answers import Candidates, ContainerFiles, Objects
from reclaim.engine.base import Engine
from reclaim.engine.tasks.lookup import look_up
from reclaim.engine.tasks.parts import Place
from reclaim.engine.tasks.reading import LIVE
from reclaim.errors import (
    IncompleteRead,
    OutOfTime,
    PlanRefused,
    StorageAhead,
    TooMuch,
)
from reclaim.ids import new_uid
from reclaim.run.plan import plan_snapshots
from reclaim.run.plan.decide import Decided
from reclaim.run.plan.plan_document import PlanDocument
from reclaim.run.plan.plan_snapshots import PlannedSnapshots
from reclaim.safety import SAFETY
from reclaim.storage import Storage, clocks
from reclaim.stores.abilities import TakesReferenced
from reclaim.stores.base import HeldLock, Store
from reclaim.stores.observation import BUDGET, Observation, Survey
from reclaim.urls import is_odd

INVENTORY_CHECK_LIMIT = 1_000
"""Number of objects to inspect in search of an older object."""


def check_clock(store: Store, storage: Storage, place: Place) -> None:
    """Refuse to judge ages by a clock that differs from the storage's clock, measured with a
    probe."""
    clocks.check_clock(storage, place.at(f"clock-{new_uid()}"), store.clock.now())


def check_budget(store: Store, lock: HeldLock, read_at: datetime, *, so_far: str) -> None:
    """Refuse to delete by an outdated read of the roots."""
    lock.check()
    if store.clock.now() - read_at > BUDGET:
        raise OutOfTime(
            f"confirming took longer than {BUDGET}; leases may have changed since",
            hint=f"{so_far}; run it again, with more executors if it repeats",
        )


def check_complete(
    seen: Observation,
    decided: Decided,
    named: pa.Table,
    containers: ContainerFiles,
    candidates: Candidates,
) -> None:
    """Refuse a plan if the counts of read items differ from the expected counts."""
    live = named.column("cause").to_pylist().count(LIVE)
    pairs = {
        "containers of snapshots": (live, containers.of_snapshots),
        "containers": (containers.containers, candidates.read.containers),
        "entries": (containers.entries, candidates.read.entries),
        "staged or pending addresses": (seen.held_count, candidates.read.held),
    }
    for unit, (expected, read) in pairs.items():
        if expected != read:
            raise IncompleteRead(
                f"{expected} {unit} were expected and {read} were read",
                hint="nothing was planned; run it again, and look at the storage if it repeats",
                expected=expected,
                read=read,
            )
    if (seen.refs or seen.leases) and not decided.live:
        raise IncompleteRead("there are refs, but no snapshot is live")


def check_kept(
    store: Store, survey: Survey | None, decided: Decided, candidates: Candidates
) -> None:
    """Refuse a plan that keeps fewer objects than the listing has of live snapshots.

    For stores whose snapshots are files known by name alone: their live files are counted here by
    the ids in the listing.
    """
    if survey is None:
        return
    live = pa.array(list(decided.live), pa.string())
    expected = pc.sum(pc.is_in(survey.rows.column("id"), live)).as_py() or 0
    kept = candidates.objects - candidates.verdict.objects
    if kept < expected:
        raise IncompleteRead(
            f"{expected} listed objects belong to live {store.noun}s, but only {kept} objects "
            "would be kept",
            hint="nothing was planned; please report this, with the log of the run",
            expected=expected,
            read=kept,
        )


def check_files(engine: Engine, storage: Storage, place: Place, planned: PlanDocument) -> None:
    """Refuse a plan with a missing, modified or mismatched file. ``storage`` is the plan's
    storage."""
    files = [file.part for file in (*planned.files, *planned.containers)]
    counted = pipelines.verify(engine, files, place)
    check_counted(planned, counted, plan_snapshots.read(storage, planned.snapshots.part))


def check_counted(
    planned: PlanDocument, counted: Mapping[str, tuple[int, int]], decided: PlannedSnapshots
) -> None:
    """Refuse a plan whose files differ from its summary."""
    summarized: dict[str, tuple[int, int]] = {}
    for group in planned.going:
        objects, size = summarized.get(group.kind, (0, 0))
        summarized[group.kind] = objects + group.objects, size + group.bytes
    objects, size = (sum(sums[at] for sums in counted.values()) for at in range(2))
    if (
        counted != summarized
        or (objects, size) != (planned.candidates, planned.candidate_bytes)
        or len(decided.live) != planned.live
        or len(decided.dead) != planned.dead
        or (planned.history and len(decided.reparent) != planned.history.reparented)
        or sorted(ref.name for ref in decided.delete_refs) != sorted(planned.deleted_refs)
    ):
        raise PlanRefused(
            f"the summary of the plan has {planned.candidates} objects "
            f"({planned.candidate_bytes} bytes) and {planned.dead} snapshots to delete; its files "
            f"list {objects} ({size} bytes) and {len(decided.dead)}, or different ones",
            hint="make a new plan; a plan cannot be edited by hand",
        )


def find_newly_protected(planned: PlanDocument, seen: Observation) -> list[str]:
    """Globs of protected paths added since the plan was made."""
    return [glob for glob in seen.protect if glob not in planned.protect]


def check_protected(store: Store, planned: PlanDocument, seen: Observation) -> None:
    """Refuse a plan made before the store protected further paths."""
    newly_protected = find_newly_protected(planned, seen)
    if newly_protected and not store.deleted:
        raise PlanRefused(
            f"{store.name} protects {', '.join(newly_protected)} since the plan was made",
            hint="nothing was deleted; make a new plan",
        )


def check_partitions(store: Store, listed: AbstractSet[str], seen: Observation) -> None:
    """Refuse partitions unknown to the database."""
    if names := sorted(listed - seen.closed - seen.open):
        repository = store.uid if store.deleted else store.name
        raise StorageAhead(
            f"the storage has {len(names)} partitions unknown to the database, such as {names[0]}",
            hint="this database is a restored backup or a clone; if it is the right one, register "
            f"them with `reclaim doctor --adopt-partitions {repository}`",
            partitions=names[:100],
        )


def check_listed(
    store: Store, objects: Objects, candidates: Candidates, *, began_at: datetime
) -> None:
    """Refuse a listing with fewer than half of the live objects it must have.

    A sample of live objects, known from containers, was counted in the listing. Objects written
    after the start of the listing, or after the inventory, need not be listed, nor objects deleted
    by lifecycle rules.
    """
    names = [name for name in candidates.sample.addresses.values() if not is_odd(name)]
    if 2 * candidates.sampled >= len(names):
        return
    before = objects.before or began_at - SAFETY.clock_skew
    existing = look_up(store.format.view(store.storage), pa.array(names, pa.string()))
    young = existing.filter(pc.greater_equal(existing.column("last_modified"), pa.scalar(before)))
    missing_names = set(names) - set(existing.column("address").to_pylist())
    expired = store.find_expired(missing_names) if isinstance(store, TakesReferenced) else ()
    needed = len(names) - young.num_rows - len(expired)
    if 2 * candidates.sampled >= needed:
        return
    not_stored = sorted(missing_names - set(expired))
    where = f"the listing of {store.storage.url}" if objects.before is None else "the inventory"
    note = (
        f"; {len(not_stored)} are not in the storage either, such as {not_stored[0]}"
        if not_stored
        else ""
    )
    raise IncompleteRead(
        f"{where} has {candidates.sampled} of {needed} live objects of {store.name} that were "
        f"looked for{note}",
        hint="nothing was planned; check that the storage is mounted and whole, and that its URL "
        "is spelled as the storage has it"
        + ("" if objects.before is None else "; or leave --inventory out"),
        expected=needed,
        read=candidates.sampled,
    )


def check_inventory(store: Store, objects: Objects, candidates: Candidates) -> None:
    """Refuse an inventory without any object of a non-empty store."""
    if objects.before is None:
        return
    if not candidates.objects and _has_older(store, objects.before):
        raise IncompleteRead(
            f"the inventory has no object of {store.name}, and the storage has some",
            hint="name the inventory of this bucket, or leave --inventory out",
        )


def _has_older(store: Store, before: datetime) -> bool:
    listed = store.storage.list(store.format.prefix.rstrip("/"))
    return any(stored.last_modified < before for stored in islice(listed, INVENTORY_CHECK_LIMIT))


def check_fraction(made: PlanDocument) -> None:
    if made.fraction > made.allowed_fraction:
        going, whole = made.counted
        raise TooMuch(
            f"{going} of {whole} objects would go, more than "
            f"{math.floor(made.allowed_fraction * 100)} %",
            hint="if that is right, say so with --unsafe-allow-fraction 1",
            candidates=going,
            objects=whole,
        )
