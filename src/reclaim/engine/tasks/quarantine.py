"""Setting objects aside instead of deleting them, and deleting them then (see ``restoring``).

What is set aside keeps its address below a folder of the run. Each step can be done again: an
object that is not where it is taken from has been taken before. What was set aside is known by
the identity that the journal has of it, so that nothing else is ever brought back or deleted.

Whoever moves something asks for the time right before its source goes. A pause can still come in
between, so it asks once more afterwards. What was moved too late stays aside, where whoever comes
next looks for it: another apply, a purge, or an undo. Only when an undo has begun, which may have
looked before, is it put back.
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
class Aside:
    """Where a run sets objects of a store aside: from below ``prefix`` to below ``folder``."""

    prefix: str
    folder: str

    def of(self, address: str) -> str:
        """Where an object of the store is set aside."""
        if not address.startswith(self.prefix) or address.startswith(self.folder):
            raise OwnedAddress(f"{address!r} cannot be quarantined below {self.folder}")
        return self.folder + address[len(self.prefix) :]

    def home(self, address: str) -> str:
        """Where an object that was set aside belongs."""
        if not address.startswith(self.folder):
            raise OwnedAddress(f"{address!r} was not quarantined below {self.folder}")
        return self.prefix + address[len(self.folder) :]


@dataclass(frozen=True, slots=True)
class SetAside:
    """Moves objects of the store aside.

    ``undo_begun`` is the address of the file that an undo of the run writes before it looks at
    anything. ``again`` says that the same plan was applied before: then what is aside already was
    promised to somebody, and nothing is moved over it.
    """

    aside: Aside
    undo_begun: str
    again: bool = False

    @property
    def outcome(self) -> str:
        return QUARANTINED

    def page(self, storage: Storage, targets: Sequence[Target], in_time: InTime) -> Sequence[Taken]:
        taken = each(storage, targets, lambda target: self._take(storage, target, in_time), in_time)
        # Before the journal says that it is aside.
        pairs = zip(targets, taken, strict=True)
        storage.flush_moved(
            self.aside.of(target.address) for target, one in pairs if one.outcome == QUARANTINED
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
        """Put back what was moved too late for an undo that has begun.

        Unless one has begun, it stays: another apply may have counted it as set aside, and whoever
        begins from now on looks there.
        """
        if look(storage, self.undo_begun) is None or look(storage, target.address) is not None:
            return
        aside = self.aside.of(target.address)
        # The undo may be faster. Where moving is copying, it finds both and takes care of them.
        with suppress(NotFound):
            if storage.at_once == 1:
                storage.move(aside, target.address, size=target.size)
            else:
                storage.copy(aside, target.address)

    def _set_aside(self, storage: Storage, target: Target, in_time: InTime) -> Taken:
        aside = self.aside.of(target.address)
        if self.again and (kept := look(storage, aside)) is not None:
            return self._taken_before(storage, target, kept, in_time)
        try:
            storage.move(
                target.address, aside, size=target.size, last_check=lambda: check_time(in_time)
            )
        except NotFound:
            moved = look(storage, aside)
            return Taken(MISSING) if moved is None else _set_aside(storage, moved)
        return _set_aside(storage, storage.head(aside))

    def _taken_before(
        self, storage: Storage, target: Target, kept: StoredObject, in_time: InTime
    ) -> Taken:
        if look(storage, target.address) is not None:
            if not storage.same(target.address, kept.address):
                raise Conflict(
                    f"{target.address} was written anew after it went to quarantine; both were left"
                )
            # Comparing them takes its time too.
            check_time(in_time)
            storage.delete(target.address)
        return _set_aside(storage, kept)


def _set_aside(storage: Storage, kept: StoredObject) -> Taken:
    return Taken(QUARANTINED, identity_of(storage, kept))


@dataclass(frozen=True, slots=True)
class Discard:
    """Deletes for good what a run has set aside."""

    undos: tuple[datetime, ...]

    @property
    def outcome(self) -> str:
        return DELETED

    def page(self, storage: Storage, targets: Sequence[Target], in_time: InTime) -> Sequence[Taken]:
        taken = each(storage, targets, lambda target: self._look(storage, target), in_time)
        pairs = zip(targets, taken, strict=True)
        if going := [target.address for target, one in pairs if one.outcome == DELETED]:
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
    """The mark that tells an object from any other that may come to its address.

    On a disk the time of its last change: moving a file keeps that, and so do backups.
    """
    return stored.etag if storage.at_once > 1 else stored.last_modified.isoformat()


def check_own(
    storage: Storage, kept: StoredObject, target: Target, undos: tuple[datetime, ...]
) -> None:
    """Refuse what is in quarantine and was not put there by the run.

    Its identity is the first that is noted of it; those of its copies may follow.
    """
    known, _, _ = target.identity.partition(" ")
    own = known in ("", identity_of(storage, kept)) or (
        # An undo that was cut off may have given it its time already.
        storage.at_once == 1 and kept.last_modified in undos
    )
    if kept.size != target.size or not own:
        raise Conflict(f"{kept.address} is not what was moved to quarantine; it was left")


def look(storage: Storage, address: str) -> StoredObject | None:
    """An object, if it is there."""
    try:
        return storage.head(address)
    except NotFound:
        return None


def each(
    storage: Storage, items: Sequence[S], work: Callable[[S], T], in_time: InTime
) -> Sequence[T]:
    """Do something to each object, with as many requests on the way as the storage likes.

    Whoever was stopped for a while in the middle does not go on when the time is over.
    """

    def timely(item: S) -> T:
        check_time(in_time)
        return work(item)

    if storage.at_once == 1:
        return [timely(item) for item in items]
    with ThreadPoolExecutor(storage.at_once) as pool:
        return list(pool.map(timely, items))
