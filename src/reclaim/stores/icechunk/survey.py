"""Survey of snapshots: their files as listed and, where they hold the history, as read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.clock import from_micros, to_micros
from reclaim.errors import Corrupt, NotFound, Refused
from reclaim.storage import LISTED, KeyRange, Storage
from reclaim.storage.read_ahead import read_ahead
from reclaim.stores.format import SNAPSHOTS
from reclaim.stores.icechunk.addresses import REPO
from reclaim.stores.icechunk.object_ids import ID_LETTERS, PATTERN
from reclaim.stores.icechunk.snapshot_file import (
    SnapshotFile,
    SnapshotHeader,
    decode_header,
    decode_snapshot,
)

BATCH = 256
"""Number of snapshots in a batch."""
BYTES_OF_AN_ENTRY = 50


def listed(storage: Storage, ranges: Sequence[KeyRange]) -> pa.Table:
    """Objects of key ranges, as ``LISTED``."""

    def batches(keys: KeyRange) -> Sequence[pa.RecordBatch]:
        return list(storage.batches(keys.prefix, after=keys.after, until=keys.until))

    with ThreadPoolExecutor(max(storage.at_once, 1)) as listers:
        all_batches = [batch for listing in listers.map(batches, ranges) for batch in listing]
    return pa.Table.from_batches(all_batches, schema=LISTED)


def heads(storage: Storage, addresses: Sequence[str]) -> tuple[pa.Table, Sequence[str]]:
    """Existing objects, as ``LISTED``, and the addresses of missing objects."""
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
    """Objects as ``SNAPSHOTS``, from their names alone.

    ``folder`` is the folder of snapshots. Files with such a name in subfolders are not snapshots.
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
    """Objects as ``SNAPSHOTS``, read; see ``read_files``."""
    pieces = read_files(storage, objects, folder, vanished=vanished, latest_spec=latest_spec)
    return pa.concat_tables([SNAPSHOTS.empty_table(), *(rows for rows, _ in pieces)])


def read_commits(storage: Storage, objects: pa.Table, folder: str) -> pa.Table:
    """Objects of spec 1 as ``SNAPSHOTS``, reading only their position in the history."""
    pieces = read_files(
        storage, objects, folder, vanished=None, latest_spec=1, decode=decode_header
    )
    return pa.concat_tables([SNAPSHOTS.empty_table(), *(rows for rows, _ in pieces)])


def read_files(
    storage: Storage,
    objects: pa.Table,
    folder: str,
    *,
    vanished: str | None,
    latest_spec: int = 2,
    decode: Callable[[bytes, str], SnapshotHeader] = decode_snapshot,
) -> Iterator[tuple[pa.Table, Mapping[str, SnapshotFile]]]:
    """Objects as ``SNAPSHOTS`` in batches, with the readable files by address.

    An object deleted since the listing has the fault ``vanished``, or is omitted if that is None. A
    spec later than ``latest_spec`` is refused: the history is then stored elsewhere, and missing.
    """
    rows = by_name(objects, folder).to_pylist()
    if others := [row for row in rows if row["id"] is None]:
        yield pa.Table.from_pylist(others, schema=SNAPSHOTS), {}
    snapshots = [row for row in rows if row["id"] is not None]
    read = partial(_read, storage, decode)
    files = zip(snapshots, read_ahead(storage, read, snapshots, entries=_count), strict=True)
    while piece := list(islice(files, BATCH)):
        read_rows = []
        for row, file in piece:
            if file is None:
                row["fault"] = vanished
            elif isinstance(file, Corrupt):
                row["fault"] = file.message
            elif file.spec > latest_spec:
                raise Refused(
                    f"the snapshot {row['address']} is of spec {file.spec}, and the repository has "
                    f"no file {REPO}, which is required in that spec",
                    hint=f"restore {REPO} from a backup; nothing was deleted",
                )
            else:
                row["parent"] = file.parent
                row["note"] = f"{to_micros(file.written_at)} {file.message}"
            if file is not None or vanished is not None:
                read_rows.append(row)
        whole = {row["address"]: file for row, file in piece if isinstance(file, SnapshotFile)}
        yield pa.Table.from_pylist(read_rows, schema=SNAPSHOTS), whole


def _count(row: Mapping[str, Any]) -> int:
    """Estimated number of entries of a snapshot, from its size."""
    size: int = row["size"]
    return size // BYTES_OF_AN_ENTRY


def _read(
    storage: Storage, decode: Callable[[bytes, str], SnapshotHeader], row: Mapping[str, Any]
) -> SnapshotHeader | Corrupt | None:
    """Read a snapshot; return the error if it is unreadable, None if it is missing. A later version
    is an error.
    """
    address = row["address"]
    try:
        snapshot = decode(storage.get(address), address)
        check_name(snapshot, address)
    except NotFound:
        return None
    except Corrupt as error:
        return error
    return snapshot


def check_name(snapshot: SnapshotHeader, address: str) -> None:
    """Refuse a snapshot whose id differs from its name."""
    if not address.endswith(f"/{snapshot.id}"):
        raise Corrupt(
            f"the snapshot {address} contains the id {snapshot.id}",
            hint="restore it from a backup; nothing was deleted",
        )


def noted(note: str) -> tuple[datetime, str]:
    """Time and message of a snapshot from its note."""
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
    """Snapshot id of each object, from its name; null for other objects."""
    address = objects.column("address")
    direct = pc.equal(pc.utf8_length(address), len(folder) + 1 + ID_LETTERS)
    inside = pc.and_(pc.starts_with(address, f"{folder}/"), direct)
    named = pc.and_(inside, pc.match_substring_regex(address, f"/{PATTERN}$"))
    end = pc.utf8_slice_codeunits(address, -ID_LETTERS)
    return pc.if_else(named, end, pa.scalar(None, pa.string()))
