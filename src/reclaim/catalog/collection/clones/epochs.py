"""Epochs: how a restored backup or a clone of the database is noticed.

Whatever writes into the storage counts an epoch: the opening and closing of a partition, each
minute in which it is written, each commit, and each run. The count is in the database and in an
object of the storage, and both name the writer. The database counts first, so a crash leaves it
ahead of the storage, which is harmless. An epoch in the storage that this database has not
counted was left by another copy of it.

Several instances count at once, so an epoch may be left after a later one. Each instance removes
what it left itself once it has left a later one, and an opening removes all that are older.
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
    """The epochs that one instance leaves in the storage."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lock = threading.Lock()
        self._newest: dict[str, int] = {}

    def leave(self, repo_uid: str, epoch: int, writer: str, older: Collection[int] = ()) -> None:
        """Leave an epoch that the database has counted; those before it are not needed any more."""
        mine = addresses.epoch(repo_uid, epoch)
        try:
            self._storage.put(mine, writer.encode(), create=True)
        except AlreadyExists:
            # A request that was answered late may be our own.
            if self._storage.get(mine) != writer.encode():
                raise _ahead(repo_uid) from None
        with self._lock:
            before = self._newest.get(repo_uid, 0)
            self._newest[repo_uid] = max(before, epoch)
        # Another thread may have left a later one first: then it is ours that is not needed.
        superseded = {number for number in older if number < epoch} | {min(before, epoch)}
        for number in sorted(superseded - {0}):
            try:
                self._storage.delete(addresses.epoch(repo_uid, number))
            except ReclaimError as error:
                # Harmless: the database knows who counted it, and the next opening removes it.
                log.warning("epoch %s of %s was not removed: %s", number, repo_uid, error)


def check_epoch(database: Database, storage: Storage, repo_uid: str) -> Collection[int]:
    """Refuse when the storage has epochs that this database has not counted; returns all of them.

    The storage is read first: what it has then, the database must know afterwards. The newest is
    not enough. A copy that has counted on would not see by it that the original did as well.
    """
    left = _left(storage, repo_uid)
    query = select(repositories.c.epoch, repositories.c.epoch_writer)
    with database.read() as connection:
        known = connection.execute(query.where(repositories.c.uid == repo_uid)).one()
        counted = _counted(connection, repo_uid, set(left.values()), known.epoch)
    counted[known.epoch_writer] = known.epoch
    for epoch, writer in left.items():
        if epoch > counted.get(writer, 0) or (
            epoch == known.epoch and writer != known.epoch_writer
        ):
            raise _ahead(repo_uid)
    return left.keys()


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
    """Accept the storage's epochs and go on from the newest of them; returns all of them."""
    left = _left(storage, repo_uid)

    def work(connection: Connection) -> None:
        newest = max(left)
        connection.execute(
            update(repositories)
            .where(repositories.c.uid == repo_uid, repositories.c.epoch <= newest)
            .values(epoch=newest, epoch_writer=left[newest])
        )
        for epoch, writer in sorted(left.items()):
            _note_writer(connection, repo_uid, writer, epoch)

    if left:
        database.transact(work)
    return left.keys()


def _note_writer(connection: Connection, repo_uid: str, writer: str, epoch: int) -> None:
    """Note how far a writer has counted. The row of the repository is locked by an update."""
    row = update(epoch_writers).where(
        epoch_writers.c.repo_uid == repo_uid, epoch_writers.c.writer == writer
    )
    latest = case((epoch_writers.c.epoch < epoch, epoch), else_=epoch_writers.c.epoch)
    if not connection.execute(row.values(epoch=latest)).rowcount:
        connection.execute(
            insert(epoch_writers).values(repo_uid=repo_uid, writer=writer, epoch=epoch)
        )


def left_writers(storage: Storage, repo_uid: str) -> frozenset[str]:
    """The writers of the epochs that are in the storage."""
    return frozenset(_left(storage, repo_uid).values())


def _left(storage: Storage, repo_uid: str) -> Mapping[int, str]:
    """The epochs in the storage, and who left them."""
    for _ in range(LOOKS):
        try:
            return {
                epoch: storage.get(stored.address).decode(errors="replace")
                for stored in storage.list(addresses.epochs(repo_uid))
                if (epoch := _number(stored.address)) is not None
            }
        except NotFound:
            # Removed since it was listed, by someone who has left a later one.
            continue
    raise StorageUnavailable(
        f"the epochs of repository {repo_uid} changed each time that they were read",
        hint="other instances commit all the time; run it again",
    )


def _number(address: str) -> int | None:
    """The epoch that an address names; None for what others left there, such as .DS_Store."""
    name = address.rsplit("/", 1)[-1]
    return int(name) if name.isascii() and name.isdigit() else None


def _counted(
    connection: Connection, repo_uid: str, writers: Collection[str], latest: int
) -> dict[str, int]:
    """How far writers have counted; of those of an older version, only that they are known."""
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
        hint="this database is a restored backup or a clone; use the newer one, or, if this is the "
        f"right one, make it the home: `reclaim doctor --adopt-partitions {repo_uid}`",
    )
