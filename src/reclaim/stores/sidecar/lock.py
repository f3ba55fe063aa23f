"""Lock of a store as write-once objects.

The object with the highest number is the state of the lock. Every change writes the next number,
which succeeds for a single writer; lower numbers are removed, so a late writer must check for
higher numbers. Deletes started under a lock have ended a request's duration after its expiry; the
lock is taken over only then. The expiry follows the holder's clock, so other runs wait longer by
the maximum difference of clocks.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from reclaim.clock import SKEW, Clock
from reclaim.errors import AlreadyExists, Conflict, LockLost, NotFound
from reclaim.ids import new_uid
from reclaim.lock import LENGTH, REQUEST, TASKS, LockState, TimedLock, lock_changed, lock_taken
from reclaim.process import Process
from reclaim.storage import Storage
from reclaim.stores.sidecar.files import Unreadable, read_document, shown, text_in, time_in

READS = 100
LAST = 10**12 - 1
_NUMBER = re.compile("[0-9]{12}")


@dataclass(frozen=True, slots=True)
class _State:
    number: int
    owner: str
    run: str
    expires_at: datetime | None
    """None after the lock was given back."""
    process: Process | None = None
    damaged: str = ""
    """Damage to the file of this state, if any."""


class SidecarLock(TimedLock):
    """Lock of a store, held by a run."""

    def __init__(self, storage: Storage, prefix: str, clock: Clock, run_id: str) -> None:
        super().__init__(clock, run_id, sure_until=clock.now())
        self._storage = storage
        self._prefix = prefix
        self._owner = new_uid()
        self._turn = threading.Lock()

    def take(self) -> None:
        state = self._read()
        now = self._clock.now()
        if state is not None and state.expires_at is not None:
            free_at = state.expires_at + REQUEST + SKEW
            if now < free_at:
                if state.expires_at > now + LENGTH + 2 * SKEW:
                    file = shown(self._storage, self._address(state.number))
                    raise Conflict(
                        f"the lock {file} was written in the future, by a wrong clock",
                        hint="if no run is active, remove the file; an active run stops by itself",
                    )
                if state.damaged:
                    raise Conflict(
                        f"the lock of this store is damaged: {state.damaged}",
                        hint="if no run is active, remove the file; otherwise it counts as free "
                        f"at {free_at:%F %T} UTC",
                    )
                raise lock_taken("store", _lock_state(state, free_at))
        try:
            self._write((state.number if state else 0) + 1, now + LENGTH)
        except AlreadyExists as error:
            raise Conflict("another run has just taken the lock of this store") from error
        self._sure_until = now + LENGTH

    def state(self) -> LockState | None:
        """State of the lock, if a run holds it or may still be deleting under it."""
        state = self._read()
        if state is None or state.expires_at is None:
            return None
        free_at = state.expires_at + REQUEST + SKEW
        return _lock_state(state, free_at) if self._clock.now() < free_at else None

    def release(self, seen: LockState) -> datetime:
        """Expire the lock of an ended holder now; return the time at which it is free.

        Requests already sent by the holder may arrive for the duration of a request.
        """
        seen.check_release()
        state = self._read()
        if state is None or state.expires_at is None or str(state.number) != seen.version:
            raise lock_changed()
        expires_at = min(self._clock.now(), state.expires_at)
        self._process = state.process
        try:
            self._write(state.number + 1, expires_at, owner=TASKS)
        except AlreadyExists as error:
            raise lock_changed() from error
        return expires_at + REQUEST + SKEW

    @property
    def free_at(self) -> datetime | None:
        free_at = super().free_at
        return None if free_at is None else free_at + SKEW

    def renew(self) -> None:
        with self._turn:
            now = self._clock.now()
            state = self._own_state()
            try:
                self._write(state.number + 1, now + LENGTH)
            except AlreadyExists as error:
                raise LockLost(f"run {self.run_id} lost its lock and stopped") from error
            self._sure_until = now + LENGTH

    def give_back(self) -> None:
        with self._turn, suppress(LockLost, AlreadyExists):
            self._write(self._own_state().number + 1, None)

    def leave(self, time: timedelta) -> None:
        with self._turn, suppress(LockLost, AlreadyExists):
            number = self._own_state().number + 1
            self._write(number, self._clock.now() + time, owner=TASKS)

    def _own_state(self) -> _State:
        state = self._read()
        if state is None or state.owner != self._owner or state.expires_at is None:
            self._sure_until = self._clock.now()
            raise LockLost(f"run {self.run_id} lost its lock and stopped", hint="apply it again")
        if self._clock.now() >= state.expires_at:
            self._sure_until = self._clock.now()
            raise LockLost(f"the lock of run {self.run_id} expired", hint="apply it again")
        return state

    def _read(self) -> _State | None:
        for _ in range(READS):
            numbers = self._numbers()
            if not numbers:
                return None
            # A missing state was the latest until a newer state replaced it.
            with suppress(NotFound):
                return self._state(max(numbers))
        raise Conflict(
            f"the lock in {shown(self._storage, self._prefix)} changes faster than it can be read",
            hint="check the contents of that folder, and the active runs",
        )

    def _numbers(self) -> list[int]:
        """Existing states. Other files in the folder are ignored."""
        names = (
            stored.address.removeprefix(self._prefix)
            for stored in self._storage.list(self._prefix.rstrip("/"))
        )
        return [int(name) for name in names if _NUMBER.fullmatch(name)]

    def _state(self, number: int) -> _State:
        """A state of the lock; an unreadable state counts as held for the length of a lock.

        A lock never outlasts its time of writing by more than its length, so a state with a later
        expiry is damaged as well.
        """
        address = self._address(number)
        written_at = self._storage.head(address).last_modified
        latest = written_at + LENGTH
        file = shown(self._storage, address)
        try:
            document = read_document(self._storage, address)
            owner, run = text_in(document, "owner"), text_in(document, "run")
            free = document.get("expires_at", "") is None
            expires_at = None if free else time_in(document, "expires_at")
        except Unreadable as error:
            return _State(number, "", "", latest, None, f"{file} cannot be read: {error}")
        if expires_at is not None and expires_at > latest + SKEW:
            damage = f"{file} claims to last until {expires_at:%F %T}"
            return _State(number, owner, run, latest, None, damage)
        return _State(number, owner, run, expires_at, Process.decode(document.get("process")))

    def _address(self, number: int) -> str:
        if number > LAST:
            raise Conflict(
                f"the lock in {shown(self._storage, self._prefix)} has an impossible number",
                hint="if no run is active, remove the files in that folder",
            )
        return f"{self._prefix}{number:012d}"

    def _write(self, number: int, expires_at: datetime | None, *, owner: str = "") -> None:
        document = {
            "owner": owner or self._owner,
            "run": self.run_id,
            "expires_at": expires_at and expires_at.isoformat(),
            "process": self._process_text,
        }
        address = self._address(number)
        self._storage.put(address, json.dumps(document).encode(), create=True)
        try:
            self._storage.flush([address])
        except NotFound as error:
            # The holder of a later number removed this file before the flush.
            raise AlreadyExists(f"{address} was replaced by another run") from error
        numbers = self._numbers()
        if any(other > number for other in numbers):
            # Others took later numbers while this process slept, and removed the conflicting file.
            self._storage.delete(address)
            raise AlreadyExists(f"{address} was replaced by another run")
        for other in numbers:
            if other < number:
                self._storage.delete(self._address(other))


def _lock_state(state: _State, free_at: datetime) -> LockState:
    return LockState(
        run=state.run,
        free_at=free_at,
        process=state.process,
        left_to_tasks=state.owner == TASKS,
        version=str(state.number),
    )


@contextmanager
def hold(storage: Storage, prefix: str, clock: Clock, run_id: str) -> Iterator[SidecarLock]:
    """Hold the lock while the block runs; raise ``Conflict`` if another run has it."""
    lock = SidecarLock(storage, prefix, clock, run_id)
    lock.take()
    try:
        with lock.renewed():
            yield lock
    finally:
        lock.end()
