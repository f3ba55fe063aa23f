"""Names in a catalog for shell completion.

Reads only the database, without the storage and its libraries, because a shell waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Column, ColumnElement, Select, Table, select

from reclaim.catalog.database.locations import database_url
from reclaim.catalog.database.schema import branches, plans, repositories, runs, tags
from reclaim.catalog.database.transactions import Database

MOST = 1_000
"""Maximum number of names, more than a shell can show."""


class CatalogNames:
    """Names in a catalog with a given start."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    @contextmanager
    def open(cls, location: str | Path) -> Iterator[CatalogNames]:
        database = Database.open(database_url(location))
        try:
            yield cls(database)
        finally:
            database.close()

    def repositories(self, start: str) -> Sequence[str]:
        name = repositories.c.name
        existing = repositories.c.deleted_at.is_(None)
        return self._read(select(name).where(existing, _starts(name, start)).order_by(name))

    def branches(self, repository: str, start: str) -> Sequence[str]:
        return self._refs(branches, repository, start)

    def tags(self, repository: str, start: str) -> Sequence[str]:
        return self._refs(tags, repository, start)

    def runs(self, start: str) -> Sequence[str]:
        """Ids of runs, newest first."""
        run = runs.c.id
        return self._read(select(run).where(_starts(run, start)).order_by(runs.c.started_at.desc()))

    def plans(self, start: str) -> Sequence[str]:
        """Run ids of plans, newest first."""
        run = plans.c.run_id
        return self._read(select(run).where(_starts(run, start)).order_by(plans.c.made_at.desc()))

    def _refs(self, table: Table, repository: str, start: str) -> Sequence[str]:
        name = table.c.name
        uid = select(repositories.c.uid).where(
            repositories.c.name == repository, repositories.c.deleted_at.is_(None)
        )
        query = select(name).where(table.c.repo_uid == uid.scalar_subquery(), _starts(name, start))
        return self._read(query.order_by(name))

    def _read(self, query: Select[tuple[str]]) -> Sequence[str]:
        with self._database.read() as connection:
            return [str(row[0]) for row in connection.execute(query.limit(MOST))]


def _starts(column: Column[str], start: str) -> ColumnElement[bool]:
    return column.startswith(start, autoescape=True)
