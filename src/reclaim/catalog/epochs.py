"""Epochs: how a restored backup or a clone of the database is noticed.

Each opening of a partition counts an epoch, in the database and in an object of the storage, and
both name the writer. A storage that knows a later epoch than the database, or another writer of
the same one, has been written by a newer copy of this database. The database counts first, so a
crash leaves it ahead of the storage, which is harmless.
"""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from reclaim.catalog import addresses
from reclaim.catalog.database import Database
from reclaim.catalog.schema import repositories
from reclaim.errors import AlreadyExists, NotFound, StorageAhead
from reclaim.storage import Storage


def check_epoch(database: Database, storage: Storage, repo_uid: str) -> list[str]:
    """Refuse when the storage is ahead of the database; returns the epoch objects there are.

    The storage is read first: what it knows then, the database must know afterwards.
    """
    listed = sorted(stored.address for stored in storage.list(addresses.epochs(repo_uid)))
    newest = listed[-1] if listed else ""
    writer = storage.get(newest).decode() if newest else ""
    query = select(repositories.c.epoch, repositories.c.epoch_writer)
    with database.read() as connection:
        known = connection.execute(query.where(repositories.c.uid == repo_uid)).one()
    mine = addresses.epoch(repo_uid, known.epoch)
    if newest > mine or (newest == mine and writer != known.epoch_writer):
        raise _ahead(repo_uid)
    return listed


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
    return int(epoch)


def leave_epoch(storage: Storage, repo_uid: str, epoch: int, writer: str, older: list[str]) -> None:
    """Leave the epoch in the storage, and remove the objects of earlier ones."""
    mine = addresses.epoch(repo_uid, epoch)
    try:
        storage.put(mine, writer.encode(), create=True)
    except AlreadyExists:
        # A request that was answered late may be our own.
        if storage.get(mine) != writer.encode():
            raise _ahead(repo_uid) from None
    for address in older:
        if address < mine:
            storage.delete(address)


def adopt_epoch(database: Database, storage: Storage, repo_uid: str) -> None:
    """Count on from the storage's epoch, if it is ahead of the database's."""
    listed = sorted(stored.address for stored in storage.list(addresses.epochs(repo_uid)))
    if not listed:
        return
    newest = int(listed[-1].rsplit("/", 1)[-1])
    writer = storage.get(listed[-1]).decode()
    behind = update(repositories).where(
        repositories.c.uid == repo_uid, repositories.c.epoch <= newest
    )
    database.transact(
        lambda connection: connection.execute(behind.values(epoch=newest, epoch_writer=writer))
    )


def _ahead(repo_uid: str) -> StorageAhead:
    return StorageAhead(
        f"the storage of repository {repo_uid} has been written by a newer copy of this database",
        hint="this database is a restored backup or a clone; use the newer one, or, if this is the "
        "right one, see `reclaim doctor --adopt-partitions`",
    )
