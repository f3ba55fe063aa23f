"""Partitions: protection of bytes being written.

An instance writes data and containers only into its own open partition, a database row created
before the first byte. It renews the row every minute. A partition is closed when its uploads and
commits have finished, or by the collector if its owner has not renewed it for ``OVERDUE``. Closing
is final, and a transaction referring to new bytes checks that the partition is still open: a
collector and a slow writer cannot both succeed.
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
    """The partition was closed during a write; its new bytes belong to the collector."""


@dataclass(slots=True)
class Partition:
    """Open partition of this instance, as this process sees it."""

    repo_uid: str
    id: str
    opened_at: int
    renewed_at: int
    counted_at: int
    """Time of its last epoch marker in the storage."""
    objects: int = 0
    uses: int = 0
    ended: int = 0
    """Number of uses that have ended, and this number at the last epoch."""
    announced: int = 0

    def new_object(self, branch: str) -> str:
        self.objects += 1
        return addresses.new_object(self.repo_uid, branch, self.id, self.objects)

    def new_container(self, digest: str) -> str:
        self.objects += 1
        return addresses.new_container(self.repo_uid, self.id, digest)


class Partitions:
    """Open partitions of an instance (an opened catalog)."""

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
        """The open partition for writing; it stays open until the block ends."""
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
        """Run work that writes into the open partition; repeat it once if the partition was closed.

        A closed partition means the collector considered this instance dead. The written bytes have
        no references, so the work can simply be repeated.
        """
        try:
            return self.write_once(repo_uid, work)
        except PartitionClosed:
            return self.write_once(repo_uid, work)

    def write_once(self, repo_uid: str, work: Callable[[Partition], T]) -> T:
        """Run work that cannot be repeated; ``PartitionClosed`` if its bytes were collected."""
        with self.use(repo_uid) as partition, self._detecting_closure(partition):
            return work(partition)

    def write_epoch_marker(self, partition: Partition, epoch: int) -> None:
        """Write the marker of an epoch counted for a partition to the storage."""
        self.epochs.write_marker(partition.repo_uid, epoch, partition.id)
        partition.counted_at = to_micros(self._clock.now())

    def renew(self) -> None:
        """Renew the partitions in the database; renewing cannot reopen a partition."""
        with self._lock:
            partitions_to_renew = [*self._open.values(), *self._retired]
            for partition in partitions_to_renew:
                try:
                    self._renew(partition)
                    self._announce(partition)
                except ReclaimError as error:
                    # Its next use and every dependent transaction check the database.
                    log.warning("could not renew partition %s: %s", partition.id, error)

    def close(self) -> None:
        """Close all unused partitions; the others become overdue and are closed later."""
        self._renewal.close()
        with self._lock:
            self._retired.extend(self._open.values())
            self._open.clear()
            self._close_idle()

    @contextmanager
    def _detecting_closure(self, partition: Partition) -> Iterator[None]:
        """Raise ``PartitionClosed`` for missing bytes if the partition was closed."""
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
            # Marks changes in the storage that are only staged.
            self.write_epoch_marker(
                partition, self._database.transact(partial(advance_epoch, partition=partition))
            )
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
        # Names must differ even if the clock does not advance.
        opened_at = self._last_opened = max(now, self._last_opened + 1)
        partition = Partition(repo_uid, partition_id(opened_at, self.instance), opened_at, now, now)
        older = check_epoch(self._database, self._storage, repo_uid)
        self._home.claim()

        def insert_row(connection: Connection) -> int:
            epoch = advance_epoch(connection, partition)
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
            self.epochs.write_marker(repo_uid, epoch, partition.id, older)
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
        """Write an epoch marker after new uses of the partition, so database copies detect them."""
        ended = partition.ended
        if ended != partition.announced:
            # Not needed for a deleted repository.
            with suppress(NotFound):
                self.write_epoch_marker(
                    partition, self._database.transact(partial(advance_epoch, partition=partition))
                )
            partition.announced = ended

    def _forget(self, partition: Partition) -> None:
        """Stop writing into a partition closed by another instance."""
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
                    epoch = advance_epoch(connection, partition)
            now = to_micros(self._clock.now())
            close_partition(connection, partition.repo_uid, partition.id, now)
            return epoch

        try:
            epoch = self._database.transact(work)
        except ReclaimError as error:
            # Safe: an open row only protects bytes, until it is overdue.
            log.warning("could not close partition %s: %s", partition.id, error)
            return
        try:
            if epoch is not None:
                self.write_epoch_marker(partition, epoch)
        except ReclaimError as error:
            log.warning(
                "could not write the epoch of the closed partition %s: %s", partition.id, error
            )


def partition_id(opened_at: int, instance: str) -> str:
    """``<descending time>_<instance>``: the newest partition sorts first."""
    return f"{(1 << 56) - 1 - opened_at:014x}_{instance}"


def advance_epoch(connection: Connection, partition: Partition) -> int:
    """Count an epoch for a partition in the database; the caller then writes its marker."""
    return count_epoch(connection, partition.repo_uid, partition.id)


def check_open(connection: Connection, partition: Partition) -> None:
    """Lock the partition's row and fail unless it is open: the fence between writer and collector.

    To be called in the transaction creating the first reference to bytes in the partition.
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
    """Close a partition; a closed partition stays unchanged."""
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
    """Register unknown partitions as closed."""
    query = select(partitions.c.id).where(partitions.c.repo_uid == repo_uid)
    known = set(connection.execute(query).scalars())
    rows = [
        {
            "repo_uid": repo_uid,
            "id": partition,
            "instance": partition.partition("_")[2],
            "state": PartitionState.CLOSED,
            "opened_at": now,
            "renewed_at": now,
            "closed_at": now,
        }
        for partition in sorted(set(unknown) - known)
    ]
    if rows:
        connection.execute(insert(partitions), rows)
