"""Checks of a repository for ``doctor``: leftovers, and presence of live objects."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from reclaim.catalog import Roots
from reclaim.catalog.collection.roots.observing import STAGED
from reclaim.catalog.reaping.empty_partitions import partition_folders
from reclaim.errors import Corrupt, NotFound, ReclaimError, StorageAhead
from reclaim.history import build
from reclaim.history.graph import reachable
from reclaim.model import SnapshotId, StoredObject
from reclaim.storage import ObjectStorage, hashed_files, is_leftover
from reclaim.storage.buckets import Upload
from reclaim.stores.catalog.uploads import find_uploads
from reclaim.stores.catalog.verify import expected_objects, verify
from reclaim.stores.findings import Advance, Finding, Level, abbreviate, failed

if TYPE_CHECKING:
    from reclaim.stores.catalog.store import CatalogStore


def old_uploads(store: CatalogStore) -> list[Upload]:
    """Unfinished multipart uploads without an owner."""
    unfinished = find_uploads(store, store.roots(_memory_storage(), ""))
    return list(unfinished.abandoned) if unfinished else []


def unknown_partitions(store: CatalogStore) -> list[str]:
    """Partitions in the storage which are unknown to the database."""
    listed = _listed_partitions(store)
    return _unknown(store, listed, store.roots(_memory_storage(), ""))


class CatalogExamination:
    """Checks of a repository. It is listed before the database is read, except for containers."""

    def __init__(self, store: CatalogStore, *, deep: bool, advance: Advance | None) -> None:
        self._store = store
        self._deep = deep
        self._advance = advance

    def findings(self) -> Iterator[Finding]:
        store = self._store
        if store.deleted:
            return
        listed = _listed_partitions(store)
        held = _memory_storage()
        seen = store.roots(held, "")
        yield self._partitions(_unknown(store, listed, seen))
        yield from self._left_over(seen)
        yield from self._uploads(seen)
        yield from self._online_deletes()
        live = _reached(seen)
        yield self._missing(seen, live, held)
        if self._advance is not None:
            yield self._bytes({seen.metaranges[commit] for commit in live} - {""}, self._advance)

    def _finding(self, level: Level, check: str, sentence: str, hint: str = "") -> Finding:
        return Finding(level, check, sentence, hint, self._store.name)

    def _partitions(self, unknown: list[str]) -> Finding:
        name = self._store.name
        adopt = f"reclaim doctor --adopt-partitions {name}"
        try:
            self._store.check_epoch()
        except ReclaimError as error:
            return failed("partitions", error, name)
        if unknown:
            sentence = f"the storage has {len(unknown)} partitions that the database does not know"
            hint = f"if this database is the right one: {adopt}"
            ahead = StorageAhead(f"{sentence}: {abbreviate(unknown)}", hint=hint)
            return failed("partitions", ahead, name)
        return self._finding(
            Level.OK, "partitions", "all partitions of the storage are in the database"
        )

    def _left_over(self, seen: Roots) -> Iterator[Finding]:
        """Leftovers of dead writers, readers and runs."""
        if overdue := len(seen.overdue):
            hint = "their writers have died; the next apply closes them"
            sentence = f"{overdue} partitions are open and overdue"
            yield self._finding(Level.WARNING, "writers", sentence, hint)
        if in_flight := len(seen.in_flight):
            hint = "commit or reset the branches with uncommitted changes; then they are closed"
            sentence = f"{in_flight} overdue partitions are kept for unfinished commits"
            yield self._finding(Level.WARNING, "writers", sentence, hint)
        marks = sum(state == "provisional" for state in seen.states.values())
        if marks and self._store.lock_state() is None:
            hint = "a run was interrupted; the next gc, apply, undo or expire removes the marks"
            sentence = f"{marks} commits are marked by a run that is no longer active"
            yield self._finding(Level.WARNING, "marks", sentence, hint)

    def _uploads(self, seen: Roots) -> Iterator[Finding]:
        """Parts of unfinished uploads: a bucket keeps them, invisible in listings."""
        try:
            unfinished = find_uploads(self._store, seen)
        except ReclaimError as error:
            yield self._finding(Level.SKIPPED, "uploads", error.message, error.hint or "")
            return
        if unfinished is None:
            return
        count = len(unfinished.abandoned) + len(unfinished.young)
        sentence = f"{count} multipart uploads were not finished and take {unfinished.size} bytes"
        if unfinished.abandoned:
            hint = (
                f"{len(unfinished.abandoned)} of them have no owner; abort them with: "
                f"reclaim doctor --abort-uploads {self._store.name}"
            )
            yield self._finding(Level.WARNING, "uploads", sentence, hint)
        else:
            yield self._finding(Level.OK, "uploads", sentence)

    def _online_deletes(self) -> Iterator[Finding]:
        """Backlog of the reaper."""
        online = self._store.online_deletes()
        if not online.on:
            return
        freed = f"{online.objects} objects ({online.bytes} bytes) were deleted online"
        if online.late:
            sentence = f"{freed}; {online.due} more are due, the oldest since {online.oldest:%F %T}"
            hint = "is a reaper at work? run `reclaim reap`, or keep a catalog open"
            yield self._finding(Level.WARNING, "online deletes", sentence, hint)
        else:
            yield self._finding(Level.OK, "online deletes", f"{freed}; none is late")

    def _bytes(self, metaranges: Iterable[str], advance: Advance) -> Finding:
        """Live objects whose bytes differ from the uploaded bytes."""
        storage, format = self._store.storage, self._store.format
        containers: dict[str, dict[str, Any]] = {}
        for metarange in sorted(metaranges):
            # Missing containers are reported before.
            with suppress(NotFound):
                for container in format.containers(storage, metarange).to_pylist():
                    containers[container["address"]] = container
        objects = expected_objects(self._store, containers.values())
        verified = verify(storage, objects, advance, self._store.find_expired)
        notes = []
        if verified.without_checksum:
            notes.append(f"of {verified.without_checksum} more objects only the size is known")
        if verified.expired:
            notes.append(f"{verified.expired} more were deleted by lifecycle rules")
        if verified.gone:
            notes.append(f"{verified.gone} were deleted before they could be read")
        if verified.damaged:
            more = verified.damaged - len(verified.names)
            names = ", ".join(verified.names) + (f" and {more} more" if more else "")
            sentence = f"{verified.damaged} live objects are damaged: {names}"
            hint = "restore them from a backup or another copy, before anything else runs"
            corrupt = Corrupt("; ".join([sentence, *notes]), hint=hint)
            return failed("bytes", corrupt, self._store.name)
        sentence = f"{verified.compared} objects have the SHA-256 of the uploaded bytes"
        return self._finding(Level.OK, "bytes", "; ".join([sentence, *notes]))

    def _missing(self, seen: Roots, live: Collection[SnapshotId], held: ObjectStorage) -> Finding:
        """Missing live objects. Each is checked twice, because a run may be active."""
        storage = self._store.storage
        prefix = self._store.format.prefix
        folder = prefix.rstrip("/") if self._deep else f"{prefix}_reclaim/meta"
        existing = _addresses(storage.list(folder))
        checked = 0
        absent = []
        for address in self._needed(seen, live, held, existing):
            checked += 1
            if address not in existing:
                with suppress(NotFound):
                    storage.head(address)
                    continue
                absent.append(address)
        expired = self._store.find_expired(absent)
        missing = [address for address in absent if address not in expired]
        if missing:
            sentence = f"{len(missing)} live objects are missing: {abbreviate(missing)}"
            hint = "restore them from a backup or another copy, before anything else runs"
            return failed("objects", Corrupt(sentence, hint=hint), self._store.name)
        what = "containers and data" if self._deep else "containers (--deep checks data as well)"
        if expired:
            what += f"; {len(expired)} more were deleted by lifecycle rules"
        return self._finding(Level.OK, "objects", f"all {checked - len(expired)} are there: {what}")

    def _needed(
        self,
        seen: Roots,
        live: Iterable[SnapshotId],
        held: ObjectStorage,
        existing: set[str],
    ) -> Iterator[str]:
        """Containers of all live snapshots, and the objects listed by those of tips or, if deep, of
        all.
        """
        named = [
            *(ref.snapshot for ref in seen.history.refs),
            *(lease.snapshot for lease in seen.leases),
        ]
        metaranges = {seen.metaranges[commit] for commit in live} - {""}
        opened = {seen.metaranges[commit] for commit in named} - {""}
        yield from sorted(metaranges)
        storage, format = self._store.storage, self._store.format
        read: set[str] = set()
        for metarange in sorted(metaranges if self._deep else opened):
            if metarange not in existing:
                continue
            for container in format.containers(storage, metarange).to_pylist():
                address = container["address"]
                if address in read:
                    continue
                read.add(address)
                yield address
                if self._deep and address in existing:
                    entries = format.entries(storage, container, paths=False)
                    yield from entries.column("address").to_pylist()
        if self._deep:
            for file in seen.files:
                for row in hashed_files.read(held, file).to_pylist():
                    # The object of a pending upload may not exist yet.
                    if row["held_by"] == STAGED or row["address"] in existing:
                        yield row["address"]


def _reached(seen: Roots) -> frozenset[SnapshotId]:
    """Commits reachable from refs and leases."""
    history = build(seen.history.snapshots, seen.history.refs)
    leased = [history.numbers[lease.snapshot] for lease in seen.leases]
    reached = reachable(history.parents, [*history.tips, *leased])
    flagged = zip(history.snapshots, reached, strict=True)
    return frozenset(snapshot.id for snapshot, is_reached in flagged if is_reached)


def _listed_partitions(store: CatalogStore) -> list[tuple[str, str]]:
    return list(partition_folders(store.storage, store.uid))


def _unknown(store: CatalogStore, listed: Iterable[tuple[str, str]], seen: Roots) -> list[str]:
    known = seen.closed | seen.overdue | seen.open
    unknown = [(name, folder) for name, folder in listed if name not in known]
    return sorted({name for name, folder in unknown if not is_leftover(store.storage, folder)})


def _addresses(listed: Iterable[StoredObject]) -> set[str]:
    return {stored.address for stored in listed}


def _memory_storage() -> ObjectStorage:
    """In-memory storage for the files of an observation."""
    return ObjectStorage.open("memory://")
