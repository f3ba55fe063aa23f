"""Epochs: detection of a restored backup or a clone of the database.

Every operation writing to the storage counts an epoch: opening and closing a partition, each minute
of writing to it, each commit, and each run. The count is stored in the database and in a marker
object in the storage, both with the name of the writer. The database counts first, so a crash
leaves it ahead of the storage, which is harmless. A marker in the storage with an epoch unknown to
this database was written by another copy.

Several instances count concurrently, so markers can be written out of order. Each instance removes
its own marker after writing a later one, and opening a partition removes all older markers.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Mapping

from sqlalchemy import Connection, case, insert, select, update

from reclaim.catalog import addresses
from reclaim.catalog.database.schema import epoch_writers, partitions, repositories, runs
from reclaim.catalog.database.transactions import Database
from reclaim.errors import AlreadyExists, NotFound, ReclaimError, StorageAhead, StorageUnavailable
from reclaim.storage import Storage

LOOKS = 20

log = logging.getLogger(__name__)


class Epochs:
    """Epoch markers an instance writes to the storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lock = threading.Lock()
        self._newest: dict[str, int] = {}

    def write_marker(
        self, repo_uid: str, epoch: int, writer: str, older: Collection[int] = ()
    ) -> None:
        """Write the marker of a counted epoch; earlier markers become obsolete."""
        marker = addresses.epoch(repo_uid, epoch)
        try:
            self._storage.put(marker, writer.encode(), create=True)
        except AlreadyExists:
            # Our own request may have succeeded without an answer.
            if self._storage.get(marker) != writer.encode():
                raise _ahead(repo_uid) from None
        with self._lock:
            before = self._newest.get(repo_uid, 0)
            self._newest[repo_uid] = max(before, epoch)
        # If another thread has already written a later marker, ours is obsolete.
        superseded = {number for number in older if number < epoch} | {min(before, epoch)}
        for number in sorted(superseded - {0}):
            try:
                self._storage.delete(addresses.epoch(repo_uid, number))
            except ReclaimError as error:
                # Harmless: the database knows its writer, and opening a partition removes it.
                log.warning("could not remove epoch %s of %s: %s", number, repo_uid, error)


def check_epoch(database: Database, storage: Storage, repo_uid: str) -> Collection[int]:
    """Refuse if the storage has epochs unknown to this database; return all of them.

    The storage is read first: the database must know afterwards every marker read. Comparing only
    the newest is not enough, because a copy that has counted further would not detect that the
    original has too.
    """
    markers = _left(storage, repo_uid)
    query = select(repositories.c.epoch, repositories.c.epoch_writer)
    with database.read() as connection:
        known = connection.execute(query.where(repositories.c.uid == repo_uid)).one()
        counted = _counted(connection, repo_uid, set(markers.values()), known.epoch)
    counted[known.epoch_writer] = known.epoch
    for epoch, writer in markers.items():
        if epoch > counted.get(writer, 0) or (
            epoch == known.epoch and writer != known.epoch_writer
        ):
            raise _ahead(repo_uid)
    return markers.keys()


def count_epoch(connection: Connection, repo_uid: str, writer: str) -> int:
    """Count an epoch in the database."""
    epoch = connection.execute(
        update(repositories)
        .where(repositories.c.uid == repo_uid, repositories.c.deleted_at.is_(None))
        .values(epoch=repositories.c.epoch + 1, epoch_writer=writer)
        .returning(repositories.c.epoch)
    ).scalar()
    if epoch is None:
        raise NotFound("the repository was deleted")
    _note_writer(connection, repo_uid, writer, epoch)
    return int(epoch)


def adopt_epoch(database: Database, storage: Storage, repo_uid: str) -> Collection[int]:
    """Accept the storage's epochs and continue from the newest; return all of them."""
    markers = _left(storage, repo_uid)

    def work(connection: Connection) -> None:
        newest = max(markers)
        connection.execute(
            update(repositories)
            .where(repositories.c.uid == repo_uid, repositories.c.epoch <= newest)
            .values(epoch=newest, epoch_writer=markers[newest])
        )
        for epoch, writer in sorted(markers.items()):
            _note_writer(connection, repo_uid, writer, epoch)

    if markers:
        database.transact(work)
    return markers.keys()


def _note_writer(connection: Connection, repo_uid: str, writer: str, epoch: int) -> None:
    """Record the last epoch of a writer. The caller has locked the row of the repository."""
    row = update(epoch_writers).where(
        epoch_writers.c.repo_uid == repo_uid, epoch_writers.c.writer == writer
    )
    latest = case((epoch_writers.c.epoch < epoch, epoch), else_=epoch_writers.c.epoch)
    if not connection.execute(row.values(epoch=latest)).rowcount:
        connection.execute(
            insert(epoch_writers).values(repo_uid=repo_uid, writer=writer, epoch=epoch)
        )


def left_writers(storage: Storage, repo_uid: str) -> frozenset[str]:
    """Writers of the epoch markers in the storage."""
    return frozenset(_left(storage, repo_uid).values())


def _left(storage: Storage, repo_uid: str) -> Mapping[int, str]:
    """Epoch markers in the storage, with their writers."""
    for _ in range(LOOKS):
        try:
            return {
                epoch: storage.get(stored.address).decode(errors="replace")
                for stored in storage.list(addresses.epochs(repo_uid))
                if (epoch := _number(stored.address)) is not None
            }
        except NotFound:
            # Removed since the listing, by an instance with a later marker.
            continue
    raise StorageUnavailable(
        f"the epochs of repository {repo_uid} changed during every read",
        hint="other instances are committing; run it again",
    )


def _number(address: str) -> int | None:
    """Epoch of an address; None for foreign files such as .DS_Store."""
    name = address.rsplit("/", 1)[-1]
    return int(name) if name.isascii() and name.isdigit() else None


def _counted(
    connection: Connection, repo_uid: str, writers: Collection[str], latest: int
) -> dict[str, int]:
    """Last epochs of writers; for writers of older versions only that they are known."""
    counted: dict[str, int] = {}
    for table in (partitions, runs):
        query = select(table.c.id).where(table.c.repo_uid == repo_uid, table.c.id.in_(writers))
        counted.update((writer, latest) for writer in connection.execute(query).scalars())
    query = select(epoch_writers.c.writer, epoch_writers.c.epoch).where(
        epoch_writers.c.repo_uid == repo_uid, epoch_writers.c.writer.in_(writers)
    )
    counted.update({row.writer: row.epoch for row in connection.execute(query)})
    return counted


def _ahead(repo_uid: str) -> StorageAhead:
    return StorageAhead(
        f"the storage of repository {repo_uid} has been written by a newer copy of this database",
        hint="this database is a restored backup or a clone; use the newer database. If this is "
        f"the right database, make it the home: `reclaim doctor --adopt-partitions {repo_uid}`",
    )
