"""Put: upload bytes into the open partition and stage them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import IO

from sqlalchemy import Connection, select

from reclaim.catalog.content.entries import Entry
from reclaim.catalog.database.schema import branches, tags
from reclaim.catalog.database.sets import batches
from reclaim.catalog.names import check_path, check_text
from reclaim.catalog.staging import ledger, staged_rows, tokens
from reclaim.catalog.staging.partitions import Partition, check_open
from reclaim.catalog.workspace import Workspace
from reclaim.errors import InvalidInput
from reclaim.storage import PIECE

Data = bytes | Path | IO[bytes]

TOGETHER = 500
UPLOADERS = 8
REPLACED = "overwritten before it was committed"


def put(
    workspace: Workspace,
    branch: str,
    path: str,
    data: Data,
    *,
    content_type: str,
    metadata: Mapping[str, str],
) -> Entry:
    """Upload bytes and stage them."""
    check_path(path)
    check_text(content_type, *metadata, *metadata.values())
    check_branch(workspace, branch)

    def write(partition: Partition) -> Entry:
        entry = _upload(workspace, partition, branch, path, data, content_type, metadata)
        workspace.storage.flush([entry.address])
        stage_fresh(workspace, branch, [entry], partition)
        return entry

    if isinstance(data, bytes | Path):
        return workspace.partitions.write(workspace.repo_uid, write)
    # An open file cannot be read twice.
    return workspace.partitions.write_once(workspace.repo_uid, write)


def put_many(
    workspace: Workspace,
    branch: str,
    items: Iterable[tuple[str, bytes | Path]],
    *,
    progress: Callable[[Entry], None],
) -> int:
    """Upload many objects in parallel and stage them in batches; return their number.

    Each batch is staged completely or not at all. An error stops the upload; earlier batches stay
    staged.
    """
    check_branch(workspace, branch)
    done = 0
    with ThreadPoolExecutor(UPLOADERS) as pool:
        for batch in batches(items, TOGETHER):
            for path, _ in batch:
                check_path(path)
            work = partial(_put_batch, workspace, branch, batch, pool, progress)
            workspace.partitions.write(workspace.repo_uid, work)
            done += len(batch)
    return done


def _put_batch(
    workspace: Workspace,
    branch: str,
    batch: Sequence[tuple[str, bytes | Path]],
    pool: ThreadPoolExecutor,
    progress: Callable[[Entry], None],
    partition: Partition,
) -> None:
    def upload(item: tuple[str, bytes | Path]) -> Entry:
        path, data = item
        entry = _upload(workspace, partition, branch, path, data, "", {})
        workspace.storage.flush([entry.address])
        progress(entry)
        return entry

    entries = {entry.path: entry for entry in pool.map(upload, batch)}
    stage_fresh(workspace, branch, list(entries.values()), partition)


def _upload(
    workspace: Workspace,
    partition: Partition,
    branch: str,
    path: str,
    data: Data,
    content_type: str,
    metadata: Mapping[str, str],
) -> Entry:
    address = partition.new_object(branch)
    if isinstance(data, Path):
        with _opened(data) as source:
            size, checksum = _upload_file(workspace, address, source)
    elif isinstance(data, bytes):
        size, checksum = len(data), hashlib.sha256(data).hexdigest()
        workspace.storage.put(address, data)
    else:
        size, checksum = _upload_file(workspace, address, data)
    created_at = workspace.clock.now()
    return Entry(
        path, address, size, created_at, f"sha256:{checksum}", content_type, dict(metadata)
    )


def _upload_file(workspace: Workspace, address: str, source: IO[bytes]) -> tuple[int, str]:
    total = hashlib.sha256()
    size = 0

    def pieces(first: bytes) -> Iterator[bytes]:
        nonlocal size
        piece = first
        while piece:
            total.update(piece)
            size += len(piece)
            yield piece
            piece = source.read(PIECE)

    first = source.read(PIECE)
    if len(first) < PIECE and not (more := source.read(PIECE)):
        # Small enough for one request.
        workspace.storage.put(address, first)
        return len(first), hashlib.sha256(first).hexdigest()
    if len(first) < PIECE:
        first += more
    workspace.storage.put(address, pieces(first))
    return size, total.hexdigest()


def stage_fresh(
    workspace: Workspace, branch: str, entries: Sequence[Entry], partition: Partition
) -> None:
    """Stage uploaded objects, if their partition is still open."""

    def work(connection: Connection) -> None:
        token = tokens.lock_open_token(connection, workspace.repo_uid, branch)
        check_open(connection, partition)
        now = workspace.now()
        ledger.enter(connection, workspace.repo_uid, entries, now)
        changes = [entry.values() for entry in entries]
        staged_rows.write(connection, token, changes, now=now, rule=REPLACED)

    workspace.database.transact(work)


def _opened(file: Path) -> IO[bytes]:
    try:
        return file.open("rb")
    except OSError as error:
        raise InvalidInput(f"cannot read {file}: {error.strerror}") from error


def check_branch(workspace: Workspace, branch: str) -> None:
    """Fail before writing any byte if the branch does not exist."""
    query = select(branches.c.uid).where(
        branches.c.repo_uid == workspace.repo_uid, branches.c.name == branch
    )
    with workspace.database.read() as connection:
        if connection.execute(query).first() is None:
            tag = select(tags.c.name).where(
                tags.c.repo_uid == workspace.repo_uid, tags.c.name == branch
            )
            if connection.execute(tag).first() is not None:
                raise InvalidInput(
                    f"{branch!r} is a tag, and tags cannot be changed", hint="use a branch"
                )
            raise tokens.no_such_branch(branch)
