"""A survey of snapshots: their files as they are listed and, where the history is in them, read."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.clock import from_micros, to_micros
from reclaim.errors import Corrupt, NotFound, Refused
from reclaim.storage import LISTED, KeyRange, Storage
from reclaim.stores.format import SNAPSHOTS
from reclaim.stores.icechunk.addresses import REPO
from reclaim.stores.icechunk.object_ids import ID_LETTERS, PATTERN
from reclaim.stores.icechunk.snapshot_file import SnapshotFile, decode_snapshot


def listed(storage: Storage, ranges: Sequence[KeyRange]) -> pa.Table:
    """The objects of key ranges, as ``LISTED``."""
    batches = [
        batch
        for keys in ranges
        for batch in storage.batches(keys.prefix, after=keys.after, until=keys.until)
    ]
    return pa.Table.from_batches(batches, schema=LISTED)


def heads(storage: Storage, addresses: Sequence[str]) -> tuple[pa.Table, Sequence[str]]:
    """Those of some objects that are there, as ``LISTED``, and the addresses of the others."""
    rows: list[dict[str, Any]] = []
    gone = []
    for address in addresses:
        try:
            stored = storage.head(address)
        except NotFound:
            gone.append(address)
            continue
        row = (stored.address, stored.size, stored.last_modified)
        rows.append(dict(zip(LISTED.names, row, strict=True)))
    return pa.Table.from_pylist(rows, schema=LISTED), gone


def by_name(objects: pa.Table, folder: str) -> pa.Table:
    """Objects as ``SNAPSHOTS``, of which only the names tell something.

    ``folder`` is that of snapshots. A file of the same name further below it is no snapshot.
    """
    rows = objects.num_rows
    columns = {
        **{name: objects.column(name) for name in LISTED.names},
        "id": _ids(objects, folder),
    }
    return pa.table(
        [
            columns[field.name] if field.name in columns else pa.nulls(rows, field.type)
            for field in SNAPSHOTS
        ],
        schema=SNAPSHOTS,
    )


def read(
    storage: Storage,
    objects: pa.Table,
    folder: str,
    *,
    vanished: str | None,
    latest_spec: int = 2,
) -> pa.Table:
    """Objects as ``SNAPSHOTS``, read.

    One that has gone since it was listed has the fault ``vanished``, or is left out without one.
    One of a spec after ``latest_spec`` is refused: the history is elsewhere then, and missing.
    """
    rows = by_name(objects, folder).to_pylist()
    snapshots = [row for row in rows if row["id"] is not None]
    # Each is small, and the answers of a bucket take their time.
    with ThreadPoolExecutor(max(storage.at_once, 1)) as readers:
        files = list(readers.map(lambda row: _read(storage, row["address"]), snapshots))
    for row, file in zip(snapshots, files, strict=True):
        if file is None:
            row["fault"] = vanished
        elif isinstance(file, Corrupt):
            row["fault"] = file.message
        elif file.spec > latest_spec:
            raise Refused(
                f"the snapshot {row['address']} is of spec {file.spec}, and the repository has no "
                f"file {REPO}, which every repository of that spec has",
                hint=f"restore {REPO} from a backup; nothing was deleted",
            )
        else:
            row["parent"] = file.parent
            row["note"] = f"{to_micros(file.written_at)} {file.message}"
    absent = {row["address"] for row, file in zip(snapshots, files, strict=True) if file is None}
    there = [row for row in rows if vanished is not None or row["address"] not in absent]
    return pa.Table.from_pylist(there, schema=SNAPSHOTS)


def _read(storage: Storage, address: str) -> SnapshotFile | Corrupt | None:
    """A snapshot, or why it cannot be read, or None if it is gone. A later version is an error."""
    try:
        snapshot = decode_snapshot(storage.get(address), address)
        check_name(snapshot, address)
    except NotFound:
        return None
    except Corrupt as error:
        return error
    return snapshot


def check_name(snapshot: SnapshotFile, address: str) -> None:
    """Refuse a snapshot that is not the one that its name says."""
    if not address.endswith(f"/{snapshot.id}"):
        raise Corrupt(
            f"the snapshot {address} says that it is {snapshot.id}",
            hint="restore it from a backup; nothing was deleted",
        )


def noted(note: str) -> tuple[datetime, str]:
    """The time and the message of a snapshot that was read."""
    micros, _, message = note.partition(" ")
    return from_micros(int(micros)), message


def faulty(addresses: Sequence[str], folder: str, fault: str) -> pa.Table:
    """Objects with a fault, as ``SNAPSHOTS``."""
    never = datetime(1970, 1, 1, tzinfo=UTC)
    objects = pa.table(
        [pa.array(addresses, pa.string()), [0] * len(addresses), [never] * len(addresses)],
        schema=LISTED,
    )
    rows = by_name(objects, folder)
    at = SNAPSHOTS.get_field_index("fault")
    faults = pa.repeat(pa.scalar(fault, pa.string()), len(addresses))
    return rows.set_column(at, SNAPSHOTS.field(at), faults)


def _ids(objects: pa.Table, folder: str) -> pa.ChunkedArray:
    """The snapshot of each object, by its name; null for what is not one's."""
    address = objects.column("address")
    direct = pc.equal(pc.utf8_length(address), len(folder) + 1 + ID_LETTERS)
    inside = pc.and_(pc.starts_with(address, f"{folder}/"), direct)
    named = pc.and_(inside, pc.match_substring_regex(address, f"/{PATTERN}$"))
    end = pc.utf8_slice_codeunits(address, -ID_LETTERS)
    return pc.if_else(named, end, pa.scalar(None, pa.string()))
