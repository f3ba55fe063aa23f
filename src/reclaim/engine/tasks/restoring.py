"""Bringing back what was set aside: it goes only when what is at its old place is known for good.

On a disk a file is renamed, and gets the time of the undo, by which a later undo knows it again.
Elsewhere it is copied, and what tells the copy from other bytes need not be what told the object:
some storages give every write a new etag, and one of an object in parts depends on the parts. So a
copy is noted by its own identity before the object goes.
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
    Aside,
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
    """An object on its way back: what became of it already, or the object and its copy."""

    target: Target
    taken: Taken | None = None
    kept: StoredObject | None = None
    copy: StoredObject | None = None
    """The object at its old place that holds the same; None if it is to be renamed."""


@dataclass(frozen=True, slots=True)
class BringBack:
    """Moves what was set aside to where it was, as if it were written now.

    What lies at its old place is left, unless it is the same. ``undos`` are the times of all undos
    of the run, this one last. ``notes`` is where this one notes what it does; None if nothing could
    find that again.
    """

    aside: Aside
    undos: tuple[datetime, ...]
    notes: Place | None = None

    @property
    def outcome(self) -> str:
        return RESTORED

    def page(self, storage: Storage, targets: Sequence[Target], in_time: InTime) -> Sequence[Taken]:
        if storage.at_once == 1:
            # One after the other: what one holds can depend on those before it.
            self._note_unknown(storage, targets)
            taken = each(
                storage,
                targets,
                lambda target: self._settle(storage, [self._prepare(storage, target)], in_time)[0],
                in_time,
            )
        else:
            prepared = each(
                storage, targets, lambda target: self._prepare(storage, target), in_time
            )
            taken = self._settle(storage, prepared, in_time)
        # Before anything says that it is back.
        pairs = zip(targets, taken, strict=True)
        storage.flush_moved(
            self.aside.home(target.address) for target, one in pairs if one.outcome == RESTORED
        )
        return taken

    def take_one(self, storage: Storage, target: Target, in_time: InTime) -> Taken:
        return self.page(storage, [target], in_time)[0]

    def _prepare(self, storage: Storage, target: Target) -> Returning:
        """See to it that an object is at its old place, or can be renamed to it."""
        home = self.aside.home(target.address)
        kept = look(storage, target.address)
        if kept is None:
            return Returning(target, self._not_aside(storage, target, home))
        check_own(storage, kept, target, self.undos)
        copy = look(storage, home)
        if copy is None and storage.at_once > 1:
            storage.copy(target.address, home)
            copy = storage.head(home)
            if copy.size != kept.size:
                raise Corrupt(f"{home} was brought back as {copy.size} bytes of {kept.size}")
        elif copy is not None and not storage.same(home, target.address):
            raise Conflict(f"{home} holds other bytes than the copy in quarantine; both were left")
        return Returning(target, None, kept, copy)

    def _settle(
        self, storage: Storage, prepared: Sequence[Returning], in_time: InTime
    ) -> Sequence[Taken]:
        """Note the copies that would not be known again, and let the objects go."""
        self._note(storage, [noted for one in prepared if (noted := self._returned(storage, one))])
        for one in prepared:
            if one.kept is not None and one.copy is None:
                storage.move(
                    one.target.address,
                    self.aside.home(one.target.address),
                    size=one.kept.size,
                    fresh=self.undos[-1],
                    last_check=lambda: check_time(in_time),
                )
        copied = [one.target.address for one in prepared if one.copy is not None]
        failed = self._delete(storage, copied, in_time)
        return [one.taken or failed.get(one.target.address, Taken(RESTORED)) for one in prepared]

    def _delete(
        self, storage: Storage, addresses: Sequence[str], in_time: InTime
    ) -> dict[str, Taken]:
        """Delete objects whose copies are in their place; those that could not be."""
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

    def _returned(self, storage: Storage, one: Returning) -> Noted | None:
        """The note of a copy; None if it is known by what is noted already."""
        if one.kept is None or one.copy is None:
            return None
        copied = identity_of(storage, one.copy)
        if copied in one.target.identity.split():
            return None
        known = one.target.identity or identity_of(storage, one.kept)
        home = self.aside.home(one.target.address)
        return Noted(home, one.target.size, RETURNED, f"{known} {copied}")

    def _note_unknown(self, storage: Storage, targets: Sequence[Target]) -> None:
        """Write down what is aside although no journal says so, before it is renamed.

        Otherwise nobody could tell afterwards whether it was ever aside.
        """
        found = [
            Noted(
                self.aside.home(target.address),
                target.size,
                QUARANTINED,
                identity_of(storage, kept),
            )
            for target in targets
            if not target.identity and (kept := look(storage, target.address)) is not None
        ]
        self._note(storage, found)

    def _note(self, storage: Storage, rows: Sequence[Noted]) -> None:
        if self.notes is not None:
            own = storage if self.notes.url == storage.url else open_storage(self.notes.url)
            write_note(own, self.notes.prefix, rows)

    def _not_aside(self, storage: Storage, target: Target, home: str) -> Taken:
        there = look(storage, home)
        if there is not None and self._is_back(storage, there, target):
            return Taken(RESTORED)
        if not target.identity:
            # It was never moved, as far as anybody knows.
            return Taken(UNTOUCHED if there else MISSING)
        raise Conflict(f"{home} is not in quarantine, and {_unlike(there, target)}")

    def _is_back(self, storage: Storage, there: StoredObject, target: Target) -> bool:
        """Whether an object at an old place is the one that was there, or a copy of ours."""
        if there.size != target.size:
            return False
        if storage.at_once == 1 and there.last_modified in self.undos:
            return True
        return identity_of(storage, there) in target.identity.split()


def _unlike(there: StoredObject | None, target: Target) -> str:
    """Why what lies at an old place does not count as what was there."""
    if there is None:
        return "nothing is at its old place"
    if there.size != target.size:
        return f"its old place has {there.size} bytes where it had {target.size}"
    return (
        "its old place has as many bytes as it had, and nothing tells whether they are the same: "
        f"they were written {there.last_modified:%F %T} UTC, by no undo that the run's record knows"
    )
