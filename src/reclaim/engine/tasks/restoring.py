"""Restore quarantined objects: an object leaves quarantine only after the object at its address is
verified.

On a disk a file is renamed, and gets the time of the undo, by which a later undo recognizes it.
Elsewhere it is copied, and the copy's identity may differ from the object's: some storages give
every write a new etag, and the etag of a multipart upload depends on its parts. So the identity of
a copy is noted before the quarantined object is deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from reclaim.engine.tasks.deleting import FAILED, MISSING, RESTORED, Taken, Target
from reclaim.engine.tasks.notes import RETURNED, Noted, write_note
from reclaim.engine.tasks.parts import Place, open_storage
from reclaim.engine.tasks.quarantine import (
    QUARANTINED,
    UNTOUCHED,
    QuarantineFolder,
    check_own,
    each,
    identity_of,
    look,
)
from reclaim.errors import Conflict, Corrupt, ReclaimError
from reclaim.model import StoredObject
from reclaim.storage import Storage
from reclaim.storage.pace import InTime, check_time


@dataclass(frozen=True, slots=True)
class Returning:
    """An object on its way back: its outcome so far, or the object and its copy."""

    target: Target
    taken: Taken | None = None
    kept: StoredObject | None = None
    copy: StoredObject | None = None
    """The object at the original address with the same bytes; None if a rename is left to do."""


@dataclass(frozen=True, slots=True)
class FromQuarantine:
    """Moves quarantined objects to their original addresses, as if written now.

    An object at the original address is left, unless it is the same. ``undos`` are the times of all
    undos of the run, this undo last. ``notes`` is the folder for notes of this undo; None if no
    later run could find them.
    """

    quarantine: QuarantineFolder
    undos: tuple[datetime, ...]
    notes: Place | None = None

    @property
    def outcome(self) -> str:
        return RESTORED

    def page(self, storage: Storage, targets: Sequence[Target], in_time: InTime) -> Sequence[Taken]:
        if storage.at_once == 1:
            # One after the other: an object may depend on those before it.
            self._note_unknown(storage, targets)
            taken = each(
                storage,
                targets,
                lambda target: self._delete_originals(
                    storage, [self._prepare(storage, target)], in_time
                )[0],
                in_time,
            )
        else:
            prepared = each(
                storage, targets, lambda target: self._prepare(storage, target), in_time
            )
            taken = self._delete_originals(storage, prepared, in_time)
        # Before anything records it as restored.
        pairs = zip(targets, taken, strict=True)
        storage.flush_moved(
            self.quarantine.home(target.address)
            for target, result in pairs
            if result.outcome == RESTORED
        )
        return taken

    def take_one(self, storage: Storage, target: Target, in_time: InTime) -> Taken:
        return self.page(storage, [target], in_time)[0]

    def _prepare(self, storage: Storage, target: Target) -> Returning:
        """Make sure an object is at its original address, or can be renamed to it."""
        home = self.quarantine.home(target.address)
        kept = look(storage, target.address)
        if kept is None:
            return Returning(target, self._not_in_quarantine(storage, target, home))
        check_own(storage, kept, target, self.undos)
        copy = look(storage, home)
        if copy is None and storage.at_once > 1:
            storage.copy(target.address, home)
            copy = storage.head(home)
            if copy.size != kept.size:
                raise Corrupt(f"{home} was restored with {copy.size} of {kept.size} bytes")
        elif copy is not None and not storage.same(home, target.address):
            raise Conflict(f"{home} holds other bytes than the copy in quarantine; both were left")
        return Returning(target, None, kept, copy)

    def _delete_originals(
        self, storage: Storage, prepared: Sequence[Returning], in_time: InTime
    ) -> Sequence[Taken]:
        """Note copies with unknown identities, and delete the quarantined objects."""
        notes = (self._returned(storage, item) for item in prepared)
        self._note(storage, [note for note in notes if note])
        for item in prepared:
            if item.kept is not None and item.copy is None:
                storage.move(
                    item.target.address,
                    self.quarantine.home(item.target.address),
                    size=item.kept.size,
                    fresh=self.undos[-1],
                    last_check=lambda: check_time(in_time),
                )
        copied = [item.target.address for item in prepared if item.copy is not None]
        failed = self._delete(storage, copied, in_time)
        return [item.taken or failed.get(item.target.address, Taken(RESTORED)) for item in prepared]

    def _delete(
        self, storage: Storage, addresses: Sequence[str], in_time: InTime
    ) -> dict[str, Taken]:
        """Delete objects whose copies are in place; return the failures."""
        if not addresses:
            return {}
        check_time(in_time)
        try:
            storage.delete_page(addresses)
        except ReclaimError:
            return dict(self._delete_each(storage, addresses, in_time))
        return {}

    def _delete_each(
        self, storage: Storage, addresses: Sequence[str], in_time: InTime
    ) -> Sequence[tuple[str, Taken]]:
        failed = []
        for address in addresses:
            check_time(in_time)
            try:
                storage.delete(address)
            except ReclaimError as error:
                failed.append((address, Taken(FAILED, error=str(error))))
        return failed

    def _returned(self, storage: Storage, item: Returning) -> Noted | None:
        """Return the note of a copy; None if earlier notes identify it."""
        if item.kept is None or item.copy is None:
            return None
        copied = identity_of(storage, item.copy)
        if copied in item.target.identity.split():
            return None
        known = item.target.identity or identity_of(storage, item.kept)
        home = self.quarantine.home(item.target.address)
        return Noted(home, item.target.size, RETURNED, f"{known} {copied}")

    def _note_unknown(self, storage: Storage, targets: Sequence[Target]) -> None:
        """Note objects in quarantine that no journal has, before renaming them.

        Otherwise nobody could tell afterwards whether they were ever quarantined.
        """
        unknown = [
            Noted(
                self.quarantine.home(target.address),
                target.size,
                QUARANTINED,
                identity_of(storage, kept),
            )
            for target in targets
            if not target.identity and (kept := look(storage, target.address)) is not None
        ]
        self._note(storage, unknown)

    def _note(self, storage: Storage, rows: Sequence[Noted]) -> None:
        if self.notes is not None:
            own = storage if self.notes.url == storage.url else open_storage(self.notes.url)
            write_note(own, self.notes.prefix, rows)

    def _not_in_quarantine(self, storage: Storage, target: Target, home: str) -> Taken:
        there = look(storage, home)
        if there is not None and self._is_back(storage, there, target):
            return Taken(RESTORED)
        if not target.identity:
            # It was never moved, as far as known.
            return Taken(UNTOUCHED if there else MISSING)
        raise Conflict(f"{home} is not in quarantine, and {_difference(there, target)}")

    def _is_back(self, storage: Storage, there: StoredObject, target: Target) -> bool:
        """Return whether the object at an original address is the previous object, or a copy by an
        undo."""
        if there.size != target.size:
            return False
        if storage.at_once == 1 and there.last_modified in self.undos:
            return True
        return identity_of(storage, there) in target.identity.split()


def _difference(there: StoredObject | None, target: Target) -> str:
    """Return why the object at an original address does not count as the previous object."""
    if there is None:
        return "its original address is empty"
    if there.size != target.size:
        return f"its original address has {there.size} bytes instead of {target.size}"
    return (
        "its original address has an object of the same size, which may differ: it was "
        f"written {there.last_modified:%F %T} UTC, by no undo in the run's record"
    )
