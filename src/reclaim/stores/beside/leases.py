"""Leases as objects: who holds which snapshot, and for how long. Their age is the storage's.

A holder writes its lease and *then* reads the lists of condemned snapshots; a run writes its list
and *then* reads the leases. So one of the two always sees the other.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta

from reclaim.catalog.addresses import new_uid
from reclaim.clock import Clock
from reclaim.errors import Corrupt, Gone, LeaseLapsed, NotFound, ReclaimError
from reclaim.model import Lease, SnapshotId
from reclaim.storage import Storage
from reclaim.stores.beside.condemned import CondemnedLists

log = logging.getLogger(__name__)

REFRESH = timedelta(hours=1)
LENGTH = timedelta(hours=2)

Needs = Callable[[SnapshotId], Collection[SnapshotId]]
"""A snapshot and all that it needs; fails when something of that is not there."""


class Leases:
    """The leases of a store."""

    def __init__(
        self, storage: Storage, prefix: str, clock: Clock, condemned: CondemnedLists
    ) -> None:
        self._storage = storage
        self._prefix = prefix
        self._clock = clock
        self._condemned = condemned

    def all(self) -> list[Lease]:
        """Every lease, lapsed ones too. One that cannot be read stops whoever asks."""
        found = []
        for one in self._storage.list(self._prefix.rstrip("/")):
            try:
                found.append(
                    _decode(one.address, self._storage.get(one.address), one.last_modified)
                )
            except NotFound:
                # Given back while we looked.
                continue
        return sorted(found, key=lambda lease: (lease.refreshed_at, lease.id))

    def valid(self, now: datetime) -> tuple[Lease, ...]:
        return tuple(lease for lease in self.all() if lease.valid_at(now))

    def take(
        self, snapshot: SnapshotId, needs: Needs, *, holder: str, length: timedelta = LENGTH
    ) -> Lease:
        """Take a lease; refused for what is condemned, or needs something that is."""
        lease = Lease(new_uid(), snapshot, holder, self._clock.now(), length)
        self._write(lease)
        try:
            self._check(lease, needs)
        except BaseException:
            self._storage.delete(self._address(lease.id))
            raise
        return lease

    def _check(self, lease: Lease, needs: Needs) -> None:
        # The lists first: what was taken off one of them since is gone, and then found missing.
        lists = self._condemned.all()
        missing: Gone | None = None
        try:
            wanted = set(needs(lease.snapshot))
        except Gone as error:
            missing, wanted = error, {lease.snapshot, SnapshotId(str(error.details.get("layer")))}
        for run, states in lists.items():
            for listed in states.values():
                if lost := wanted & listed.keys():
                    one = min(lost)
                    raise Gone(
                        f"{one} is being collected by run {run} ({listed[one]})",
                        hint="nothing may be held that needs it; look again when that run is over",
                        run=run,
                        rule=listed[one],
                    )
        if missing is not None:
            raise missing

    def renew(self, lease: Lease) -> Lease:
        """Make a lease last for its length from now on; one that lapsed cannot be."""
        address = self._address(lease.id)
        try:
            found = self._storage.head(address)
        except NotFound as error:
            raise LeaseLapsed(f"the lease {lease.id} was given back") from error
        current = _decode(address, self._storage.get(address), found.last_modified)
        if not current.valid_at(self._clock.now()):
            raise LeaseLapsed(
                f"the lease {lease.id} lapsed and cannot be renewed",
                hint="take a new one; that checks that everything is still there",
            )
        now = self._clock.now()
        self._write(current)
        for run, states in self._condemned.all().items():
            if any(lease.snapshot in listed for listed in states.values()):
                raise LeaseLapsed(f"{lease.snapshot} is being collected by run {run}")
        return replace(current, refreshed_at=now)

    def release(self, lease_id: str) -> None:
        try:
            self._storage.head(self._address(lease_id))
        except NotFound as error:
            raise NotFound(
                f"there is no lease {lease_id}", hint="see `reclaim lease list`"
            ) from error
        self._storage.delete(self._address(lease_id))

    @contextmanager
    def held(self, snapshot: SnapshotId, needs: Needs, *, holder: str) -> Iterator[HeldLease]:
        """Hold a snapshot while the block runs, renewing its lease in the background."""
        held = HeldLease(self, self.take(snapshot, needs, holder=holder), self._clock)
        held.start()
        try:
            yield held
        finally:
            held.stop()

    def _address(self, lease_id: str) -> str:
        return f"{self._prefix}{lease_id}.json"

    def _write(self, lease: Lease) -> None:
        told = {
            "snapshot": lease.snapshot,
            "holder": lease.holder,
            "seconds": lease.length.total_seconds(),
        }
        self._storage.put(self._address(lease.id), json.dumps(told).encode())


class HeldLease:
    """A lease of this process. ``check`` fails before anyone may assume the holder dead."""

    def __init__(self, leases: Leases, lease: Lease, clock: Clock) -> None:
        self._leases = leases
        self._clock = clock
        self.lease = lease
        self._sure_until = lease.refreshed_at + lease.length
        self._stop = threading.Event()
        self._renewer = threading.Thread(target=self._keep, name="reclaim-lease", daemon=True)

    def check(self) -> None:
        if self._clock.now() >= self._sure_until:
            raise LeaseLapsed(
                f"the lease on {self.lease.snapshot} could not be renewed in time",
                hint="stop reading; open it again",
            )

    def renew(self) -> None:
        before = self._clock.now()
        self._leases.renew(self.lease)
        self._sure_until = before + self.lease.length

    def start(self) -> None:
        self._renewer.start()

    def stop(self) -> None:
        self._stop.set()
        self._renewer.join()
        try:
            self._leases.release(self.lease.id)
        except ReclaimError as error:
            log.warning("the lease %s was not given back: %s", self.lease.id, error)

    def _keep(self) -> None:
        every = min(REFRESH, self.lease.length / 2).total_seconds()
        while not self._stop.wait(every):
            try:
                self.renew()
            except ReclaimError as error:
                log.warning("the lease %s was not renewed: %s", self.lease.id, error)


def _decode(address: str, data: bytes, refreshed_at: datetime) -> Lease:
    try:
        told = json.loads(data)
        length = timedelta(seconds=float(told["seconds"]))
        snapshot, holder = SnapshotId(str(told["snapshot"])), str(told["holder"])
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(
            f"the lease {address} cannot be read", hint="remove it if nobody needs it"
        ) from error
    name = address.rpartition("/")[2].removesuffix(".json")
    return Lease(name, snapshot, holder, refreshed_at, length)
