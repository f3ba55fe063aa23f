"""The snapshots of a plan, in a separate file: the fate of each, with its reasons.

The file is enough to draw and explain the history before and after.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.tasks.parts import Part, read_part, write_part
from reclaim.errors import PlanRefused
from reclaim.model import Ref, RefKind, SnapshotId
from reclaim.run.plan.decide import Decided
from reclaim.run.plan.snapshot_reasons import SENTENCES, SnapshotVerdict, find_reasons
from reclaim.storage import Storage
from reclaim.stores.format import LISTED_SNAPSHOTS
from reclaim.stores.observation import Observation

Parents = tuple[SnapshotId, ...]

REF = pa.struct(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("name", pa.string(), nullable=False),
        # Whether the plan deletes it.
        pa.field("deleted", pa.bool_(), nullable=False),
    ]
)

SNAPSHOTS = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        # Null where the store knows no time or message.
        pa.field("written_at", pa.timestamp("us", tz="UTC")),
        pa.field("message", pa.string()),
        pa.field("parents", pa.list_(pa.string())),
        # The parents that the plan gives it; null where they stay as they are.
        pa.field("new_parents", pa.list_(pa.string())),
        # Whether the policy does not keep it, and whether no ref reaches it once history is edited.
        pa.field("expired", pa.bool_(), nullable=False),
        pa.field("released", pa.bool_(), nullable=False),
        # Refs to it before the plan is applied.
        pa.field("refs", pa.list_(REF)),
        # A ``SnapshotVerdict``.
        pa.field("verdict", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        # Every reason for which it stays or goes, in sentences.
        pa.field("reasons", SENTENCES, nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class PlannedSnapshots:
    """Decisions of a plan about snapshots, as input of an apply."""

    live: frozenset[SnapshotId]
    dead: Mapping[SnapshotId, str]
    """Reason of each dead snapshot, in a single sentence."""
    expired: frozenset[SnapshotId]
    """Snapshots not kept by the policy."""
    released: frozenset[SnapshotId]
    """Snapshots unreachable from refs after the edit of the history."""
    reparent: Mapping[SnapshotId, tuple[Parents, Parents]]
    delete_refs: tuple[Ref, ...]


def write(storage: Storage, address: str, seen: Observation, decided: Decided) -> Part:
    """Write all snapshots of a store, including condemned snapshots."""
    drawn = _drawn(seen, decided)
    ids = drawn.column("id").combine_chunks()
    verdicts, reasons = find_reasons(ids, drawn.column("kept_by"), seen, decided)
    columns = (
        ids,
        *(drawn.column(name) for name in ("written_at", "message", "parents")),
        _of(ids, decided.edit.reparent, SNAPSHOTS.field("new_parents").type),
        _among(ids, decided.history.numbers.keys() - decided.decisions.kept),
        _among(ids, decided.edit.unreachable),
        _of(ids, _refs(seen, decided), SNAPSHOTS.field("refs").type),
        verdicts,
        reasons,
    )
    return write_part(storage, address, pa.table(list(columns), schema=SNAPSHOTS))


def read(storage: Storage, part: Part) -> PlannedSnapshots:
    rows = read_part(storage, part)
    if not rows.schema.equals(SNAPSHOTS):
        raise PlanRefused(f"{part.address} does not list snapshots", hint="make a new plan")
    verdict = rows.column("verdict").cast(pa.string())
    live = pc.equal(verdict, SnapshotVerdict.LIVE.value)
    dead = rows.filter(pc.invert(live))
    rules = pc.binary_join(dead.column("reasons").cast(pa.list_(pa.string())), "; ")
    edited = rows.filter(pc.is_valid(rows.column("new_parents")))
    named = rows.filter(pc.is_valid(rows.column("refs"))).select(["id", "refs"])
    return PlannedSnapshots(
        frozenset(rows.filter(live).column("id").to_pylist()),
        dict(zip(dead.column("id").to_pylist(), rules.to_pylist(), strict=True)),
        frozenset(rows.filter(rows.column("expired")).column("id").to_pylist()),
        frozenset(rows.filter(rows.column("released")).column("id").to_pylist()),
        {
            row["id"]: (tuple(row["parents"] or ()), tuple(row["new_parents"]))
            for row in edited.select(["id", "parents", "new_parents"]).to_pylist()
        },
        tuple(
            Ref(ref["name"], RefKind(ref["kind"]), SnapshotId(row["id"]))
            for row in named.to_pylist()
            for ref in row["refs"]
            if ref["deleted"]
        ),
    )


def _drawn(seen: Observation, decided: Decided) -> pa.Table:
    """Every snapshot as ``LISTED_SNAPSHOTS``: from the store, or from the decided history."""
    if seen.list_snapshots is not None:
        return seen.list_snapshots()
    snapshots = decided.history.snapshots
    # Of snapshots condemned by an earlier run, only the id is known.
    condemned = sorted(seen.marked.keys() - decided.history.numbers.keys())
    columns: tuple[list[Any], ...] = (
        [*(snapshot.id for snapshot in snapshots), *condemned],
        [snapshot.written_at for snapshot in snapshots],
        [snapshot.message for snapshot in snapshots],
        [snapshot.parents for snapshot in snapshots],
        [],
    )
    rows = len(columns[0])
    arrays = (
        _padded(pa.array(column, field.type), rows)
        for column, field in zip(columns, LISTED_SNAPSHOTS, strict=True)
    )
    return pa.table(list(arrays), schema=LISTED_SNAPSHOTS)


def _padded(values: pa.Array, rows: int) -> pa.Array:
    return pa.concat_arrays([values, pa.nulls(rows - len(values), values.type)])


def _refs(seen: Observation, decided: Decided) -> Mapping[SnapshotId, list[dict[str, Any]]]:
    deleted = set(decided.edit.delete_refs)
    refs: dict[SnapshotId, list[dict[str, Any]]] = {}
    for ref in seen.refs:
        row = {"kind": ref.kind.value, "name": ref.name, "deleted": ref in deleted}
        refs.setdefault(ref.snapshot, []).append(row)
    return refs


def _among(ids: pa.Array, snapshots: Iterable[SnapshotId]) -> pa.Array:
    return pc.is_in(ids, pa.array(list(snapshots), pa.string()))


def _of(ids: pa.Array, values: Mapping[SnapshotId, object], type: pa.DataType) -> pa.Array:
    """Value of each id, or null."""
    at = pc.index_in(ids, pa.array(list(values), pa.string()))
    return pa.array(list(values.values()), type).take(at)
