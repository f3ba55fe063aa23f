"""Indexes over some rows only have their condition on each database."""

from __future__ import annotations

import pytest
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.dialects.sqlite.base import SQLiteDialect
from sqlalchemy.engine import Dialect
from sqlalchemy.schema import CreateIndex

from reclaim.catalog.database.schema import POSTGRESQL_WHERE, metadata

PARTIAL = [
    index
    for table in metadata.sorted_tables
    for index in table.indexes
    if POSTGRESQL_WHERE in index.info
]


@pytest.mark.parametrize("dialect", [PGDialect, SQLiteDialect])
def test_a_partial_index_has_its_condition(dialect: type[Dialect]) -> None:
    assert len(PARTIAL) == 5
    for index in PARTIAL:
        assert " WHERE " in str(CreateIndex(index).compile(dialect=dialect())), index.name


def test_every_condition_is_there_for_both_databases() -> None:
    for table in metadata.sorted_tables:
        for index in table.indexes:
            on_sqlite = index.dialect_options["sqlite"]["where"] is not None
            assert on_sqlite == (POSTGRESQL_WHERE in index.info), index.name
