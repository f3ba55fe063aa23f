"""Records of edits of the history in ``repo``, by run, for undo.

Each record is a file beside the repository, written before ``repo``.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace
from typing import Any

from reclaim.errors import NotFound
from reclaim.model import RefKind, SnapshotId
from reclaim.storage import Storage
from reclaim.stores.sidecar.condemned import LARGEST
from reclaim.stores.sidecar.files import (
    SUFFIX,
    Unreadable,
    damaged,
    read_document,
    write_document,
)

FOLDER = "edits/"


@dataclass(frozen=True, slots=True)
class EditedParent:
    """Parent of a snapshot before and after an edit, and the pruned ancestors needed before."""

    old: SnapshotId | None
    new: SnapshotId | None
    pruned: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EditRecord:
    """Edit of a run."""

    parents: Mapping[SnapshotId, EditedParent]
    refs: Mapping[tuple[RefKind, str], SnapshotId]
    """Deleted refs, with their former snapshots."""
    by_library: bool = False

    def after(self, earlier: EditRecord | None) -> EditRecord:
        """Combine this edit with an earlier edit of the same run."""
        if earlier is None:
            return self
        parents = dict(earlier.parents)
        for snapshot, edited in self.parents.items():
            first = parents.get(snapshot)
            parents[snapshot] = edited if first is None else replace(first, new=edited.new)
        return EditRecord(parents, {**self.refs, **earlier.refs}, self.by_library)

    def without_refs(self, names: Container[tuple[RefKind, str]]) -> EditRecord:
        """Return the edit without refs which still exist."""
        refs = {named: at for named, at in self.refs.items() if named not in names}
        return replace(self, refs=refs)

    def passed_over(self) -> frozenset[SnapshotId]:
        """Former parents of re-parented snapshots, and former tips of deleted refs."""
        parents = (edited.old for edited in self.parents.values() if edited.old is not None)
        return frozenset((*parents, *self.refs.values()))


class EditRecords:
    """Edit records of a repository, by run. Written only under the lock."""

    def __init__(self, storage: Storage, prefix: str) -> None:
        self._storage = storage
        self._prefix = f"{prefix}{FOLDER}"

    def read(self, run_id: str) -> EditRecord | None:
        address = self._address(run_id)
        try:
            return _decode(read_document(self._storage, address, largest=LARGEST))
        except NotFound:
            return None
        except (Unreadable, ValueError, KeyError, TypeError, AttributeError) as error:
            raise damaged(
                self._storage,
                address,
                f"the edit of the history by run {run_id}",
                error,
                hint="restore the file from a backup; without it the edit cannot be undone",
            ) from error

    def write(self, run_id: str, record: EditRecord) -> None:
        write_document(self._storage, self._address(run_id), _encode(record))

    def remove(self, run_id: str) -> None:
        self._storage.delete(self._address(run_id))

    def runs(self) -> list[str]:
        """Runs with an edit record."""
        names = (
            stored.address.removeprefix(self._prefix)
            for stored in self._storage.list(self._prefix.rstrip("/"))
        )
        return sorted(
            name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX) and "/" not in name
        )

    def _address(self, run_id: str) -> str:
        return f"{self._prefix}{run_id}{SUFFIX}"


def _encode(record: EditRecord) -> dict[str, Any]:
    return {
        "by_library": record.by_library,
        "parents": {
            snapshot: {"old": edited.old, "new": edited.new, "pruned": list(edited.pruned)}
            for snapshot, edited in record.parents.items()
        },
        "refs": [[kind.value, name, at] for (kind, name), at in record.refs.items()],
    }


def _decode(document: Mapping[str, Any]) -> EditRecord:
    return EditRecord(
        {
            SnapshotId(snapshot): EditedParent(
                edited["old"], edited["new"], tuple(edited["pruned"])
            )
            for snapshot, edited in document["parents"].items()
        },
        {(RefKind(kind), name): SnapshotId(at) for kind, name, at in document["refs"]},
        bool(document["by_library"]),
    )
