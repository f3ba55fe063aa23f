"""The lock of a store as objects, each of which can be written only once.

The object with the highest number is the state of the lock. Every change writes the next number,
which succeeds for one and fails for all others; lower ones are removed, so that whoever was late
must look whether there are higher ones. Deletes that were sent on the strength of a lock
have ended a request's time after its expiry; only then is it taken over.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from reclaim.catalog.addresses import new_uid
from reclaim.clock import Clock
from reclaim.errors import AlreadyExists, Conflict, LockLost, NotFound
from reclaim.lock import LENGTH, REQUEST, TASKS, TimedLock, taken
from reclaim.storage import Storage


@dataclass(frozen=True, slots=True)
class _State:
    number: int
    owner: str
    run: str
    expires_at: datetime | None
    """None once it was given back."""


class Lock(TimedLock):
    """The lock of a store, in the hands of one run."""

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
            free_at = state.expires_at + REQUEST
            if now < free_at:
                raise taken("store", state.run, state.owner, free_at)
        try:
            self._write((state.number if state else 0) + 1, now + LENGTH)
        except AlreadyExists as error:
            raise Conflict("another run took the lock of this store just now") from error
        self._sure_until = now + LENGTH

    def renew(self) -> None:
        with self._turn:
            now = self._clock.now()
            state = self._mine()
            try:
                self._write(state.number + 1, now + LENGTH)
            except AlreadyExists as error:
                raise LockLost(f"run {self.run_id} lost its lock and stopped") from error
            self._sure_until = now + LENGTH

    def give_back(self) -> None:
        with self._turn, suppress(LockLost, AlreadyExists):
            self._write(self._mine().number + 1, None)

    def leave(self, time: timedelta) -> None:
        with self._turn, suppress(LockLost, AlreadyExists):
            number = self._mine().number + 1
            self._write(number, self._clock.now() + time, owner=TASKS)

    def _mine(self) -> _State:
        state = self._read()
        if state is None or state.owner != self._owner or state.expires_at is None:
            self._sure_until = self._clock.now()
            raise LockLost(f"run {self.run_id} lost its lock and stopped", hint="apply it again")
        if self._clock.now() >= state.expires_at:
            self._sure_until = self._clock.now()
            raise LockLost(f"the lock of run {self.run_id} expired", hint="apply it again")
        return state

    def _read(self) -> _State | None:
        while True:
            numbers = [
                int(name)
                for one in self._storage.list(self._prefix.rstrip("/"))
                if (name := one.address.removeprefix(self._prefix)).isdigit()
            ]
            if not numbers:
                return None
            number = max(numbers)
            try:
                told = json.loads(self._storage.get(f"{self._prefix}{number:012d}"))
            except NotFound:
                # Someone wrote a newer one and tidied up.
                continue
            when = told["expires_at"]
            expires_at = datetime.fromisoformat(when) if when else None
            return _State(number, told["owner"], told["run"], expires_at)

    def _write(self, number: int, expires_at: datetime | None, *, owner: str = "") -> None:
        told = {
            "owner": owner or self._owner,
            "run": self.run_id,
            "expires_at": expires_at and expires_at.isoformat(),
        }
        address = f"{self._prefix}{number:012d}"
        self._storage.put(address, json.dumps(told).encode(), create=True)
        there = [one.address for one in self._storage.list(self._prefix.rstrip("/"))]
        if any(one > address for one in there):
            # Others went on while this one slept, and had removed what it met with.
            self._storage.delete(address)
            raise AlreadyExists(f"{address} was written and removed before")
        for one in there:
            if one < address:
                self._storage.delete(one)


@contextmanager
def hold(storage: Storage, prefix: str, clock: Clock, run_id: str) -> Iterator[Lock]:
    """Hold the lock while the block runs; a ``Conflict`` if another run has it."""
    lock = Lock(storage, prefix, clock, run_id)
    lock.take()
    try:
        with lock.renewed():
            yield lock
    finally:
        lock.end()
