"""Who stands still between two steps, or in the middle of a transaction, for a few milliseconds."""

from __future__ import annotations

import random
import time

from sqlalchemy import Table

from reclaim.catalog import Catalog
from reclaim.storage import Payload, Storage
from reclaim.testing import StorageWrapper

LONGEST = 0.02
"""In seconds."""
IN_PARTITIONS = ("/branches/", "/_reclaim/meta/")
"""Folders of what is written into partitions."""


def stall(chance: random.Random) -> None:
    """Stand still, in every other case."""
    time.sleep(chance.choice((0, chance.uniform(0, LONGEST))))


def stall_inserts(catalog: Catalog, table: Table) -> None:
    """Let transactions on PostgreSQL stand still that have inserted into a table."""
    with catalog._database.write() as connection:
        connection.exec_driver_sql(
            f"""CREATE FUNCTION stall_{table.name}() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF random() < 0.5 THEN PERFORM pg_sleep(random() * {LONGEST}); END IF;
                RETURN NULL;
            END $$"""
        )
        connection.exec_driver_sql(
            f"CREATE TRIGGER stall AFTER INSERT ON {table.name} "
            f"EXECUTE FUNCTION stall_{table.name}()"
        )


class StallingStorage(StorageWrapper):
    """The storage of a writer that stands still after what it has written into a partition."""

    def __init__(self, inner: Storage, chance: random.Random) -> None:
        super().__init__(inner)
        self._chance = chance

    def put(self, address: str, data: Payload, *, create: bool = False) -> None:
        super().put(address, data, create=create)
        self._stall(address)

    def copy(self, source: str, target: str) -> None:
        super().copy(source, target)
        self._stall(target)

    def _stall(self, address: str) -> None:
        if any(folder in address for folder in IN_PARTITIONS):
            stall(self._chance)
