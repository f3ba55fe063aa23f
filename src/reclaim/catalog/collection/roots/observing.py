"""Reading of all roots of a repository in a single database snapshot.

Every byte that may become referenced is in an open partition or has a pending upload; every
referenced byte is referenced by a commit or by a staged entry. All four are read together here.
This is also the export for executors, which never access the database: staged and pending
addresses, possibly many millions, are streamed to files in bounded batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
from sqlalchemy import ColumnElement, Connection, Row, Select, and_, select

from reclaim.catalog.collection.edit import history_edit
from reclaim.catalog.collection.edit.history_edit import HistoryRead
from reclaim.catalog.collection.roots.staged_paths import find_protected, staged_paths
from reclaim.catalog.database.schema import (
    CommitState,
    PartitionState,
    TokenState,
    UploadState,
    commits,
    partitions,
    staged_entries,
    staging_tokens,
    upload_tokens,
)
from reclaim.catalog.database.schema import leases as lease_rows
from reclaim.catalog.refs import leases as leasing
from reclaim.catalog.refs.commits import STANDING
from reclaim.catalog.settings import read_settings
from reclaim.catalog.staging import tokens
from reclaim.catalog.staging.partitions import OVERDUE
from reclaim.catalog.workspace import Workspace
from reclaim.clock import MICROSECOND, to_micros
from reclaim.model import Lease
from reclaim.safety import SAFETY
from reclaim.storage import Storage, hashed_files

LONGEST_MARGIN = max(SAFETY.objects, SAFETY.work, SAFETY.upload_length)
NOT_IN_PLACE = (CommitState.QUARANTINED, CommitState.COLLECTED)
"""States of commits whose objects are not at their original location."""

STAGED, PENDING, PROTECTED = "staged", "pending", "protected"
HELD = pa.schema(
    [
        pa.field("address", pa.string(), nullable=False),
        # STAGED: uploaded; PENDING: possibly not uploaded yet; PROTECTED: by a setting.
        pa.field("held_by", pa.string(), nullable=False),
    ]
)
"""Addresses needed by anything other than a commit."""

BATCH = 50_000
"""Number of rows in memory at a time, and in a file."""


@dataclass(frozen=True, slots=True)
class Roots:
    """Roots that keep bytes alive at a point in time.

    ``metaranges`` has every commit whose bytes may still exist, including condemned commits.
    ``overdue`` are open partitions not renewed by their owners in time. Overdue partitions of a
    commit in progress stay ``open`` and are listed in ``in_flight``. The ``files``, named relative
    to the prefix, have the schema ``HELD`` and are read with ``hashed_files``.
    """

    history: HistoryRead
    metaranges: Mapping[str, str]
    states: Mapping[str, str]
    leases: tuple[Lease, ...]
    closed: frozenset[str]
    overdue: frozenset[str]
    open: frozenset[str]
    in_flight: frozenset[str]
    files: tuple[str, ...]
    held: int
    """Number of staged and pending addresses in the files."""
    paths: tuple[str, ...]
    """Files with the schema ``STAGED_PATHS``: paths of staged objects, for a plan."""
    final: frozenset[str]
    """Closed partitions that accept no more writes; see ``final_partitions``."""
    protect: tuple[str, ...]
    """Globs of the repository's setting."""
    protected: tuple[str, ...]
    """Files with the schema ``STAGED_PATHS``: paths matching these globs, for a plan. For a
    deletion their addresses are among the held addresses.
    """
    read_at: datetime


def observe(
    workspace: Workspace,
    default_branch: str,
    destination: Storage,
    prefix: str,
    *,
    settled: bool = False,
    protecting: bool = True,
) -> Roots:
    """Read all roots; write staged and pending addresses to Parquet files below ``prefix``.

    A plan may treat partitions and upload tokens past their time as ended. Before a deletion, use
    ``settled``: then only closed partitions and expired uploads release protection, because the
    owner of another may still create a reference. The setting ``protect`` of a deleted repository
    no longer applies: pass ``protecting=False``.
    """
    uid = workspace.repo_uid
    files: list[str] = []
    held = 0
    with workspace.database.read() as connection:
        # Messages are shown in plans and not needed for a deletion.
        history = history_edit.history(connection, workspace, default_branch, messages=not settled)
        now = history.read_at
        rows = connection.execute(
            select(commits.c.id, commits.c.metarange, commits.c.state).where(
                commits.c.repo_uid == uid, commits.c.state.not_in(NOT_IN_PLACE)
            )
        ).all()
        ended_at = None if settled else to_micros(now)
        for addresses in _held(connection, uid, ended_at):
            stem = f"{prefix}held/part-{len(files):05d}"
            file, _ = hashed_files.write(destination, stem, addresses)
            files.append(file.removeprefix(prefix))
            held += addresses.num_rows
        explaining = () if settled else staged_paths(connection, uid)
        paths = tuple(
            hashed_files.write(destination, f"{prefix}paths/part-{part:05d}", rows)[0]
            for part, rows in enumerate(explaining)
        )
        protect = read_settings(connection, uid).protect if protecting else ()
        shielded: list[str] = []
        for matching in find_protected(connection, uid, protect):
            if settled:
                count = matching.num_rows
                columns = [matching.column("address"), pa.repeat(PROTECTED, count)]
                table = pa.table(columns, schema=HELD)
                stem = f"{prefix}held/part-{len(files):05d}"
                file, _ = hashed_files.write(destination, stem, table)
                files.append(file.removeprefix(prefix))
                held += count
            else:
                stem = f"{prefix}protected/part-{len(shielded):05d}"
                shielded.append(hashed_files.write(destination, stem, matching)[0])
        known = _partitions(connection, uid, ended_at)
        valid = valid_leases(connection, uid, now)
        final = final_partitions(connection, uid, to_micros(now))
    return Roots(
        history=history,
        metaranges={row.id: row.metarange for row in rows},
        states={row.id: row.state for row in rows if row.state != CommitState.LIVE},
        leases=valid,
        closed=frozenset(known["closed"]),
        overdue=frozenset(known["overdue"]),
        open=frozenset(known["open"]) | frozenset(known["in flight"]),
        in_flight=frozenset(known["in flight"]),
        files=tuple(files),
        held=held,
        paths=paths,
        final=final,
        protect=protect,
        protected=tuple(shielded),
        read_at=now,
    )


def valid_leases(connection: Connection, repo_uid: str, now: datetime) -> tuple[Lease, ...]:
    """Return the valid leases, except on commits condemned for good.

    A lease and a mark exclude each other, so such a lease had lapsed and is valid again only
    because a clock went back. A lease on a commit that never existed is included: it is an error.
    """
    query = (
        select(lease_rows.c.id)
        .join(
            commits,
            and_(
                commits.c.repo_uid == lease_rows.c.repo_uid,
                commits.c.id == lease_rows.c.commit_id,
            ),
        )
        .where(lease_rows.c.repo_uid == repo_uid, commits.c.state.not_in(STANDING))
    )
    void = set(connection.execute(query).scalars())
    return tuple(
        lease
        for lease in leasing.list_leases(connection, repo_uid)
        if lease.valid_at(now) and lease.id not in void
    )


def staged(workspace: Workspace) -> Iterator[Mapping[str, Any]]:
    """Yield the staged entries of objects in the repository, with their metadata."""
    columns = ("path", "address", "size", "checksum")
    query = _staged(workspace.repo_uid, *(staged_entries.c[name] for name in columns))
    with workspace.database.read() as connection:
        for rows in _batches(connection, query):
            yield from (dict(row._mapping) for row in rows)


def _staged(repo_uid: str, *columns: ColumnElement[Any]) -> Select[Any]:
    return (
        select(*columns)
        .join(staging_tokens, staging_tokens.c.id == staged_entries.c.token_id)
        .where(
            staging_tokens.c.repo_uid == repo_uid,
            staging_tokens.c.state.in_((TokenState.OPEN, TokenState.SEALED)),
            staged_entries.c.owned,
            staged_entries.c.address.is_not(None),
        )
    )


def _held(connection: Connection, repo_uid: str, now: int | None) -> Iterator[pa.Table]:
    staged = _staged(repo_uid, staged_entries.c.address)
    # A token past its time protects nothing: it cannot be linked, and condemning records
    # this as a state.
    pending = select(upload_tokens.c.address).where(
        upload_tokens.c.repo_uid == repo_uid,
        upload_tokens.c.state == UploadState.PENDING,
    )
    if now is not None:
        pending = pending.where(upload_tokens.c.expires_at > now)
    for held_by, query in ((STAGED, staged), (PENDING, pending)):
        for rows in _batches(connection, query):
            columns = [[row.address for row in rows], [held_by] * len(rows)]
            yield pa.table(columns, schema=HELD)


def _batches(connection: Connection, query: Select[Any]) -> Iterator[Sequence[Row[Any]]]:
    options = {"stream_results": True, "yield_per": BATCH}
    with connection.execute(query, execution_options=options) as streamed:
        yield from streamed.partitions()


def _partitions(connection: Connection, repo_uid: str, now: int | None) -> dict[str, list[str]]:
    by_state: dict[str, list[str]] = {"open": [], "overdue": [], "in flight": [], "closed": []}
    in_flight = set(connection.execute(tokens.partitions_in_flight(repo_uid)).scalars())
    query = select(partitions.c.id, partitions.c.state, partitions.c.renewed_at)
    for row in connection.execute(query.where(partitions.c.repo_uid == repo_uid)):
        if row.state == PartitionState.CLOSED:
            by_state["closed"].append(row.id)
        elif now is not None and row.renewed_at < now - OVERDUE // MICROSECOND:
            by_state["in flight" if row.id in in_flight else "overdue"].append(row.id)
        else:
            by_state["open"].append(row.id)
    return by_state


def final_partitions(connection: Connection, repo_uid: str, now: int) -> frozenset[str]:
    """Return the partitions that accept no more writes and need no second check.

    A closed partition accepts no new references, but a stalled writer may still write bytes there,
    which will never be referenced. A partition is therefore final only if it has been closed for
    longer than every margin, and no upload into it can be linked.
    """
    pending = select(upload_tokens.c.address).where(
        upload_tokens.c.repo_uid == repo_uid, upload_tokens.c.state == UploadState.PENDING
    )
    # Regardless of their expiry: only a state ends an upload.
    uploading = {address.split("/")[-2] for address in connection.execute(pending).scalars()}
    closed = select(partitions.c.id).where(
        partitions.c.repo_uid == repo_uid,
        partitions.c.state == PartitionState.CLOSED,
        partitions.c.closed_at < now - LONGEST_MARGIN // MICROSECOND,
    )
    return frozenset(connection.execute(closed).scalars()) - uploading
