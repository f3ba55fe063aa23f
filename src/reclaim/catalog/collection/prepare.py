"""Prepare: the consistent export that a run reads.

Everything is read in one snapshot of the database and streamed to Parquet in bounded batches:
live commits with their metaranges and the classes of refs that reach them, refs, staged entries,
upload tokens, partitions and leases. ``prepared.json`` is written last: without it the export
does not count.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import Connection, Select, select

from reclaim.catalog.database.schema import (
    TokenState,
    UploadState,
    branches,
    leases,
    partitions,
    staged_entries,
    staging_tokens,
    tags,
    upload_tokens,
)
from reclaim.catalog.refs import commits
from reclaim.catalog.workspace import Workspace
from reclaim.clock import to_micros
from reclaim.errors import AlreadyExists
from reclaim.model import Ref, RefKind, SnapshotId
from reclaim.storage import Storage

BATCH = 50_000
FORMAT = 1

Classify = Callable[[Ref], str]

_INSTANT = pa.timestamp("us", tz="UTC")


def _schema(**fields: pa.DataType) -> pa.Schema:
    return pa.schema([pa.field(name, kind) for name, kind in fields.items()])


REFS = _schema(name=pa.string(), kind=pa.string(), commit=pa.string(), ref_class=pa.int32())
COMMITS = _schema(
    id=pa.string(),
    parents=pa.list_(pa.string()),
    written_at=_INSTANT,
    metarange=pa.string(),
    marked=pa.bool_(),
    classes=pa.list_(pa.int32()),
)
STAGED = _schema(
    branch=pa.string(),
    token=pa.int64(),
    state=pa.string(),
    path=pa.string(),
    address=pa.string(),
    size=pa.int64(),
    created_at=_INSTANT,
)
TOKENS = _schema(address=pa.string(), state=pa.string(), expires_at=_INSTANT)
PARTITIONS = _schema(
    id=pa.string(),
    state=pa.string(),
    opened_at=_INSTANT,
    renewed_at=_INSTANT,
    closed_at=_INSTANT,
)
LEASES = _schema(
    id=pa.string(), commit=pa.string(), holder=pa.string(), refreshed_at=_INSTANT, until=_INSTANT
)

LEASE_CLASS = "lease"


@dataclass(frozen=True, slots=True)
class Prepared:
    """What an export holds and where. ``classes`` names the numbers in the commits' lists."""

    url: str
    prefix: str
    repository: str
    read_at: datetime
    classes: tuple[str, ...]
    refs: int
    commits: int
    staged: int
    tokens: int
    partitions: int
    leases: int
    format: int = FORMAT


def by_kind(ref: Ref) -> str:
    """The classes that hold when no rule tells refs apart: default branch, branches, tags."""
    return "default branch" if ref.default else ref.kind.value


def prepare(
    workspace: Workspace,
    default_branch: str,
    destination: Storage,
    prefix: str,
    classify: Classify = by_kind,
) -> Prepared:
    """Export what a run must know of a repository to an empty ``prefix`` of a storage."""
    if next(destination.list(prefix.rstrip("/")), None) is not None:
        raise AlreadyExists(
            f"there is something at {destination.url}/{prefix} already",
            hint="name an empty place: files of two exports must not be mixed",
        )
    out = Export(destination, prefix)
    with workspace.database.read() as connection:
        read_at = workspace.database.now(connection, workspace.clock)
        uid = workspace.repo_uid
        refs = _refs(connection, uid, default_branch)
        held = list(_leases(connection, uid, to_micros(read_at)))
        classes = sorted({classify(ref) for ref in refs} | ({LEASE_CLASS} if held else set()))
        number = {name: index for index, name in enumerate(classes)}
        tips: dict[str, int] = {}
        for ref in refs:
            tips[ref.snapshot] = tips.get(ref.snapshot, 0) | 1 << number[classify(ref)]
        for lease in held:
            tips[lease[1]] = tips.get(lease[1], 0) | 1 << number[LEASE_CLASS]
        prepared = Prepared(
            url=destination.url,
            prefix=prefix,
            repository=uid,
            read_at=read_at,
            classes=tuple(classes),
            refs=out.write("refs", REFS, _ref_rows(refs, number, classify)),
            commits=out.write("commits", COMMITS, _live_commits(connection, uid, tips)),
            staged=out.write("staged", STAGED, stream(connection, _staged(uid))),
            tokens=out.write("tokens", TOKENS, stream(connection, _tokens(uid))),
            partitions=out.write("partitions", PARTITIONS, stream(connection, _partitions(uid))),
            leases=out.write("leases", LEASES, held),
        )
    summary = asdict(prepared) | {"read_at": read_at.isoformat(), "files": out.files}
    destination.put(f"{prefix}prepared.json", json.dumps(summary, indent=2).encode())
    return prepared


class Export:
    """Writes tables as numbered Parquet files of bounded size."""

    def __init__(self, storage: Storage, prefix: str) -> None:
        self._storage = storage
        self._prefix = prefix
        self.files: list[str] = []

    def write(
        self,
        name: str,
        schema: pa.Schema,
        rows: Iterable[Sequence[Any]],
        *,
        hashed: bool = False,
    ) -> int:
        """Write all rows, at least one file; returns their number.

        With ``hashed`` a name says what the file must hash to, for whoever reads it.
        """
        remaining = iter(rows)
        total = part = 0
        while (batch := list(islice(remaining, BATCH))) or not part:
            columns = zip(*batch, strict=True) if batch else [[]] * len(schema)
            table = pa.table([_array(c, f) for c, f in zip(columns, schema, strict=True)], schema)
            sink = pa.BufferOutputStream()
            pq.write_table(table, sink, compression="zstd")
            data = bytes(sink.getvalue())
            digest = f"-{hashlib.sha256(data).hexdigest()}" if hashed else ""
            file = f"{name}/part-{part:05d}{digest}.parquet"
            self._storage.put(self._prefix + file, data)
            self.files.append(file)
            total += len(batch)
            part += 1
        return total


def _array(values: Sequence[Any], field: pa.Field) -> pa.Array:
    if field.type == _INSTANT:
        return pa.array(values, pa.int64()).cast(_INSTANT)
    return pa.array(values, field.type)


def stream(connection: Connection, query: Select[Any]) -> Iterator[Sequence[Any]]:
    options = {"stream_results": True, "yield_per": 5_000}
    with connection.execute(query, execution_options=options) as streamed:
        yield from streamed


def _refs(connection: Connection, repo_uid: str, default: str) -> list[Ref]:
    named: list[Ref] = []
    heads = select(branches.c.name, branches.c.head).where(branches.c.repo_uid == repo_uid)
    for name, head in connection.execute(heads):
        named.append(Ref(name, RefKind.BRANCH, SnapshotId(head), name == default))
    marks = select(tags.c.name, tags.c.commit_id).where(tags.c.repo_uid == repo_uid)
    for name, commit_id in connection.execute(marks):
        named.append(Ref(name, RefKind.TAG, SnapshotId(commit_id)))
    return named


def _ref_rows(
    refs: list[Ref], number: dict[str, int], classify: Classify
) -> Iterator[Sequence[Any]]:
    for ref in refs:
        yield ref.name, ref.kind.value, ref.snapshot, number[classify(ref)]


def _live_commits(
    connection: Connection, repo_uid: str, tips: dict[str, int]
) -> Iterator[Sequence[Any]]:
    """Every commit that a ref or a lease reaches, with the classes that reach it.

    Children come before parents, so one pass hands every class down to all ancestors.
    """
    pending = dict(tips)
    lists: dict[int, list[int]] = {}
    for commit in commits.scan(connection, repo_uid):
        if not pending:
            return
        reached = pending.pop(commit.id, 0)
        if not reached:
            continue
        for parent in commit.parents:
            pending[parent] = pending.get(parent, 0) | reached
        if reached not in lists:
            lists[reached] = [n for n in range(reached.bit_length()) if reached >> n & 1]
        yield (
            commit.id,
            commit.parents,
            to_micros(commit.written_at),
            commit.metarange,
            commit.marked,
            lists[reached],
        )
    if pending:
        raise commits.missing(pending)


def _staged(repo_uid: str) -> Select[Any]:
    return (
        select(
            branches.c.name,
            staged_entries.c.token_id,
            staging_tokens.c.state,
            staged_entries.c.path,
            staged_entries.c.address,
            staged_entries.c.size,
            staged_entries.c.created_at,
        )
        .join(staging_tokens, staging_tokens.c.id == staged_entries.c.token_id)
        .join(branches, branches.c.uid == staging_tokens.c.branch_uid)
        .where(
            staging_tokens.c.repo_uid == repo_uid,
            staging_tokens.c.state.in_((TokenState.OPEN, TokenState.SEALED)),
        )
    )


def _tokens(repo_uid: str) -> Select[Any]:
    return select(upload_tokens.c.address, upload_tokens.c.state, upload_tokens.c.expires_at).where(
        upload_tokens.c.repo_uid == repo_uid, upload_tokens.c.state == UploadState.PENDING
    )


def _partitions(repo_uid: str) -> Select[Any]:
    return select(
        partitions.c.id,
        partitions.c.state,
        partitions.c.opened_at,
        partitions.c.renewed_at,
        partitions.c.closed_at,
    ).where(partitions.c.repo_uid == repo_uid)


def _leases(connection: Connection, repo_uid: str, now: int) -> Iterator[tuple[Any, ...]]:
    """The leases that are valid now, by the database's clock."""
    query = select(leases).where(leases.c.repo_uid == repo_uid)
    for row in connection.execute(query):
        until = row.refreshed_at + row.length
        if now < until:
            yield row.id, row.commit_id, row.holder, row.refreshed_at, until
