"""Partitions: how bytes in flight are protected.

An instance writes data and containers only into its own open partition, which is a row in the
database written before the first byte. It renews the row every minute. A partition is closed
when its uploads and commits have finished, or by the collector when its owner has not renewed
it for ``OVERDUE``. Closing is terminal, and whoever makes a reference to fresh bytes checks in
the same transaction that the partition is still open: a collector and a slow writer cannot
both win.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection, insert, select, update

from reclaim.catalog import addresses
from reclaim.catalog.collection.clones.epochs import Epochs, check_epoch, count_epoch
from reclaim.catalog.collection.clones.homes import Home
from reclaim.catalog.database.schema import PartitionState, partitions
from reclaim.catalog.database.transactions import Database
from reclaim.clock import MICROSECOND, Clock, to_micros
from reclaim.errors import NotFound, ReclaimError, TransactionFailed
from reclaim.ids import new_uid
from reclaim.renewal import Renewal
from reclaim.safety import SAFETY
from reclaim.storage import Storage

ROLL_OBJECTS = 50_000
ROLL_AGE = timedelta(minutes=60)
RENEW_EVERY = SAFETY.partition_renewal
OVERDUE = SAFETY.partition_overdue

T = TypeVar("T")

log = logging.getLogger(__name__)


class PartitionClosed(TransactionFailed):
    """The partition was closed under its writer; what it wrote there belongs to the collector."""


@dataclass(slots=True)
class Partition:
    """An open partition of this instance, as this process sees it."""

    repo_uid: str
    id: str
    opened_at: int
    renewed_at: int
    counted_at: int
    """When an epoch of it was left in the storage."""
    objects: int = 0
    uses: int = 0
    ended: int = 0
    """How many uses have ended, and how many had when an epoch was counted last."""
    announced: int = 0

    def new_object(self, branch: str) -> str:
        self.objects += 1
        return addresses.new_object(self.repo_uid, branch, self.id, self.objects)

    def new_container(self, digest: str) -> str:
        self.objects += 1
        return addresses.new_container(self.repo_uid, self.id, digest)


class Partitions:
    """The partitions that one instance (one opened catalog) has open."""

    def __init__(self, database: Database, storage: Storage, clock: Clock, home: Home) -> None:
        self._database = database
        self._storage = storage
        self._clock = clock
        self._home = home
        self._lock = threading.RLock()
        self._open: dict[str, Partition] = {}
        self._retired: list[Partition] = []
        self._last_opened = 0
        self._renewal = Renewal(self, "the partitions of this process")
        self.epochs = Epochs(storage)
        self.instance = new_uid()

    @contextmanager
    def use(self, repo_uid: str) -> Iterator[Partition]:
        """The open partition to write into; it stays open until the block ends."""
        with self._lock:
            partition = self._current(repo_uid)
            partition.uses += 1
        try:
            yield partition
        except PartitionClosed:
            with self._lock:
                self._forget(partition)
            raise
        finally:
            with self._lock:
                partition.uses -= 1
                partition.ended += 1
                self._close_idle()

    def write(self, repo_uid: str, work: Callable[[Partition], T]) -> T:
        """Run work that writes into the open partition; once more if it is closed meanwhile.

        Then the collector took this instance for dead. Nothing refers to what was written, so it
        can simply be written again.
        """
        try:
            return self.write_once(repo_uid, work)
        except PartitionClosed:
            return self.write_once(repo_uid, work)

    def write_once(self, repo_uid: str, work: Callable[[Partition], T]) -> T:
        """Run work that cannot be repeated; ``PartitionClosed`` if its bytes went meanwhile."""
        with self.use(repo_uid) as partition, self._swept(partition):
            return work(partition)

    def leave(self, partition: Partition, epoch: int) -> None:
        """Leave an epoch that was counted for a partition in the storage."""
        self.epochs.leave(partition.repo_uid, epoch, partition.id)
        partition.counted_at = to_micros(self._clock.now())

    def renew(self) -> None:
        """Tell the database that this instance still works; renewing cannot reopen."""
        with self._lock:
            held = [*self._open.values(), *self._retired]
            for partition in held:
                try:
                    self._renew(partition)
                    self._announce(partition)
                except ReclaimError as error:
                    # Its next use, and every transaction that relies on it, asks the database.
                    log.warning("partition %s could not be renewed: %s", partition.id, error)

    def close(self) -> None:
        """Close everything that is not in use; the rest becomes overdue and is closed later."""
        self._renewal.close()
        with self._lock:
            self._retired.extend(self._open.values())
            self._open.clear()
            self._close_idle()

    @contextmanager
    def _swept(self, partition: Partition) -> Iterator[None]:
        """Raise that the partition is closed, if that is why what was just written is not there."""
        try:
            yield
        except NotFound:
            with self._database.write() as connection:
                check_open(connection, partition)
            raise

    def _current(self, repo_uid: str) -> Partition:
        now = to_micros(self._clock.now())
        partition = self._open.get(repo_uid)
        if partition is not None and now - partition.renewed_at > RENEW_EVERY // MICROSECOND:
            self._renew(partition)
            partition = self._open.get(repo_uid)
        if partition is not None and now - partition.counted_at > RENEW_EVERY // MICROSECOND:
            # What is only staged leaves its trace in the storage by this.
            self.leave(partition, self._database.transact(partial(count, partition=partition)))
        if partition is not None and (
            partition.objects >= ROLL_OBJECTS
            or now - partition.opened_at >= ROLL_AGE // MICROSECOND
        ):
            self._retired.append(self._open.pop(repo_uid))
            self._close_idle()
            partition = None
        if partition is None:
            partition = self._open[repo_uid] = self._open_new(repo_uid, now)
            self._renewal.start(RENEW_EVERY)
        return partition

    def _open_new(self, repo_uid: str, now: int) -> Partition:
        # Names must differ even when the clock stands still.
        opened_at = self._last_opened = max(now, self._last_opened + 1)
        partition = Partition(repo_uid, partition_id(opened_at, self.instance), opened_at, now, now)
        older = check_epoch(self._database, self._storage, repo_uid)
        self._home.claim()

        def insert_row(connection: Connection) -> int:
            epoch = count(connection, partition)
            connection.execute(
                insert(partitions).values(
                    repo_uid=repo_uid,
                    id=partition.id,
                    instance=self.instance,
                    state=PartitionState.OPEN,
                    opened_at=opened_at,
                    renewed_at=now,
                )
            )
            return epoch

        epoch = self._database.transact(insert_row)
        try:
            self.epochs.leave(repo_uid, epoch, partition.id, older)
        except ReclaimError:
            self._close_row(partition)
            raise
        return partition

    def _renew(self, partition: Partition) -> None:
        now = to_micros(self._clock.now())
        with self._database.write() as connection:
            renewed = connection.execute(
                update(partitions)
                .where(
                    partitions.c.repo_uid == partition.repo_uid,
                    partitions.c.id == partition.id,
                    partitions.c.state == PartitionState.OPEN,
                )
                .values(renewed_at=now)
            ).rowcount
        if renewed:
            partition.renewed_at = now
        else:
            self._forget(partition)

    def _announce(self, partition: Partition) -> None:
        """Leave an epoch if the partition was used since: an idle one must not hide from a copy."""
        ended = partition.ended
        if ended != partition.announced:
            # Of a deleted repository nobody needs to know.
            with suppress(NotFound):
                self.leave(partition, self._database.transact(partial(count, partition=partition)))
            partition.announced = ended

    def _forget(self, partition: Partition) -> None:
        """A partition that was closed by someone else is not written into again."""
        if self._open.get(partition.repo_uid) is partition:
            del self._open[partition.repo_uid]

    def _close_idle(self) -> None:
        idle = [partition for partition in self._retired if partition.uses == 0]
        self._retired = [partition for partition in self._retired if partition.uses > 0]
        for partition in idle:
            self._close_row(partition)

    def _close_row(self, partition: Partition) -> None:
        def work(connection: Connection) -> int | None:
            epoch = None
            if partition.objects:
                with suppress(NotFound):
                    epoch = count(connection, partition)
            now = to_micros(self._clock.now())
            close_partition(connection, partition.repo_uid, partition.id, now)
            return epoch

        try:
            epoch = self._database.transact(work)
        except ReclaimError as error:
            # Safe to leave: an open row only protects bytes, until it is overdue.
            log.warning("partition %s was left open: %s", partition.id, error)
            return
        try:
            if epoch is not None:
                self.leave(partition, epoch)
        except ReclaimError as error:
            log.warning("closing partition %s left no epoch: %s", partition.id, error)


def partition_id(opened_at: int, instance: str) -> str:
    """``<descending time>_<instance>``: the newest partition sorts first."""
    return f"{(1 << 56) - 1 - opened_at:014x}_{instance}"


def count(connection: Connection, partition: Partition) -> int:
    """Count an epoch for a partition in the database; ``Partitions.leave`` is to follow."""
    return count_epoch(connection, partition.repo_uid, partition.id)


def check_open(connection: Connection, partition: Partition) -> None:
    """Lock the partition's row and fail unless it is open: the fence between writer and collector.

    To be called in the transaction that makes the first reference to bytes in the partition.
    """
    query = (
        select(partitions.c.state)
        .where(partitions.c.repo_uid == partition.repo_uid, partitions.c.id == partition.id)
        .with_for_update(read=True)
    )
    if connection.execute(query).scalar() != PartitionState.OPEN:
        raise PartitionClosed(
            f"partition {partition.id} was closed while it was being written",
            hint="run it again; a writer that stalls for 15 minutes loses its partition",
        )


def close_partition(connection: Connection, repo_uid: str, partition: str, now: int) -> None:
    """Close a partition; one that is closed already stays as it is."""
    connection.execute(
        update(partitions)
        .where(
            partitions.c.repo_uid == repo_uid,
            partitions.c.id == partition,
            partitions.c.state == PartitionState.OPEN,
        )
        .values(state=PartitionState.CLOSED, closed_at=now)
    )


def adopt(connection: Connection, repo_uid: str, unknown: Iterable[str], now: int) -> None:
    """Register partitions that are not known yet as closed."""
    query = select(partitions.c.id).where(partitions.c.repo_uid == repo_uid)
    known = set(connection.execute(query).scalars())
    rows = [
        {
            "repo_uid": repo_uid,
            "id": found,
            "instance": found.partition("_")[2],
            "state": PartitionState.CLOSED,
            "opened_at": now,
            "renewed_at": now,
            "closed_at": now,
        }
        for found in sorted(set(unknown) - known)
    ]
    if rows:
        connection.execute(insert(partitions), rows)
