"""The snapshots of a plan, in a file beside it: which were live, and which edits it makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from reclaim.history import Edit
from reclaim.model import History, Ref, RefKind, SnapshotId
from reclaim.storage import Storage
from reclaim.tasks.parts import Part, read_part, write_part

Parents = tuple[SnapshotId, ...]

SNAPSHOTS = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("live", pa.bool_(), nullable=False),
        # Why it goes, of those that are not live.
        pa.field("rule", pa.string()),
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
    reparent: Mapping[SnapshotId, tuple[Parents, Parents]]
    delete_refs: tuple[Ref, ...]


def write(
    storage: Storage,
    address: str,
    history: History,
    live: frozenset[SnapshotId],
    dead: Mapping[SnapshotId, str],
    edit: Edit,
) -> Part:
    parents = {snapshot.id: snapshot.parents for snapshot in history.snapshots}
    rows: list[tuple[object, ...]] = []
    for found in [*live, *dead]:
        new = edit.reparent.get(found)
        before = None if new is None else list(parents[found])
        after = None if new is None else list(new)
        rows.append((found, found in live, dead.get(found), before, after, None, None))
    for ref in edit.delete_refs:
        rows.append((ref.snapshot, False, None, None, None, ref.name, ref.kind.value))
    columns = zip(*rows, strict=True) if rows else [()] * len(SNAPSHOTS)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, SNAPSHOTS, strict=True)]
    return write_part(storage, address, pa.table(arrays, schema=SNAPSHOTS))


def read(storage: Storage, part: Part) -> PlannedSnapshots:
    live: set[SnapshotId] = set()
    dead: dict[SnapshotId, str] = {}
    reparent: dict[SnapshotId, tuple[Parents, Parents]] = {}
    refs: list[Ref] = []
    for row in read_part(storage, part).to_pylist():
        found = SnapshotId(row["id"])
        if row["ref"] is not None:
            refs.append(Ref(row["ref"], RefKind(row["ref_kind"]), found))
            continue
        if row["live"]:
            live.add(found)
        else:
            dead[found] = row["rule"] or ""
        if row["after"] is not None:
            reparent[found] = tuple(row["before"]), tuple(row["after"])
    return PlannedSnapshots(frozenset(live), dead, reparent, tuple(refs))
