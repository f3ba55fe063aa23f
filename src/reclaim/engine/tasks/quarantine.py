"""Quarantine: move objects to a folder of the run instead of deleting them (see ``restoring`` for
the way back).

A quarantined object keeps its address below the folder of the run. Each step is repeatable: an
object missing at its source was moved before. The journal has the identity of each quarantined
object, so nothing else is ever restored or purged.

Before deleting the source of a move, a task checks its time. It can still be paused in between, so
it checks again afterwards. Objects moved too late stay in quarantine, where the next apply, purge
or undo looks for them. Only if an undo has begun, and may have looked before, are they put back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import TypeVar

from reclaim.engine.tasks.deleting import DELETED, MISSING, Taken, Target
from reclaim.errors import Conflict, NotFound, OwnedAddress
from reclaim.model import StoredObject
from reclaim.storage import Storage
from reclaim.storage.pace import InTime, TimeOver, check_time

QUARANTINED, UNTOUCHED = "quarantined", "untouched"
S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class QuarantineFolder:
    """The quarantine of a run: moves objects from below ``prefix`` to below ``folder``."""

    prefix: str
    folder: str

    def of(self, address: str) -> str:
        """Return the quarantine address of an object."""
        if not address.startswith(self.prefix) or address.startswith(self.folder):
            raise OwnedAddress(f"{address!r} cannot be quarantined below {self.folder}")
        return self.folder + address[len(self.prefix) :]

    def home(self, address: str) -> str:
        """Return the original address of a quarantined object."""
        if not address.startswith(self.folder):
            raise OwnedAddress(f"{address!r} was not quarantined below {self.folder}")
        return self.prefix + address[len(self.folder) :]


@dataclass(frozen=True, slots=True)
class ToQuarantine:
    """Moves objects of the store to quarantine.

    ``undo_begun`` is the address of the file an undo of the run writes first. ``again`` says the
    same plan was applied before: objects already in quarantine may be promised, and are never
    overwritten.
    """

    quarantine: QuarantineFolder
    undo_begun: str
    again: bool = False

    @property
    def outcome(self) -> str:
        return QUARANTINED

    def page(self, storage: Storage, targets: Sequence[Target], in_time: InTime) -> Sequence[Taken]:
        taken = each(storage, targets, lambda target: self._take(storage, target, in_time), in_time)
        # Before the journal records it as quarantined.
        pairs = zip(targets, taken, strict=True)
        storage.flush_moved(
            self.quarantine.of(target.address)
            for target, result in pairs
            if result.outcome == QUARANTINED
        )
        return taken

    def take_one(self, storage: Storage, target: Target, in_time: InTime) -> Taken:
        return self.page(storage, [target], in_time)[0]

    def _take(self, storage: Storage, target: Target, in_time: InTime) -> Taken:
        taken = self._set_aside(storage, target, in_time)
        if taken.outcome == QUARANTINED and not in_time():
            self._give_back(storage, target)
            raise TimeOver
        return taken

    def _give_back(self, storage: Storage, target: Target) -> None:
        """Put an object back that was moved too late for an undo.

        Without an undo it stays: another apply may have counted it as quarantined, and every later
        undo looks there.
        """
        if look(storage, self.undo_begun) is None or look(storage, target.address) is not None:
            return
        path = self.quarantine.of(target.address)
        # The undo may be faster. Where a move is a copy, it finds both objects and handles them.
        with suppress(NotFound):
            if storage.at_once == 1:
                storage.move(path, target.address, size=target.size)
            else:
                storage.copy(path, target.address)

    def _set_aside(self, storage: Storage, target: Target, in_time: InTime) -> Taken:
        path = self.quarantine.of(target.address)
        if self.again and (kept := look(storage, path)) is not None:
            return self._taken_before(storage, target, kept, in_time)
        try:
            storage.move(
                target.address, path, size=target.size, last_check=lambda: check_time(in_time)
            )
        except NotFound:
            moved = look(storage, path)
            return Taken(MISSING) if moved is None else _set_aside(storage, moved)
        return _set_aside(storage, storage.head(path))

    def _taken_before(
        self, storage: Storage, target: Target, kept: StoredObject, in_time: InTime
    ) -> Taken:
        if look(storage, target.address) is not None:
            if not storage.same(target.address, kept.address):
                raise Conflict(
                    f"{target.address} was written again after it was quarantined; both were left"
                )
            # The comparison takes time, too.
            check_time(in_time)
            storage.delete(target.address)
        return _set_aside(storage, kept)


def _set_aside(storage: Storage, kept: StoredObject) -> Taken:
    return Taken(QUARANTINED, identity_of(storage, kept))


@dataclass(frozen=True, slots=True)
class PurgeQuarantined:
    """Permanently deletes objects in the quarantine of a run."""

    undos: tuple[datetime, ...]

    @property
    def outcome(self) -> str:
        return DELETED

    def page(self, storage: Storage, targets: Sequence[Target], in_time: InTime) -> Sequence[Taken]:
        taken = each(storage, targets, lambda target: self._look(storage, target), in_time)
        pairs = zip(targets, taken, strict=True)
        if going := [target.address for target, result in pairs if result.outcome == DELETED]:
            check_time(in_time)
            storage.delete_page(going)
        return taken

    def take_one(self, storage: Storage, target: Target, in_time: InTime) -> Taken:
        taken = self._look(storage, target)
        if taken.outcome == DELETED:
            check_time(in_time)
            storage.delete(target.address)
        return taken

    def _look(self, storage: Storage, target: Target) -> Taken:
        kept = look(storage, target.address)
        if kept is None:
            return Taken(MISSING)
        check_own(storage, kept, target, self.undos)
        return Taken(DELETED)


def identity_of(storage: Storage, stored: StoredObject) -> str:
    """Return a mark to distinguish an object from any later object at its address.

    On a disk the time of its last change: moves and backups keep it.
    """
    return stored.etag if storage.at_once > 1 else stored.last_modified.isoformat()


def check_own(
    storage: Storage, kept: StoredObject, target: Target, undos: tuple[datetime, ...]
) -> None:
    """Refuse objects in quarantine that the run did not put there.

    The first identity noted is that of the object; those of its copies may follow.
    """
    known, _, _ = target.identity.partition(" ")
    own = known in ("", identity_of(storage, kept)) or (
        # An interrupted undo may have given it its time already.
        storage.at_once == 1 and kept.last_modified in undos
    )
    if kept.size != target.size or not own:
        raise Conflict(f"{kept.address} is not the object moved to quarantine; it was left")


def look(storage: Storage, address: str) -> StoredObject | None:
    """Return an object, or None if it is missing."""
    try:
        return storage.head(address)
    except NotFound:
        return None


def each(
    storage: Storage, items: Sequence[S], work: Callable[[S], T], in_time: InTime
) -> Sequence[T]:
    """Process each object, with as many requests in flight as the storage allows.

    A task paused in the middle stops when its time is over.
    """

    def timely(item: S) -> T:
        check_time(in_time)
        return work(item)

    if storage.at_once == 1:
        return [timely(item) for item in items]
    with ThreadPoolExecutor(storage.at_once) as pool:
        return list(pool.map(timely, items))
