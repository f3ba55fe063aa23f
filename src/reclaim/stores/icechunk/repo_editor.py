"""Editor of ``repo`` by compare and swap: removes and puts back snapshots, edits the history."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from reclaim.clock import Clock
from reclaim.errors import Conflict, NotFound, OutOfTime
from reclaim.model import RefKind, SnapshotId
from reclaim.storage import Storage, SwapsObjects
from reclaim.stores.icechunk.addresses import OVERWRITTEN, REPO, SNAPSHOTS
from reclaim.stores.icechunk.edit_records import EditedParent, EditRecord
from reclaim.stores.icechunk.format import IcechunkFormat
from reclaim.stores.icechunk.object_ids import ID_BYTES
from reclaim.stores.icechunk.repo_document import RepoDocument, RepoEntry, backup_name
from reclaim.stores.icechunk.repo_file import decode_repo
from reclaim.stores.icechunk.repo_schema import EXPIRATION_RAN, GC_RAN
from reclaim.stores.icechunk.withdrawn import Withdrawn, WithdrawnSnapshots

ROUNDS = 50
"""Maximum number of attempts after conflicts with other writers."""
FEW = 8
"""Maximum number of files looked up singly; for more, the folder is listed."""


@dataclass(frozen=True, slots=True)
class RepoTakenBack:
    """Extent to which an edit was reverted, with sentences on the remainder."""

    changed: int
    left: list[str]


class RepoEditor:
    """Edits the ``repo`` of a repository with concurrent writers."""

    def __init__(
        self, storage: Storage, format: IcechunkFormat, withdrawn: WithdrawnSnapshots, clock: Clock
    ) -> None:
        assert isinstance(storage, SwapsObjects)
        self._storage = storage
        self._swaps: SwapsObjects = storage
        self._format = format
        self._withdrawn = withdrawn
        self._clock = clock
        self._address = f"{format.prefix}{REPO}"

    def follow(
        self, listed: Collection[SnapshotId], check: Callable[[], None]
    ) -> frozenset[SnapshotId]:
        """Remove listed snapshots from ``repo``, and put back all other removed snapshots.

        Listed snapshots with references stay, and are returned. ``check`` is called before each
        write, and raises if writing is no longer allowed.
        """
        for _ in range(ROUNDS):
            data, version = self._swaps.get_version(self._address)
            document = RepoDocument.read(data, self._address)
            entries = document.entries()
            kept = _reached(
                entries, [*document.tips(), *(id for id in entries if id not in listed)]
            )
            dropped = {id for id in entries if id in listed and id not in kept}
            before = self._withdrawn.read()
            # Removed by the library in an expiration, and listed by a run since.
            adopted = {id for id, removed in before.items() if removed.pending and id in listed}
            known = _dropping(_settled(before, entries, listed), entries, dropped)
            changed = document.without(dropped)
            fitted = self._restorable(known, changed.entries(), listed)
            check()
            # Record before removal: a snapshot without a record could not be put back.
            self._withdrawn.write(known)
            if dropped or fitted or adopted:
                kind = GC_RAN
                if fitted and all(id in known and known[id].pending for id in fitted):
                    kind = EXPIRATION_RAN
                target = changed.with_entries(fitted)
                if not self._write(target, data, version, check, kind=kind):
                    continue
                settled = adopted.union(fitted)
                known = {
                    id: replace(removed, pending=removed.pending and id not in settled)
                    for id, removed in known.items()
                }
                self._withdrawn.write(_settled(known, target.entries(), listed))
            return kept.intersection(listed)
        raise self._out_of_time()

    def read(self) -> RepoDocument:
        """Current document."""
        return RepoDocument.read(self._storage.get(self._address), self._address)

    def edit(
        self,
        reparent: Mapping[SnapshotId, SnapshotId | None],
        delete_refs: Collection[tuple[RefKind, str]],
        is_as_seen: Callable[[RepoDocument], bool],
        note: Callable[[EditRecord], None],
        check: Callable[[], None],
    ) -> bool:
        """Change parents of snapshots and delete refs, as an expiration does, atomically.

        Return False, with nothing done, if ``repo`` has changed since it was read, or another
        writer was faster. ``note`` receives the edit before it is made.
        """
        data, version = self._swaps.get_version(self._address)
        document = RepoDocument.read(data, self._address)
        if not is_as_seen(document):
            return False
        entries, refs = document.entries(), document.refs()
        record = EditRecord(
            {
                id: EditedParent(entries[id].parent, new, tuple(entries[id].pruned()))
                for id, new in reparent.items()
            },
            {named: refs[named] for named in delete_refs},
        )
        edited = {
            id: entries[id].below(new, pruned_between(entries, id, new))
            for id, new in reparent.items()
        }
        remaining = {named: at for named, at in refs.items() if named not in record.refs}
        check()
        note(record)
        target = document.with_entries(edited).with_refs(remaining)
        return self._write(target, data, version, check, kind=EXPIRATION_RAN)

    def take_back(self, record: EditRecord, check: Callable[[], None]) -> RepoTakenBack:
        """Revert the changed parents and deleted refs of an edit, where unchanged since."""
        for _ in range(ROUNDS):
            data, version = self._swaps.get_version(self._address)
            document = RepoDocument.read(data, self._address)
            entries, refs = document.entries(), document.refs()
            not_reverted: list[str] = []
            fitted: dict[SnapshotId, RepoEntry] = {}
            for id, edited in record.parents.items():
                if id in entries and entries[id].parent == edited.old:
                    continue
                if id not in entries or entries[id].parent != edited.new:
                    not_reverted.append(f"the parent of {id}, which was deleted or changed since")
                elif edited.old is not None and edited.old not in entries:
                    not_reverted.append(
                        f"the parent of {id}, formerly {edited.old}, which was deleted"
                    )
                else:
                    fitted[id] = entries[id].below(edited.old, edited.pruned)
            back = {}
            for (kind, name), at in record.refs.items():
                if (kind, name) not in refs and at in entries:
                    back[kind, name] = at
                elif refs.get((kind, name)) != at:
                    why = "was created again elsewhere" if (kind, name) in refs else f"was at {at}"
                    not_reverted.append(f"the {kind} {name}, which {why}")
            if not fitted and not back:
                return RepoTakenBack(0, not_reverted)
            target = document.with_entries(fitted).with_refs({**refs, **back})
            check()
            if self._write(target, data, version, check, kind=EXPIRATION_RAN):
                return RepoTakenBack(len(fitted) + len(back), not_reverted)
        raise self._out_of_time()

    def rotate_log(self, check: Callable[[], None]) -> None:
        """Rotate the operations log, so that it needs a single backup and its predecessors, and no
        other backup named now.
        """
        for _ in range(ROUNDS):
            data, version = self._swaps.get_version(self._address)
            if not any(update.backup for update in decode_repo(data, self._address).updates):
                return
            document = RepoDocument.read(data, self._address)
            check()
            if self._write(document, data, version, check, kind=GC_RAN, rotate=True):
                return
        raise self._out_of_time()

    def _out_of_time(self) -> OutOfTime:
        return OutOfTime(
            f"{self._address} was changed by others before every attempt to write it",
            hint="nothing was deleted; run it again when there are fewer commits",
        )

    def _restorable(
        self,
        known: Mapping[SnapshotId, Withdrawn],
        present: Mapping[SnapshotId, RepoEntry],
        listed: Collection[SnapshotId],
    ) -> dict[SnapshotId, RepoEntry]:
        """Snapshots to be put back, and snapshots regaining a parent thereby."""
        candidates = {
            id: removed.entry
            for id, removed in known.items()
            if id not in listed and id not in present and not removed.is_back
        }
        whole = self._whole(candidates.keys())
        back = {id: entry for id, entry in candidates.items() if id in whole}
        root = next((id for id, entry in present.items() if entry.parent is None), None)

        def attach(entry: RepoEntry, original: RepoEntry) -> RepoEntry:
            """Attach an entry to the nearest ancestor present or put back, otherwise to the first
            snapshot, with the logs of the bypassed ancestors.
            """
            passed: list[SnapshotId] = []
            at = original.parent
            while at is not None and at not in present and at not in back:
                if at in known:
                    passed.append(at)
                at = known[at].entry.parent if at in known else root
            logs = [log for id in reversed(passed) for log in (*known[id].entry.pruned(), str(id))]
            return entry.below(at, [*logs, *original.pruned()])

        fitted = {id: attach(entry, entry) for id, entry in back.items()}
        for id, removed in known.items():
            # Skip a snapshot re-parented by the library since.
            if removed.is_back and id in present and present[id].parent == removed.stand_in:
                attached = attach(present[id], removed.entry)
                if attached.parent != removed.stand_in:
                    fitted[id] = attached
        return fitted

    def _whole(self, snapshots: Collection[SnapshotId]) -> frozenset[SnapshotId]:
        """Return those snapshots whose files exist; listed snapshots without files would be
        unreadable.
        """
        if len(snapshots) > FEW:
            names = self._format.ids_in(self._storage, SNAPSHOTS)
            return frozenset(id for id in snapshots if id in names)
        return frozenset(filter(self._is_whole, snapshots))

    def _is_whole(self, snapshot: SnapshotId) -> bool:
        try:
            self._storage.head(self._format.address(SNAPSHOTS, snapshot))
        except NotFound:
            return False
        return True

    def _write(
        self,
        document: RepoDocument,
        before: bytes,
        version: str,
        check: Callable[[], None],
        *,
        kind: int,
        rotate: bool = False,
    ) -> bool:
        """Replace ``repo``; return False if it has changed."""
        now = self._clock.now()
        backup = backup_name(now, secrets.token_bytes(ID_BYTES))
        updated = document.updated(now, backup, kind)
        data = (updated.rotated(backup) if rotate else updated).encode()
        address = f"{self._format.prefix}{OVERWRITTEN}/{backup}"
        self._storage.put(address, before, create=True)
        check()
        try:
            self._swaps.swap(self._address, data, version=version)
            # On a disk, a concurrent writer may have overwritten it from an older read.
            certain = self._swaps.swaps_atomically
        except Conflict:
            # The request may have been repeated after a lost response.
            certain = False
        if not certain and not (landed := self._has_landed(backup)):
            if landed is not None:
                self._storage.delete(address)
            return False
        # Objects possibly listed after a power cut must not be deleted.
        self._storage.flush([address, self._address])
        return True

    def _has_landed(self, backup: str) -> bool | None:
        """Whether ``repo`` is the written version or derived from it: its log then names the
        backup, possibly in a part moved to other backups by the library. None if a part of the log
        is missing and the answer is unknown.
        """
        address = self._address
        for _ in range(ROUNDS):
            try:
                repo = decode_repo(self._storage.get(address), address)
            except NotFound:
                return None
            if backup in {repo.before_updates, *(update.backup for update in repo.updates)}:
                return True
            if not repo.before_updates:
                return False
            address = f"{self._format.prefix}{OVERWRITTEN}/{repo.before_updates}"
        return None


def pruned_between(
    entries: Mapping[SnapshotId, RepoEntry], snapshot: SnapshotId, parent: SnapshotId | None
) -> list[str]:
    """Ancestors whose transaction logs a snapshot needs below an ancestor other than its parent;
    oldest first, as in the library.
    """
    skipped: list[SnapshotId] = []
    at = entries[snapshot].parent
    while at is not None and at != parent:
        skipped.append(at)
        at = entries[at].parent
    logs = [log for id in reversed(skipped) for log in (*entries[id].pruned(), str(id))]
    return [*logs, *entries[snapshot].pruned()]


def _reached(
    entries: Mapping[SnapshotId, RepoEntry], roots: Iterable[SnapshotId]
) -> frozenset[SnapshotId]:
    reached: set[SnapshotId] = set()
    for root in roots:
        at: SnapshotId | None = root
        while at is not None and at not in reached:
            reached.add(at)
            at = entries[at].parent
    return frozenset(reached)


def _dropping(
    known: Mapping[SnapshotId, Withdrawn],
    entries: Mapping[SnapshotId, RepoEntry],
    dropped: Collection[SnapshotId],
) -> dict[SnapshotId, Withdrawn]:
    """Records including the snapshots about to be removed: below their original parent, if they
    were waiting for it.
    """
    going = {}
    for id in dropped:
        waited = known.get(id)
        if waited is not None and waited.stand_in == entries[id].parent:
            going[id] = replace(waited, stand_in=None)
        else:
            going[id] = Withdrawn(entries[id])
    return {**known, **going}


def _settled(
    known: Mapping[SnapshotId, Withdrawn],
    entries: Mapping[SnapshotId, RepoEntry],
    listed: Collection[SnapshotId],
) -> dict[SnapshotId, Withdrawn]:
    """Records without the snapshots put back in their original place."""
    settled = {}
    for id, removed in known.items():
        if id in entries and removed.pending:
            continue
        if id in entries and id not in listed:
            if entries[id].parent == removed.entry.parent:
                continue
            if not _is_known(removed.entry.parent, known, entries):
                # Its parent is lost: the snapshot stays below the stand-in.
                continue
            removed = replace(removed, stand_in=removed.stand_in or entries[id].parent)
        settled[id] = removed
    return settled


def _is_known(
    parent: SnapshotId | None,
    known: Mapping[SnapshotId, Withdrawn],
    entries: Mapping[SnapshotId, RepoEntry],
) -> bool:
    """Whether the position of an ancestor is recorded, up to a present ancestor."""
    while parent is not None and parent not in entries:
        if parent not in known:
            return False
        parent = known[parent].entry.parent
    return True
