"""Snapshots that were taken out of ``repo``, written down so that they can be put back.

They are one document beside the repository, written before ``repo`` is: what is in neither of the
two cannot come back. Only under the lock.
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
    """A snapshot that was taken out of ``repo``, as it was.

    One that came back before its parent did hangs on a ``stand_in`` until that comes too. One that
    is ``pending`` was taken out by the library, and no run has condemned it yet.
    """

    entry: RepoEntry
    stand_in: SnapshotId | None = None
    pending: bool = False

    @property
    def is_back(self) -> bool:
        return self.stand_in is not None


class WithdrawnSnapshots:
    """The entries of snapshots that ``repo`` does not list any more, or not as they were."""

    def __init__(self, storage: Storage, prefix: str) -> None:
        self._storage = storage
        self._address = f"{prefix}{FILE}"

    def read(self) -> dict[SnapshotId, Withdrawn]:
        return {one: found for one, found in self._all().items() if found is not None}

    def never_listed(self) -> frozenset[SnapshotId]:
        """Those that were taken and that ``repo`` had not listed: there is no entry of them."""
        return frozenset(one for one, found in self._all().items() if found is None)

    def _all(self) -> dict[SnapshotId, Withdrawn | None]:
        try:
            document = read_document(self._storage, self._address, largest=LARGEST)
            return {
                SnapshotId(id): None
                if found is None
                else Withdrawn(
                    RepoEntry(found["parent"], _decoded(found["values"])),
                    found["stand_in"],
                    bool(found.get("pending", False)),
                )
                for id, found in document.items()
            }
        except NotFound:
            return {}
        except (Unreadable, ValueError, KeyError, TypeError) as error:
            raise damaged(
                self._storage,
                self._address,
                "the snapshots that were taken out",
                error,
                hint="restore the file from a backup; without it nothing can be undone",
            ) from error

    def any_pending(self) -> bool:
        """Whether there may be snapshots that the library took out and nobody has put back yet."""
        return any(found.pending for found in self.read().values())

    def write(self, snapshots: Mapping[SnapshotId, Withdrawn]) -> None:
        """Put all of them in the place of those that are there."""
        self._write({**dict.fromkeys(self.never_listed()), **snapshots})

    def note_never_listed(self, ids: Collection[SnapshotId]) -> None:
        """Write down that there is no entry of snapshots, so that none is missed."""
        self._write({**dict.fromkeys(ids), **self._all()})

    def remove(self, ids: Collection[SnapshotId]) -> None:
        """Forget snapshots that are gone for good."""
        self._write({id: found for id, found in self._all().items() if id not in ids})

    def _write(self, snapshots: Mapping[SnapshotId, Withdrawn | None]) -> None:
        if snapshots == self._all():
            return
        document = {
            id: None
            if found is None
            else {
                "parent": found.entry.parent,
                "stand_in": found.stand_in,
                "pending": found.pending,
                "values": _encoded(dict(found.entry.values)),
            }
            for id, found in snapshots.items()
        }
        write_document(self._storage, self._address, document)


def _encoded(value: Any) -> Any:
    """Values of a table as JSON, which knows neither bytes nor numbers as keys."""
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
