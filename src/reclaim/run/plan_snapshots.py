"""The snapshots of a plan, in a file beside it: which were live, and which edits it makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from reclaim.engine.tasks.parts import Part, read_part, write_part
from reclaim.errors import PlanRefused
from reclaim.model import Ref, RefKind, SnapshotId
from reclaim.run.decide import Decided
from reclaim.storage import Storage

Parents = tuple[SnapshotId, ...]

SNAPSHOTS = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("live", pa.bool_(), nullable=False),
        # Why it goes, of those that are not live.
        pa.field("rule", pa.string()),
        # Whether the policy does not keep it, and whether no ref reaches it once history is edited.
        pa.field("expired", pa.bool_(), nullable=False),
        pa.field("released", pa.bool_(), nullable=False),
        # The parents before and after, of those that are edited.
        pa.field("before", pa.list_(pa.string())),
        pa.field("after", pa.list_(pa.string())),
        # The ref that is deleted, in a row of its own: its kind; the id is the snapshot it names.
        pa.field("ref", pa.string()),
        pa.field("ref_kind", pa.string()),
    ]
)


@dataclass(frozen=True, slots=True)
class PlannedSnapshots:
    """What a plan decided of snapshots."""

    live: frozenset[SnapshotId]
    dead: Mapping[SnapshotId, str]
    expired: frozenset[SnapshotId]
    """What the policy did not keep."""
    released: frozenset[SnapshotId]
    """What no ref reaches once history is edited."""
    reparent: Mapping[SnapshotId, tuple[Parents, Parents]]
    delete_refs: tuple[Ref, ...]


def write(
    storage: Storage,
    address: str,
    decided: Decided,
    dead: Mapping[SnapshotId, str],
) -> Part:
    history, live, edit = decided.history, decided.live, decided.edit
    expired = history.numbers.keys() - decided.decisions.kept
    released = set(edit.unreachable)
    parents = {one.id: one.parents for one in history.snapshots} if edit.reparent else {}
    edited = {one: parents[one] for one in edit.reparent}
    ids, refs = [*live, *dead], edit.delete_refs
    none = [None] * len(refs)
    columns = {
        "id": [*ids, *(ref.snapshot for ref in refs)],
        "live": [True] * len(live) + [False] * (len(dead) + len(refs)),
        "rule": [*[None] * len(live), *dead.values(), *none],
        "expired": [*(one in expired for one in ids), *([False] * len(refs))],
        "released": [*(one in released for one in ids), *([False] * len(refs))],
        "before": [*map(edited.get, ids), *none] if edit.reparent else None,
        "after": [*map(edit.reparent.get, ids), *none] if edit.reparent else None,
        "ref": [*[None] * len(ids), *(ref.name for ref in refs)] if refs else None,
        "ref_kind": [*[None] * len(ids), *(ref.kind.value for ref in refs)] if refs else None,
    }
    rows = len(ids) + len(refs)
    arrays = [
        pa.nulls(rows, field.type) if column is None else pa.array(column, field.type)
        for column, field in zip(columns.values(), SNAPSHOTS, strict=True)
    ]
    return write_part(storage, address, pa.table(arrays, schema=SNAPSHOTS))


def read(storage: Storage, part: Part) -> PlannedSnapshots:
    live: set[SnapshotId] = set()
    dead: dict[SnapshotId, str] = {}
    reparent: dict[SnapshotId, tuple[Parents, Parents]] = {}
    refs: list[Ref] = []
    expired: set[SnapshotId] = set()
    released: set[SnapshotId] = set()
    rows = read_part(storage, part)
    if not rows.schema.equals(SNAPSHOTS):
        raise PlanRefused(f"{part.address} does not list snapshots", hint="plan it again")
    for row in rows.to_pylist():
        found = SnapshotId(row["id"])
        if row["ref"] is not None:
            refs.append(Ref(row["ref"], RefKind(row["ref_kind"]), found))
            continue
        if row["live"]:
            live.add(found)
        else:
            dead[found] = row["rule"] or ""
        if row["expired"]:
            expired.add(found)
        if row["released"]:
            released.add(found)
        if row["after"] is not None:
            reparent[found] = tuple(row["before"]), tuple(row["after"])
    return PlannedSnapshots(
        frozenset(live), dead, frozenset(expired), frozenset(released), reparent, tuple(refs)
    )
