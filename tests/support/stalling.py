"""Who stands still between two steps, or in the middle of a transaction, for some milliseconds."""

from __future__ import annotations

import random
import time

from sqlalchemy import Table

from reclaim.catalog import Catalog
from reclaim.storage import Payload, Storage
from reclaim.testing import StorageWrapper

LONGEST = 0.02
"""Between two steps, in seconds."""
IN_TRANSACTION = 0.4
"""For longer than it takes a run, on a machine that is busy, to go from a change to the next read:
who relies on a row in a transaction without holding it will have relied on it in vain."""
IN_PARTITIONS = ("/branches/", "/_reclaim/meta/")
"""Folders of what is written into partitions."""


def stall(chance: random.Random) -> None:
    """Stand still, in every other case."""
    time.sleep(chance.choice((0, chance.uniform(0, LONGEST))))


def stall_inserts(catalog: Catalog, table: Table, *, share: float) -> None:
    """Let a share of the transactions stand still that have inserted into a table of PostgreSQL."""
    with catalog._database.write() as connection:
        connection.exec_driver_sql(
            f"""CREATE FUNCTION stall_{table.name}() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                IF random() < {share} THEN PERFORM pg_sleep({IN_TRANSACTION}); END IF;
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
