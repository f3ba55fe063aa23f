"""File ``repo`` of spec 2: all snapshots with their parents, branches, tags, latest updates.

It defines which snapshots exist: an unlisted snapshot cannot be referenced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from itertools import pairwise

import numpy as np

from reclaim.clock import from_micros
from reclaim.stores.icechunk.decoding import decoding
from reclaim.stores.icechunk.envelope import FileType, unwrap
from reclaim.stores.icechunk.flatbuffer import Damaged, FlatBuffer, FlatTable, Tables, UnknownSlot
from reclaim.stores.icechunk.object_ids import ID_BYTES, name, names

SPEC = 2
KNOWN_FLAGS = frozenset((3, 4, 5))
"""Feature flags: move nodes, create tags, delete tags. They do not change the dependencies of
snapshots.
"""

_SPEC, _TAGS, _BRANCHES, _DELETED_TAGS, _SNAPSHOTS, _STATUS = range(6)
_UPDATES, _BEFORE_UPDATES, _ENABLED, _DISABLED, _EXTRA, _SLOTS = 7, 8, 10, 11, 12, 13
_REF_NAME, _REF_SNAPSHOT, _REF_SLOTS = 0, 1, 2
_INFO_ID, _INFO_PARENT, _INFO_FLUSHED_AT, _INFO_MESSAGE, _INFO_PRUNED, _INFO_SLOTS = (
    0,
    1,
    2,
    3,
    5,
    6,
)
_STATUS_AVAILABILITY, _STATUS_REASON, _STATUS_SLOTS = 0, 2, 3
_UPDATE_TYPE, _UPDATE_AT, _UPDATE_BACKUP, _UPDATE_SLOTS = 0, 2, 3, 4
_ROOT = -1


class Availability(IntEnum):
    """Whether a repository accepts writes."""

    ONLINE = 0
    READ_ONLY = 1
    OFFLINE = 2


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """A snapshot in ``repo``."""

    id: str
    parent: str | None
    written_at: datetime
    message: str
    pruned: tuple[str, ...]
    """Ancestors removed from history whose transaction logs are still needed."""


@dataclass(frozen=True, slots=True)
class Update:
    """An entry of the operations log, and the backup of the ``repo`` before the next entry."""

    type: int
    updated_at: datetime
    backup: str | None


@dataclass(frozen=True, slots=True)
class RepoFile:
    """A ``repo`` from a single read."""

    snapshots: Sequence[SnapshotInfo]
    """Sorted by id."""
    count: int
    """Number of snapshots, as stored in the file."""
    branches: Mapping[str, str]
    tags: Mapping[str, str]
    deleted_tags: tuple[str, ...]
    availability: Availability
    reason: str
    updates: Sequence[Update]
    """Newest first."""
    before_updates: str | None
    """Backup with the preceding updates."""


def decode_repo(data: bytes, address: str) -> RepoFile:
    """Decode ``repo`` from the bytes of a file; errors name ``address``."""
    spec, payload = unwrap(data, FileType.REPO, address)
    with decoding(address):
        return _decode(payload, spec)


def _decode(payload: bytes, spec: int) -> RepoFile:
    root = FlatBuffer(payload).root
    root.check_slots(_SLOTS, empty=(_EXTRA,))
    if root.number(_SPEC, "<B") != SPEC or spec != SPEC:
        raise UnknownSlot(f"its version is {root.number(_SPEC, '<B')}")
    for slot in (_ENABLED, _DISABLED):
        if unknown := set(root.items(slot, "<u2").tolist()) - KNOWN_FLAGS:
            raise UnknownSlot(f"it has unknown feature flags: {sorted(unknown)}")
    snapshots = _snapshots(root)
    status = root.table(_STATUS)
    if status is None:
        raise Damaged("it has no status")
    status.check_slots(_STATUS_SLOTS)
    availability = status.number(_STATUS_AVAILABILITY, "<B")
    if availability not in tuple(Availability):
        raise UnknownSlot(f"it has an unknown status: {availability}")
    texts = root.targets(_DELETED_TAGS).tolist()
    return RepoFile(
        snapshots=snapshots,
        count=len(root.targets(_SNAPSHOTS)),
        branches=_refs(root, _BRANCHES, snapshots),
        tags=_refs(root, _TAGS, snapshots),
        deleted_tags=tuple(map(root.buffer.text, texts)),
        availability=Availability(availability),
        reason=status.text(_STATUS_REASON) or "",
        updates=[_update(update) for update in root.tables(_UPDATES)],
        before_updates=root.text(_BEFORE_UPDATES),
    )


def _snapshots(root: FlatTable) -> Sequence[SnapshotInfo]:
    infos = Tables(root.buffer, root.targets(_SNAPSHOTS))
    infos.check_slots(_INFO_SLOTS)
    everyone = np.ones(len(infos), np.bool_)
    ids: list[str] = names(infos.fixed(_INFO_ID, ID_BYTES, everyone)).to_pylist()
    if any(first >= second for first, second in pairwise(ids)):
        raise Damaged("its snapshots are unsorted or duplicated")
    parents = infos.numbers(_INFO_PARENT, "<i4").tolist()
    if any(not _ROOT <= parent < len(ids) for parent in parents):
        raise Damaged("the parent of a snapshot is missing")
    times = infos.numbers(_INFO_FLUSHED_AT, "<u8").tolist()
    messages = infos.targets(_INFO_MESSAGE, everyone).tolist()
    pruned: list[tuple[str, ...]] = [()] * len(ids)
    for number in np.flatnonzero(infos.has(_INFO_PRUNED)).tolist():
        pruned[number] = _pruned(FlatTable(root.buffer, int(infos.positions[number])))
    text = root.buffer.text
    return [
        SnapshotInfo(
            id, None if parent == _ROOT else ids[parent], from_micros(at), text(message), cut
        )
        for id, parent, at, message, cut in zip(ids, parents, times, messages, pruned, strict=True)
    ]


def _pruned(info: FlatTable) -> tuple[str, ...]:
    packed = info.items(_INFO_PRUNED, f"V{ID_BYTES}")
    return tuple(name(item.tobytes()) for item in packed)


def _refs(root: FlatTable, slot: int, snapshots: Sequence[SnapshotInfo]) -> dict[str, str]:
    refs: dict[str, str] = {}
    for ref in root.tables(slot):
        ref.check_slots(_REF_SLOTS)
        named, number = ref.text(_REF_NAME), ref.number(_REF_SNAPSHOT, "<I")
        if named is None or named in refs:
            raise Damaged("a branch or tag has no name, or is duplicated")
        if number >= len(snapshots):
            raise Damaged(f"{named} points at a missing snapshot")
        refs[named] = snapshots[number].id
    return refs


def _update(update: FlatTable) -> Update:
    update.check_slots(_UPDATE_SLOTS)
    return Update(
        update.number(_UPDATE_TYPE, "<B"),
        from_micros(update.number(_UPDATE_AT, "<Q")),
        update.text(_UPDATE_BACKUP),
    )
