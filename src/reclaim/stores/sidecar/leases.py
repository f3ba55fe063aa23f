"""Leases as objects: holder, snapshot and length. Their age follows the storage's clock.

A holder writes its lease and *then* reads the lists of condemned snapshots; a run writes its list
and *then* reads the leases. At least one of them always sees the other.

Both clocks may deviate from the storage's clock by ``SKEW`` in either direction. A holder therefore
stops earlier by ``SKEW``, and a run waits longer by ``SKEW``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from reclaim.clock import SKEW, Clock
from reclaim.errors import ClockSkew, Gone, LeaseLapsed, NotFound, ReclaimError
from reclaim.ids import new_uid
from reclaim.lease import LONGEST, check_length
from reclaim.model import UNDO_HOLDER, Lease, SnapshotId
from reclaim.renewal import Renewal
from reclaim.safety import SAFETY
from reclaim.storage import Storage
from reclaim.stores.sidecar.condemned import CondemnedLists
from reclaim.stores.sidecar.files import (
    SUFFIX,
    Unreadable,
    damaged,
    read_document,
    text_in,
    write_document,
)

log = logging.getLogger(__name__)

REFRESH = SAFETY.lease_refresh
LENGTH = SAFETY.lease_length
EARLY = SAFETY.clock_skew + SAFETY.budget
"""Duration before the end of a lease at which a holder stops if renewal failed."""

LONGEST_BY_UNDO = timedelta(days=36_500)
"""Effectively for ever, within the range of time arithmetic. Leases of an undo may exceed the limit
of other leases: they last as long as the promised quarantine.
"""

Needs = Callable[[SnapshotId], Collection[SnapshotId]]
"""Returns a snapshot with all its dependencies; fails if a dependency is missing."""


class SidecarLeases:
    """Leases of a store."""

    def __init__(
        self, storage: Storage, prefix: str, clock: Clock, condemned: CondemnedLists
    ) -> None:
        self._storage = storage
        self._prefix = prefix
        self._clock = clock
        self._condemned = condemned

    def all(self) -> list[Lease]:
        """All leases, including lapsed leases. An unreadable lease is an error."""
        leases = []
        for stored in self._storage.list(self._prefix.rstrip("/")):
            if not self._is_lease(stored.address):
                continue
            try:
                leases.append(self._read(stored.address, stored.last_modified))
            except NotFound:
                # Released during the listing.
                continue
        return sorted(leases, key=lambda lease: (lease.refreshed_at, lease.id))

    def valid(self, now: datetime) -> tuple[Lease, ...]:
        """Leases which holders may still rely on, regardless of their clocks.

        Leases of an interrupted undo on snapshots still listed by its run are excluded: those
        snapshots are protected by the run, and are not present to be held.
        """
        leases = [lease for lease in self.all() if lease.valid_at(now - SKEW)]
        if any(lease.undone_run for lease in leases):
            # Read after the leases: an undo writes leases first, then its lists.
            waiting = self._condemned.taken_by_each()
            leases = [
                lease
                for lease in leases
                if lease.snapshot not in waiting.get(lease.undone_run or "", ())
            ]
        return tuple(leases)

    def take(
        self, snapshot: SnapshotId, needs: Needs, *, holder: str, length: timedelta = LENGTH
    ) -> Lease:
        """Take a lease; refuse if the snapshot or a dependency is condemned."""
        check_length(length)
        lease = Lease(new_uid(), snapshot, holder, self._clock.now(), length)
        try:
            self._write(lease)
            self._check(lease, needs)
        except BaseException:
            self._storage.delete(self._address(lease.id))
            raise
        return lease

    def hold_returned(
        self, snapshots: Collection[SnapshotId], run_id: str, until: datetime | None
    ) -> datetime:
        """Hold snapshots restored by an undo until the end of the promised quarantine, but at least
        for a day; return the end.

        Restored snapshots may have no references: without an undo of the edit of the history, they
        would be garbage at once. Only under the lock, before they are removed from the lists.
        """
        now = self._clock.now()
        end = min(max(until or now, now + SAFETY.after_undo), now + LONGEST_BY_UNDO)
        for snapshot in snapshots:
            self._write(Lease(new_uid(), snapshot, f"{UNDO_HOLDER}{run_id}", now, end - now))
        return end

    def release_returned(self, snapshots: Collection[SnapshotId], run_id: str) -> None:
        """Release an undo's leases on snapshots excluded from restoration."""
        going = set(snapshots)
        for lease in self.all():
            if lease.undone_run == run_id and lease.snapshot in going:
                self._storage.delete(self._address(lease.id))

    def _check(self, lease: Lease, needs: Needs) -> None:
        # Read the lists first: snapshots removed from a list since are deleted, and found missing.
        lists = self._condemned.all()
        missing: Gone | None = None
        try:
            needed = set(needs(lease.snapshot))
        except Gone as error:
            missing, needed = error, {lease.snapshot, SnapshotId(str(error.details.get("layer")))}
        for run, states in lists.items():
            for listed in states.values():
                if lost := needed & listed.keys():
                    snapshot = min(lost)
                    raise Gone(
                        f"{snapshot} is being removed by run {run} ({listed[snapshot]})",
                        hint="snapshots depending on it cannot be leased; try again after that run",
                        run=run,
                        rule=listed[snapshot],
                    )
        if missing is not None:
            raise missing

    def renew(self, lease: Lease) -> Lease:
        """Extend a lease by its length from now; refuse if the lease may have lapsed."""
        address = self._address(lease.id)
        try:
            stored = self._storage.head(address)
        except NotFound as error:
            raise LeaseLapsed(f"the lease {lease.id} was released") from error
        current = self._read(address, stored.last_modified)
        if not current.valid_at(self._clock.now() + SKEW):
            raise LeaseLapsed(
                f"the lease {lease.id} has lapsed, or will within {SKEW}, and cannot be renewed",
                hint="take a new lease; this checks that all objects still exist",
            )
        now = self._clock.now()
        self._write(current)
        if not current.valid_at(self._clock.now() + SKEW):
            # After a long pause the lease had lapsed, and a run may have started and finished.
            self._storage.delete(address)
            raise LeaseLapsed(
                f"the lease {lease.id} lapsed while it was renewed",
                hint="take a new lease; this checks that all objects still exist",
            )
        for run, states in self._condemned.all().items():
            if any(lease.snapshot in listed for listed in states.values()):
                raise LeaseLapsed(f"{lease.snapshot} is being removed by run {run}")
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
        return f"{self._prefix}{lease_id}{SUFFIX}"

    def _is_lease(self, address: str) -> bool:
        name = address.removeprefix(self._prefix)
        return name.endswith(SUFFIX) and "/" not in name

    def _read(self, address: str, refreshed_at: datetime) -> Lease:
        name = address.removeprefix(self._prefix).removesuffix(SUFFIX)
        try:
            return _decode(name, read_document(self._storage, address), refreshed_at)
        except Unreadable as error:
            raise damaged(
                self._storage,
                address,
                "the lease",
                error,
                hint="it may hold a snapshot, so runs refuse to continue; remove the file if "
                "nobody needs it (`reclaim lease release`)",
            ) from error

    def _write(self, lease: Lease) -> None:
        document = {
            "snapshot": lease.snapshot,
            "holder": lease.holder,
            "seconds": lease.length.total_seconds(),
        }
        address = self._address(lease.id)
        before = self._clock.now()
        write_document(self._storage, address, document)
        written_at = self._storage.head(address).last_modified
        if not before - SKEW <= written_at <= self._clock.now() + SKEW:
            raise ClockSkew(
                f"this machine's clock says {before:%F %T} UTC and the storage's "
                f"{written_at:%F %T} UTC: a lease would not last for its length",
                hint="set the clock, then take the lease again",
            )


class HeldLease:
    """A lease of this process. ``check`` fails before others may assume the holder dead."""

    def __init__(self, leases: SidecarLeases, lease: Lease, clock: Clock) -> None:
        self._leases = leases
        self._clock = clock
        self.lease = lease
        self._renewal = Renewal(self, f"the lease {lease.id}")
        self._sure_until = lease.refreshed_at + lease.length - EARLY

    def check(self) -> None:
        if self._clock.now() >= self._sure_until:
            raise LeaseLapsed(
                f"the lease on {self.lease.snapshot} could not be renewed in time"
                f"{self._renewal.failure_text()}",
                hint="stop reading; open it again",
            )

    def renew(self) -> None:
        before = self._clock.now()
        self._leases.renew(self.lease)
        self._sure_until = before + self.lease.length - EARLY

    def start(self) -> None:
        self._renewal.start(min(REFRESH, self.lease.length / 2))

    def stop(self) -> None:
        self._renewal.close()
        try:
            self._leases.release(self.lease.id)
        except ReclaimError as error:
            log.warning("the lease %s was not released: %s", self.lease.id, error)


def _decode(name: str, document: Mapping[str, Any], refreshed_at: datetime) -> Lease:
    seconds = document.get("seconds")
    snapshot, holder = SnapshotId(text_in(document, "snapshot")), text_in(document, "holder")
    # A longer lease than the maximum is damaged.
    longest = LONGEST_BY_UNDO if holder.startswith(UNDO_HOLDER) else LONGEST
    if not isinstance(seconds, int | float) or not 0 < seconds <= longest.total_seconds():
        raise Unreadable(f"it lasts for {seconds!r} seconds")
    return Lease(name, snapshot, holder, refreshed_at, timedelta(seconds=seconds))
