"""The editor of ``repo``: takes snapshots out and puts them back, by compare and swap."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from reclaim.clock import Clock
from reclaim.errors import Conflict, NotFound, OutOfTime
from reclaim.model import SnapshotId
from reclaim.storage import Storage, SwapsObjects
from reclaim.stores.icechunk.addresses import OVERWRITTEN, REPO, SNAPSHOTS
from reclaim.stores.icechunk.format import IcechunkFormat
from reclaim.stores.icechunk.object_ids import ID_BYTES
from reclaim.stores.icechunk.repo_document import Entry, RepoDocument, backup_name
from reclaim.stores.icechunk.repo_file import decode_repo
from reclaim.stores.icechunk.withdrawn import Withdrawn, WithdrawnSnapshots

ROUNDS = 50
"""So often it is tried again when somebody else was faster."""


class RepoEditor:
    """Edits the ``repo`` of a repository that others write to as well."""

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
        """Let ``repo`` have no snapshot that is listed, and every other one that was taken out.

        What something refers to stays although it is listed, and is returned. ``check`` is asked
        before each write, and raises if one may not write any more.
        """
        for _ in range(ROUNDS):
            data, version = self._swaps.get_version(self._address)
            document = RepoDocument.read(data, self._address)
            entries = document.entries()
            kept = _reached(
                entries, [*document.tips(), *(one for one in entries if one not in listed)]
            )
            dropped = {one for one in entries if one in listed and one not in kept}
            before = self._withdrawn.read()
            known = _dropping(_settled(before, entries, listed), entries, dropped)
            changed = document.without(dropped)
            fitted = self._fitted(known, changed.entries(), listed)
            check()
            # Before they are out: what is written down nowhere could not come back.
            self._withdrawn.write(known)
            if dropped or fitted:
                if not self._write(changed.with_entries(fitted), data, version, check):
                    continue
                there = changed.with_entries(fitted).entries()
                self._withdrawn.write(_settled(known, there, listed))
            return kept.intersection(listed)
        raise OutOfTime(
            f"{self._address} was changed by others each time that it was to be written",
            hint="nothing was deleted; run it again when fewer commits are being made",
        )

    def _fitted(
        self,
        known: Mapping[SnapshotId, Withdrawn],
        there: Mapping[SnapshotId, Entry],
        listed: Collection[SnapshotId],
    ) -> dict[SnapshotId, Entry]:
        """The snapshots that come back, and those that get back a parent which does."""
        back = {
            one: found.entry
            for one, found in known.items()
            if one not in listed and one not in there and not found.is_back and self._is_whole(one)
        }
        first = next((one for one, entry in there.items() if entry.parent is None), None)

        def nearest(parent: SnapshotId | None) -> SnapshotId | None:
            """The nearest ancestor that is there or comes back; the first snapshot if none is."""
            while parent is not None and parent not in there and parent not in back:
                parent = known[parent].entry.parent if parent in known else first
            return parent

        fitted = {one: replace(entry, parent=nearest(entry.parent)) for one, entry in back.items()}
        for one, found in known.items():
            # Unless the library has given it another one since.
            if found.is_back and one in there and there[one].parent == found.stand_in:
                parent = nearest(found.entry.parent)
                if parent != found.stand_in:
                    fitted[one] = replace(there[one], parent=parent)
        return fitted

    def _is_whole(self, snapshot: SnapshotId) -> bool:
        """Whether the file of a snapshot is there; without it nobody could read what is listed."""
        try:
            self._storage.head(self._format.address(SNAPSHOTS, snapshot))
        except NotFound:
            return False
        return True

    def _write(
        self, document: RepoDocument, before: bytes, version: str, check: Callable[[], None]
    ) -> bool:
        """Write ``repo`` in the place of what it was; False if it is that no more."""
        now = self._clock.now()
        backup = backup_name(now, secrets.token_bytes(ID_BYTES))
        data = document.updated(now, backup).encode()
        address = f"{self._format.prefix}{OVERWRITTEN}/{backup}"
        self._storage.put(address, before, create=True)
        check()
        try:
            self._swaps.swap(self._address, data, version=version)
            # On a disk somebody may have written over it, who had read what was there before.
            certain = self._swaps.swaps_atomically
        except Conflict:
            # An answer may have been lost, and the request sent once more.
            certain = False
        if not certain and not self._has_landed(backup):
            self._storage.delete(address)
            return False
        # Nothing may be deleted of what could still be listed after a power cut.
        self._storage.flush([address, self._address])
        return True

    def _has_landed(self, backup: str) -> bool:
        """Whether ``repo`` is what was written, or has been made from it since."""
        repo = decode_repo(self._storage.get(self._address), self._address)
        return backup in {update.backup for update in repo.updates}


def _reached(
    entries: Mapping[SnapshotId, Entry], roots: Iterable[SnapshotId]
) -> frozenset[SnapshotId]:
    found: set[SnapshotId] = set()
    for root in roots:
        at: SnapshotId | None = root
        while at is not None and at not in found:
            found.add(at)
            at = entries[at].parent
    return frozenset(found)


def _dropping(
    known: Mapping[SnapshotId, Withdrawn],
    entries: Mapping[SnapshotId, Entry],
    dropped: Collection[SnapshotId],
) -> dict[SnapshotId, Withdrawn]:
    """What is written down, with what is about to be taken out: below its own parent, if it has
    waited for that."""
    going = {}
    for one in dropped:
        waited = known.get(one)
        if waited is not None and waited.stand_in == entries[one].parent:
            going[one] = replace(waited, stand_in=None)
        else:
            going[one] = Withdrawn(entries[one])
    return {**known, **going}


def _settled(
    known: Mapping[SnapshotId, Withdrawn],
    entries: Mapping[SnapshotId, Entry],
    listed: Collection[SnapshotId],
) -> dict[SnapshotId, Withdrawn]:
    """What is written down, without what is back as it was."""
    settled = {}
    for one, found in known.items():
        if one in entries and one not in listed:
            if entries[one].parent == found.entry.parent:
                continue
            found = replace(found, stand_in=found.stand_in or entries[one].parent)
        settled[one] = found
    return settled
