"""Servers that a test process lets others use that it starts: they make no server of their own.

Each makes its own databases and buckets there, and nobody but the owner stops the server.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.support.servers import PostgreSQL, SeaweedFS, postgresql, seaweedfs

S3, POSTGRESQL = "RECLAIM_TESTS_S3", "RECLAIM_TESTS_POSTGRESQL"


def share(s3: SeaweedFS, postgres: PostgreSQL) -> Mapping[str, str]:
    """The variables by which another process finds the servers."""
    return {
        S3: json.dumps([s3.endpoint, s3.pid]),
        POSTGRESQL: json.dumps([postgres.uri, str(postgres.folder)]),
    }


@contextmanager
def s3_server(folder: Path) -> Iterator[SeaweedFS]:
    """The server that is shared, or one of its own with its data in a folder."""
    if S3 in os.environ:
        yield SeaweedFS(*json.loads(os.environ[S3]))
        return
    with seaweedfs(folder) as server:
        yield server


@contextmanager
def postgresql_server(folder: Path) -> Iterator[PostgreSQL]:
    """The server that is shared, or one of its own with its data in a folder."""
    if POSTGRESQL in os.environ:
        uri, place = json.loads(os.environ[POSTGRESQL])
        yield PostgreSQL(uri, Path(place))
        return
    with postgresql(folder) as server:
        yield server
