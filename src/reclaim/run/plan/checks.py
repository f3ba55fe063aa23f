"""Checks before a plan counts, and before an apply goes on. Whoever is in doubt stops."""

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

ENOUGH = 1_000
"""So many objects are looked at, to see whether a store has any."""


def check_clock(store: Store, storage: Storage, place: Place) -> None:
    """Refuse to judge by a clock that is not the storage's, which the time of a probe tells."""
    clocks.check_clock(storage, place.at(f"clock-{new_uid()}"), store.clock.now())


def check_budget(store: Store, lock: HeldLock, read_at: datetime, *, so_far: str) -> None:
    """Refuse to delete by what was read too long ago."""
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
    found: Candidates,
) -> None:
    """Refuse when less, or more, was read than there must be."""
    live = named.column("cause").to_pylist().count(LIVE)
    pairs = {
        "containers of snapshots": (live, containers.of_snapshots),
        "containers": (containers.containers, found.read.containers),
        "entries": (containers.entries, found.read.entries),
        "staged or pending addresses": (seen.held_count, found.read.held),
    }
    for what, (expected, read) in pairs.items():
        if expected != read:
            raise IncompleteRead(
                f"{expected} {what} were expected and {read} were read",
                hint="nothing was planned; run it again, and look at the storage if it repeats",
                expected=expected,
                read=read,
            )
    if (seen.refs or seen.leases) and not decided.live:
        raise IncompleteRead("there are refs, and no snapshot was found to be live")


def check_kept(store: Store, survey: Survey | None, decided: Decided, found: Candidates) -> None:
    """Refuse when fewer objects are kept than the listing has of snapshots that stay.

    For stores whose snapshots are files that need not be read again: what stays of them is known
    by name, and here it is counted by the ids that were found as they were listed.
    """
    if survey is None:
        return
    live = pa.array(list(decided.live), pa.string())
    expected = pc.sum(pc.is_in(survey.rows.column("id"), live)).as_py() or 0
    kept = found.objects - found.verdict.objects
    if kept < expected:
        raise IncompleteRead(
            f"{expected} listed objects are of {store.noun}s that stay, and only {kept} objects "
            "would be kept",
            hint="nothing was planned; please report this, with the log of the run",
            expected=expected,
            read=kept,
        )


def check_files(engine: Engine, storage: Storage, place: Place, planned: PlanDocument) -> None:
    """Refuse a plan of which a file is gone, was changed, or lists anything else than the summary
    says; ``storage`` is that of the plan."""
    files = [file.part for file in (*planned.files, *planned.containers)]
    counted = pipelines.verify(engine, files, place)
    check_counted(planned, counted, plan_snapshots.read(storage, planned.snapshots.part))


def check_counted(
    planned: PlanDocument, counted: Mapping[str, tuple[int, int]], decided: PlannedSnapshots
) -> None:
    """Refuse a plan whose files do not have what its summary says."""
    said: dict[str, tuple[int, int]] = {}
    for group in planned.going:
        objects, size = said.get(group.kind, (0, 0))
        said[group.kind] = objects + group.objects, size + group.bytes
    objects, size = (sum(sums[at] for sums in counted.values()) for at in range(2))
    if (
        counted != said
        or (objects, size) != (planned.candidates, planned.candidate_bytes)
        or len(decided.live) != planned.live
        or len(decided.dead) != planned.dead
        or (planned.history and len(decided.reparent) != planned.history.reparented)
        or sorted(ref.name for ref in decided.delete_refs) != sorted(planned.deleted_refs)
    ):
        raise PlanRefused(
            f"the plan says that {planned.candidates} objects ({planned.candidate_bytes} bytes) "
            f"and {planned.dead} snapshots go; its files list {objects} ({size} bytes) and "
            f"{len(decided.dead)}, or others",
            hint="plan it again; a plan cannot be edited by hand",
        )


def find_newly_protected(planned: PlanDocument, seen: Observation) -> list[str]:
    """The globs by which the store protects paths, and did not when the plan was made."""
    return [glob for glob in seen.protect if glob not in planned.protect]


def check_protected(store: Store, planned: PlanDocument, seen: Observation) -> None:
    """Refuse a plan from before something was protected by the setting of the store."""
    more = find_newly_protected(planned, seen)
    if more and not store.deleted:
        raise PlanRefused(
            f"{store.name} protects {', '.join(more)} since the plan was made",
            hint="nothing was deleted; plan it again",
        )


def check_partitions(store: Store, listed: AbstractSet[str], seen: Observation) -> None:
    """Refuse partitions that the database does not know."""
    if names := sorted(listed - seen.closed - seen.open):
        repository = store.uid if store.deleted else store.name
        raise StorageAhead(
            f"the storage has {len(names)} partitions that the database does not know, such as "
            f"{names[0]}",
            hint="this database is a restored backup or a clone; if it is the right one, register "
            f"them with `reclaim doctor --adopt-partitions {repository}`",
            partitions=names[:100],
        )


def check_listed(store: Store, objects: Objects, found: Candidates, *, began_at: datetime) -> None:
    """Refuse a listing that has fewer than half of the live objects that it must have.

    They are known from containers, and a sample of them was counted in the listing. What was
    written since the listing began, or after an inventory was made, need not be in it; nor need
    what lifecycle rules took.
    """
    names = [name for name in found.sample.addresses.values() if not is_odd(name)]
    if 2 * found.sampled >= len(names):
        return
    before = objects.before or began_at - SAFETY.clock_skew
    there = look_up(store.format.view(store.storage), pa.array(names, pa.string()))
    young = there.filter(pc.greater_equal(there.column("last_modified"), pa.scalar(before)))
    away = set(names) - set(there.column("address").to_pylist())
    expired = store.find_expired(away) if isinstance(store, TakesReferenced) else ()
    needed = len(names) - young.num_rows - len(expired)
    if 2 * found.sampled >= needed:
        return
    lost = sorted(away - set(expired))
    where = f"the listing of {store.storage.url}" if objects.before is None else "the inventory"
    missing = f"; {len(lost)} are not in the storage either, such as {lost[0]}" if lost else ""
    raise IncompleteRead(
        f"{where} has {found.sampled} of {needed} live objects of {store.name} that were looked "
        f"for{missing}",
        hint="nothing was planned; check that the storage is mounted and whole, and that its URL "
        "is spelled as the storage has it"
        + ("" if objects.before is None else "; or leave --inventory out"),
        expected=needed,
        read=found.sampled,
    )


def check_inventory(store: Store, objects: Objects, found: Candidates) -> None:
    """Refuse an inventory without any object of a store in which nothing may be live."""
    if objects.before is None:
        return
    if not found.objects and _has_older(store, objects.before):
        raise IncompleteRead(
            f"the inventory has no object of {store.name}, and the storage has some",
            hint="name the inventory of this bucket, or leave --inventory out",
        )


def _has_older(store: Store, before: datetime) -> bool:
    listed = store.storage.list(store.format.prefix.rstrip("/"))
    return any(stored.last_modified < before for stored in islice(listed, ENOUGH))


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
