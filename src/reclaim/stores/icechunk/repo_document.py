"""A ``repo`` to be changed and rewritten, preserving every field.

Snapshots are removed from a repository in this way: a snapshot not listed in ``repo`` cannot be
referenced.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa

from reclaim.clock import from_micros, to_micros
from reclaim.errors import Conflict
from reclaim.model import RefKind, Snapshot, SnapshotId
from reclaim.safety import SAFETY
from reclaim.stores.icechunk.decoding import decoding
from reclaim.stores.icechunk.envelope import MAGIC, FileType, unwrap
from reclaim.stores.icechunk.flatbuffer_schema import Values, read_values, write_values
from reclaim.stores.icechunk.object_ids import ID_BYTES, name, packed
from reclaim.stores.icechunk.repo_file import SPEC as SPEC_VERSION
from reclaim.stores.icechunk.repo_file import decode_repo
from reclaim.stores.icechunk.repo_schema import (
    BEFORE_UPDATES,
    BRANCHES,
    DELETED_TAGS,
    GC_RAN,
    INFO_FLUSHED_AT,
    INFO_ID,
    INFO_MESSAGE,
    INFO_METADATA,
    INFO_PARENT,
    INFO_PRUNED,
    REF_NAME,
    REF_SNAPSHOT,
    REPO,
    SNAPSHOTS,
    TAGS,
    UPDATE_AT,
    UPDATE_BACKUP,
    UPDATE_TYPE,
    UPDATE_VALUE,
    UPDATES,
)
from reclaim.stores.icechunk.snapshot_file import SnapshotFile

WRITER = b"reclaim".ljust(24)
_NO_PARENT = -1
_REF_SLOTS = {RefKind.BRANCH: BRANCHES, RefKind.TAG: TAGS}
_YEAR_3000 = 32_503_680_000_000
"""Milliseconds since 1970. Names of backups count down to it, so the newest sorts first."""


@dataclass(frozen=True, slots=True)
class RepoEntry:
    """A snapshot in ``repo``, with its parent by id, so that it fits into another ``repo``."""

    parent: SnapshotId | None
    values: Mapping[int, Any]

    @classmethod
    def of_file(cls, file: SnapshotFile) -> RepoEntry:
        """Entry of a snapshot of spec 1, whose parent is in its file."""
        values = {
            INFO_ID: packed(file.id),
            INFO_FLUSHED_AT: to_micros(file.written_at),
            INFO_MESSAGE: file.message,
            INFO_METADATA: [],
        }
        return cls(None if file.parent is None else SnapshotId(file.parent), values)

    def pruned(self) -> list[str]:
        """Removed ancestors whose transaction logs are still needed."""
        logs: bytes = self.values.get(INFO_PRUNED, b"")
        return [name(logs[at : at + ID_BYTES]) for at in range(0, len(logs), ID_BYTES)]

    def below(self, parent: SnapshotId | None, pruned: Sequence[str]) -> RepoEntry:
        """The entry with another parent, and the bypassed ancestors whose logs are then needed."""
        values = {slot: value for slot, value in self.values.items() if slot != INFO_PRUNED}
        if pruned:
            values[INFO_PRUNED] = b"".join(map(packed, pruned))
        return RepoEntry(parent, values)

    def snapshot(self, id: SnapshotId, is_known: Callable[[SnapshotId], bool]) -> Snapshot:
        """The snapshot; without its parent if the parent is no longer known."""
        parents = (self.parent,) if self.parent is not None and is_known(self.parent) else ()
        written_at = from_micros(self.values.get(INFO_FLUSHED_AT, 0))
        return Snapshot(id, parents, written_at, message=self.values.get(INFO_MESSAGE, ""))


@dataclass(frozen=True, slots=True)
class RepoDocument:
    """A ``repo`` with all its contents."""

    values: Values

    @classmethod
    def read(cls, data: bytes, address: str) -> RepoDocument:
        """Read and check a document from the bytes of a file."""
        decode_repo(data, address)
        _, payload = unwrap(data, FileType.REPO, address)
        with decoding(address):
            return cls(read_values(payload, REPO))

    def encode(self) -> bytes:
        """Encode the file, and verify it by reading it back."""
        header = MAGIC + WRITER + bytes((SPEC_VERSION, FileType.REPO, 1))
        frame: bytes = pa.compress(write_values(self.values, REPO), codec="zstd", asbytes=True)
        data = header + frame
        if RepoDocument.read(data, "the new repo").values != self.values:
            raise AssertionError("repo was not encoded correctly")
        return data

    def entries(self) -> dict[SnapshotId, RepoEntry]:
        """Snapshots, by id."""
        infos = self.values[SNAPSHOTS]
        ids = [SnapshotId(name(info[INFO_ID])) for info in infos]
        entries = {}
        for id, info in zip(ids, infos, strict=True):
            above = info.get(INFO_PARENT, 0)
            parent = None if above == _NO_PARENT else ids[above]
            entries[id] = RepoEntry(parent, {k: v for k, v in info.items() if k != INFO_PARENT})
        return entries

    def tips(self) -> frozenset[SnapshotId]:
        """Snapshots named by branches and tags."""
        ids = list(self.entries())
        refs = (ref for slot in (BRANCHES, TAGS) for ref in self.values[slot])
        return frozenset(ids[ref.get(REF_SNAPSHOT, 0)] for ref in refs)

    def refs(self) -> dict[tuple[RefKind, str], SnapshotId]:
        """Snapshot of each branch and tag."""
        ids = list(self.entries())
        return {
            (kind, ref[REF_NAME]): ids[ref.get(REF_SNAPSHOT, 0)]
            for kind, slot in _REF_SLOTS.items()
            for ref in self.values[slot]
        }

    def with_refs(self, refs: Mapping[tuple[RefKind, str], SnapshotId]) -> RepoDocument:
        """The document with other branches and tags. The name of a removed tag is added to the
        deleted tags, and the name of an added tag is removed from them.
        """
        numbers = {id: number for number, id in enumerate(self.entries())}
        slots = {
            slot: [
                {REF_NAME: named, REF_SNAPSHOT: numbers[refs[of, named]]}
                for of, named in sorted(refs)
                if of is kind
            ]
            for kind, slot in _REF_SLOTS.items()
        }
        before, after = (
            {named for kind, named in given if kind is RefKind.TAG} for given in (self.refs(), refs)
        )
        deleted = set(self.values.get(DELETED_TAGS, ())) - after | (before - after)
        return RepoDocument({**self.values, **slots, DELETED_TAGS: sorted(deleted)})

    def without(self, dropped: Collection[SnapshotId]) -> RepoDocument:
        """The document without some snapshots. They must not be referenced by the remaining
        snapshots.
        """
        entries = self.entries()
        stays = {id: entry for id, entry in entries.items() if id not in dropped}
        named = self.tips().union(entry.parent for entry in stays.values() if entry.parent)
        if needed := sorted(named.intersection(dropped)):
            raise Conflict(
                f"the snapshot {needed[0]} was to be removed, but is referenced by now",
                hint="nothing was deleted; run it again",
            )
        return self._with_entries(stays)

    def with_entries(self, changed: Mapping[SnapshotId, RepoEntry]) -> RepoDocument:
        """The document with some snapshots added or replaced. Their parents must be among them, or
        already present.
        """
        return self._with_entries({**self.entries(), **changed})

    def _with_entries(self, entries: Mapping[SnapshotId, RepoEntry]) -> RepoDocument:
        ordered = sorted(entries)
        numbers = {id: number for number, id in enumerate(ordered)}
        before = list(self.entries())
        infos = [
            {**entries[id].values, INFO_PARENT: _number(entries[id].parent, numbers)}
            for id in ordered
        ]
        moved = {
            slot: [
                {**ref, REF_SNAPSHOT: numbers[before[ref.get(REF_SNAPSHOT, 0)]]}
                for ref in self.values[slot]
            ]
            for slot in (BRANCHES, TAGS)
        }
        return RepoDocument({**self.values, **moved, SNAPSHOTS: infos})

    def updated(self, now: datetime, backup: str, kind: int = GC_RAN) -> RepoDocument:
        """The document after a collection or an expiration: with a new entry in the log, and in the
        preceding entry the backup of the previous ``repo``.

        The library refuses to write after an entry in the future. To avoid blocking writers with a
        slow clock, the entry is antedated by the maximum difference of clocks.
        """
        updates = list(self.values[UPDATES])
        latest = max((update.get(UPDATE_AT, 0) for update in updates), default=0)
        at = max(latest + 1, to_micros(now - SAFETY.clock_skew))
        ran: Values = {UPDATE_TYPE: kind, UPDATE_VALUE: {}, UPDATE_AT: at}
        updates[:1] = [{**latest, UPDATE_BACKUP: backup} for latest in updates[:1]]
        return RepoDocument({**self.values, UPDATES: [ran, *updates]})

    def rotated(self, backup: str) -> RepoDocument:
        """The document with only the newest log entry; the backup has all others.

        When a log is full, the library drops an entry and from then on finds earlier entries
        through the backup named by it. Every backup named in a log is therefore needed later; in a
        rotated log, this is a single backup.
        """
        newest = self.values[UPDATES][:1]
        return RepoDocument({**self.values, UPDATES: newest, BEFORE_UPDATES: backup})


def backup_name(now: datetime, id: bytes) -> str:
    """Name of a backup made now, in the folder of backups."""
    return f"repo.{_YEAR_3000 - to_micros(now) // 1000}.{name(id)}"


def _number(parent: SnapshotId | None, numbers: Mapping[SnapshotId, int]) -> int:
    return _NO_PARENT if parent is None else numbers[parent]
