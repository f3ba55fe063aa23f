"""Removal of empty partitions: their rows, and their epoch counters."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator
from itertools import chain

from sqlalchemy import Connection, delete, select

from reclaim.catalog import addresses
from reclaim.catalog.collection.clones.epochs import left_writers
from reclaim.catalog.database.schema import (
    PartitionState,
    UploadState,
    epoch_writers,
    partitions,
    repositories,
    upload_tokens,
)
from reclaim.catalog.database.sets import among
from reclaim.catalog.database.transactions import Database
from reclaim.catalog.staging.tokens import partitions_in_flight
from reclaim.clock import MICROSECOND, Clock, to_micros
from reclaim.safety import SAFETY
from reclaim.storage import Storage, is_leftover
from reclaim.urls import is_odd

LOOKED_INTO = 200
"""Maximum number of partition folders checked for emptiness per call: each costs a request."""


def remove(database: Database, storage: Storage, clock: Clock, repo_uid: str) -> int:
    """Remove empty partitions closed a month ago; return their number.

    Not to be called while a run can be undone: quarantined objects also belong to partitions.
    Closed partitions receive no writes, and references to missing objects are impossible. Should an
    object still appear, plans are refused until it is adopted or deleted.

    A bucket may list the folder of an empty partition. Each call checks a random selection of the
    listed folders, and listings of partitions ignore empty folders.
    """
    long_closed = _long_closed(database, clock, repo_uid)
    if not long_closed:
        return 0
    for name, folder in list(partition_folders(storage, repo_uid)):
        if name in long_closed:
            storage.drop_folder(folder)
    long_closed -= _with_objects(storage, repo_uid, long_closed)
    long_closed -= left_writers(storage, repo_uid)
    if not long_closed:
        return 0

    def work(connection: Connection) -> int:
        for table, name in ((partitions, partitions.c.id), (epoch_writers, epoch_writers.c.writer)):
            gone = delete(table).where(
                table.c.repo_uid == repo_uid, among(connection, name, long_closed)
            )
            connection.execute(gone)
        return len(long_closed)

    return database.transact(work)


def _with_objects(storage: Storage, repo_uid: str, names: Collection[str]) -> set[str]:
    """Partitions that have objects or were not checked."""
    folders: dict[str, list[str]] = {}
    for name, folder in partition_folders(storage, repo_uid):
        if name in names:
            folders.setdefault(name, []).append(folder)
    looked_into = random.sample(sorted(folders), min(LOOKED_INTO, len(folders)))
    empty = {
        name
        for name in looked_into
        if all(is_leftover(storage, folder) for folder in folders[name])
    }
    return folders.keys() - empty


def partition_folders(storage: Storage, repo_uid: str) -> Iterator[tuple[str, str]]:
    """Yield partition names with their folders in the storage; a name may have several."""
    prefix = addresses.repository(repo_uid)
    branches, _ = storage.folders(f"{prefix}branches")
    for parent in chain(branches, [f"{prefix}_reclaim/meta"]):
        for folder in storage.folders(parent)[0]:
            name = folder.rstrip("/").rsplit("/", 1)[-1]
            if addresses.is_partition(name) and not is_odd(folder):
                yield name, folder


def _long_closed(database: Database, clock: Clock, repo_uid: str) -> set[str]:
    """Closed partitions without a commit in progress or an unexpired upload."""
    with database.read() as connection:
        now = to_micros(database.now(connection, clock))
        pending = select(upload_tokens.c.address).where(
            upload_tokens.c.repo_uid == repo_uid, upload_tokens.c.state == UploadState.PENDING
        )
        uploading = {
            part for address in connection.execute(pending).scalars() for part in address.split("/")
        }
        counting = select(repositories.c.epoch_writer).where(repositories.c.uid == repo_uid)
        closed = select(partitions.c.id).where(
            partitions.c.repo_uid == repo_uid,
            partitions.c.state == PartitionState.CLOSED,
            partitions.c.closed_at < now - SAFETY.records // MICROSECOND,
            partitions.c.id.not_in(partitions_in_flight(repo_uid)),
            partitions.c.id.not_in(counting),
        )
        return set(connection.execute(closed).scalars()) - uploading
