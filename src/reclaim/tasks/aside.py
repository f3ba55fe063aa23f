"""Setting objects aside instead of deleting them, bringing them back, and ending that.

What is set aside keeps its address below a folder of the run. Each step can be done again: an
object that is not where it is taken from has been taken before. What was set aside is known by
the identity that the journal has of it, so that nothing else is ever brought back or deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from reclaim.errors import Conflict, NotFound, OwnedAddress
from reclaim.model import StoredObject
from reclaim.storage import Storage
from reclaim.tasks.deleting import DELETED, MISSING, RESTORED, Taken, Target

QUARANTINED, UNTOUCHED = "quarantined", "untouched"
TOUCHING = timedelta(seconds=2)
"""How much coarser than a clock the times of files may be."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Aside:
    """Where a run sets objects of a store aside: from below ``prefix`` to below ``folder``."""

    prefix: str
    folder: str

    def of(self, address: str) -> str:
        """Where an object of the store is set aside."""
        if not address.startswith(self.prefix) or address.startswith(self.folder):
            raise OwnedAddress(f"{address!r} cannot be set aside below {self.folder}")
        return self.folder + address[len(self.prefix) :]

    def home(self, address: str) -> str:
        """Where an object that was set aside belongs."""
        if not address.startswith(self.folder):
            raise OwnedAddress(f"{address!r} was not set aside below {self.folder}")
        return self.prefix + address[len(self.folder) :]


@dataclass(frozen=True, slots=True)
class SetAside:
    """Moves objects of the store aside.

    ``again`` says that the same plan was applied before: then what is aside already was promised
    to somebody, and nothing is moved over it.
    """

    aside: Aside
    again: bool = False

    @property
    def outcome(self) -> str:
        return QUARANTINED

    def page(self, storage: Storage, targets: Sequence[Target]) -> Sequence[Taken]:
        return each(storage, targets, lambda target: self.one(storage, target))

    def one(self, storage: Storage, target: Target) -> Taken:
        aside = self.aside.of(target.address)
        if self.again and (kept := look(storage, aside)) is not None:
            return self._taken_before(storage, target, kept)
        try:
            storage.move(target.address, aside, size=target.size)
        except NotFound:
            moved = look(storage, aside)
            return Taken(MISSING) if moved is None else _set_aside(storage, moved)
        return _set_aside(storage, storage.head(aside))

    def _taken_before(self, storage: Storage, target: Target, kept: StoredObject) -> Taken:
        if look(storage, target.address) is not None:
            if not storage.same(target.address, kept.address):
                raise Conflict(
                    f"{target.address} was written anew after it had been set aside; both were left"
                )
            storage.delete(target.address)
        return _set_aside(storage, kept)


def _set_aside(storage: Storage, kept: StoredObject) -> Taken:
    return Taken(QUARANTINED, identity_of(storage, kept))


@dataclass(frozen=True, slots=True)
class BringBack:
    """Moves what was set aside to where it was, as if it were written now.

    What lies at its old place is left, unless it is the same. ``begun`` is when the run was first
    begun to be undone: an undo that was cut off may have changed the time of a file since.
    """

    aside: Aside
    begun: datetime

    @property
    def outcome(self) -> str:
        return RESTORED

    def page(self, storage: Storage, targets: Sequence[Target]) -> Sequence[Taken]:
        taken = each(storage, targets, lambda target: self.one(storage, target))
        pairs = zip(targets, taken, strict=True)
        # Before anything says that they are back.
        storage.flush_moved(
            self.aside.home(target.address) for target, one in pairs if one.outcome == RESTORED
        )
        return taken

    def one(self, storage: Storage, target: Target) -> Taken:
        home = self.aside.home(target.address)
        kept = look(storage, target.address)
        if kept is None:
            return self._not_aside(storage, target, home)
        check_identity(storage, kept, target, begun=self.begun)
        if look(storage, home) is None:
            storage.move(target.address, home, size=kept.size, fresh=True)
        elif storage.same(home, target.address):
            # It was brought back before, or made again.
            storage.delete(target.address)
        else:
            raise Conflict(f"{home} holds other bytes now than were set aside; both were left")
        return Taken(RESTORED)

    def _not_aside(self, storage: Storage, target: Target, home: str) -> Taken:
        there = look(storage, home)
        if not target.identity:
            # Nobody knows whether it was ever moved.
            return Taken(UNTOUCHED if there else MISSING)
        if there is None or there.size != target.size:
            raise Conflict(f"{home} is neither in quarantine nor at its old place")
        return Taken(RESTORED)


@dataclass(frozen=True, slots=True)
class Discard:
    """Deletes for good what a run has set aside."""

    begun: datetime

    @property
    def outcome(self) -> str:
        return DELETED

    def page(self, storage: Storage, targets: Sequence[Target]) -> Sequence[Taken]:
        taken = each(storage, targets, lambda target: self._look(storage, target))
        pairs = zip(targets, taken, strict=True)
        if going := [target.address for target, one in pairs if one.outcome == DELETED]:
            storage.delete_page(going)
        return taken

    def one(self, storage: Storage, target: Target) -> Taken:
        taken = self._look(storage, target)
        if taken.outcome == DELETED:
            storage.delete(target.address)
        return taken

    def _look(self, storage: Storage, target: Target) -> Taken:
        kept = look(storage, target.address)
        if kept is None:
            return Taken(MISSING)
        check_identity(storage, kept, target, begun=self.begun)
        return Taken(DELETED)


def identity_of(storage: Storage, stored: StoredObject) -> str:
    """What tells an object from any other that may come to its address.

    On a disk the time of its last change: moving a file keeps that, and so do backups.
    """
    return stored.etag if storage.at_once > 1 else stored.last_modified.isoformat()


def check_identity(
    storage: Storage, kept: StoredObject, target: Target, *, begun: datetime
) -> None:
    """Refuse what is in quarantine and was not put there by the run."""
    known = target.identity in ("", identity_of(storage, kept))
    touched = storage.at_once == 1 and kept.last_modified >= begun - TOUCHING
    if kept.size != target.size or not (known or touched):
        raise Conflict(f"{kept.address} is not what was set aside there; it was left")


def look(storage: Storage, address: str) -> StoredObject | None:
    """An object, if it is there."""
    try:
        return storage.head(address)
    except NotFound:
        return None


def each(storage: Storage, targets: Sequence[Target], work: Callable[[Target], T]) -> Sequence[T]:
    """Do something to each object, with as many requests on the way as the storage likes."""
    if storage.at_once == 1:
        return [work(target) for target in targets]
    with ThreadPoolExecutor(storage.at_once) as pool:
        return list(pool.map(work, targets))
