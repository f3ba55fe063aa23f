"""Records of snapshots removed from ``repo``, for putting them back.

They form a document beside the repository, written before ``repo``: a snapshot in neither file
cannot be restored. Only under the lock.
"""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from reclaim.errors import NotFound
from reclaim.model import SnapshotId
from reclaim.storage import Storage
from reclaim.stores.icechunk.repo_document import RepoEntry
from reclaim.stores.sidecar.condemned import LARGEST
from reclaim.stores.sidecar.files import Unreadable, damaged, read_document, write_document

FILE = "withdrawn.json"
_BYTES, _TABLE = "bytes", "table"


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A snapshot removed from ``repo``, with its former entry.

    A snapshot put back before its parent is attached to a ``stand_in`` until the parent is back. A
    ``pending`` snapshot was removed by the library, and is not condemned by any run yet.
    """

    entry: RepoEntry
    stand_in: SnapshotId | None = None
    pending: bool = False

    @property
    def is_back(self) -> bool:
        return self.stand_in is not None


class WithdrawnSnapshots:
    """Entries of snapshots removed from ``repo``, or listed there with a changed parent."""

    def __init__(self, storage: Storage, prefix: str) -> None:
        self._storage = storage
        self._address = f"{prefix}{FILE}"

    def read(self) -> dict[SnapshotId, Withdrawn]:
        return {id: record for id, record in self._all().items() if record is not None}

    def never_listed(self) -> frozenset[SnapshotId]:
        """Removed snapshots never listed in ``repo``, which have no entry."""
        return frozenset(id for id, record in self._all().items() if record is None)

    def _all(self) -> dict[SnapshotId, Withdrawn | None]:
        try:
            document = read_document(self._storage, self._address, largest=LARGEST)
            return {
                SnapshotId(id): None
                if record is None
                else Withdrawn(
                    RepoEntry(record["parent"], _decoded(record["values"])),
                    record["stand_in"],
                    bool(record.get("pending", False)),
                )
                for id, record in document.items()
            }
        except NotFound:
            return {}
        except (Unreadable, ValueError, KeyError, TypeError) as error:
            raise damaged(
                self._storage,
                self._address,
                "the snapshots removed from repo",
                error,
                hint="restore the file from a backup; without it nothing can be undone",
            ) from error

    def any_pending(self) -> bool:
        """Whether some snapshots were removed by the library and not put back yet."""
        return any(record.pending for record in self.read().values())

    def write(self, snapshots: Mapping[SnapshotId, Withdrawn]) -> None:
        """Replace all recorded snapshots."""
        self._write({**dict.fromkeys(self.never_listed()), **snapshots})

    def note_never_listed(self, ids: Collection[SnapshotId]) -> None:
        """Record snapshots without an entry, so that their entry is not expected."""
        self._write({**dict.fromkeys(ids), **self._all()})

    def remove(self, ids: Collection[SnapshotId]) -> None:
        """Remove snapshots deleted permanently."""
        self._write({id: record for id, record in self._all().items() if id not in ids})

    def _write(self, snapshots: Mapping[SnapshotId, Withdrawn | None]) -> None:
        if snapshots == self._all():
            return
        document = {
            id: None
            if record is None
            else {
                "parent": record.entry.parent,
                "stand_in": record.stand_in,
                "pending": record.pending,
                "values": _encoded(dict(record.entry.values)),
            }
            for id, record in snapshots.items()
        }
        write_document(self._storage, self._address, document)


def _encoded(value: Any) -> Any:
    """Encode values of a table as JSON, which has neither bytes nor numeric keys."""
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {_TABLE: {str(slot): _encoded(inner) for slot, inner in value.items()}}
    return [_encoded(item) for item in value] if isinstance(value, list) else value


def _decoded(value: Any) -> Any:
    if isinstance(value, dict):
        if _BYTES in value:
            return base64.b64decode(value[_BYTES], validate=True)
        return {int(slot): _decoded(inner) for slot, inner in value[_TABLE].items()}
    return [_decoded(item) for item in value] if isinstance(value, list) else value
