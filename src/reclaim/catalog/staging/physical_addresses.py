"""Direct uploads: the catalog returns an address and a token, and later links the object.

The token is a row protecting the address until it is used or expires; expiry is also a state change
made by the collector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, insert, select, update

from reclaim.catalog.content.entries import Entry
from reclaim.catalog.database.schema import UploadState, upload_tokens
from reclaim.catalog.names import check_path, check_text
from reclaim.catalog.staging import ledger, staged_rows, tokens
from reclaim.catalog.staging.partitions import Partition, check_open
from reclaim.catalog.staging.uploads import REPLACED
from reclaim.catalog.workspace import Workspace
from reclaim.clock import from_micros, to_micros
from reclaim.errors import InvalidInput, InvalidToken, NotFound, TokenExpired, TokenUsed
from reclaim.ids import new_uid
from reclaim.safety import SAFETY
from reclaim.urls import url_of

TOKEN_VALID = SAFETY.upload_length


@dataclass(frozen=True, slots=True)
class PhysicalAddress:
    """Address for a direct upload, and the single-use token for linking."""

    address: str
    url: str
    token: str
    expires_at: datetime


def get_physical_address(
    workspace: Workspace, branch: str, path: str, valid: timedelta = TOKEN_VALID
) -> PhysicalAddress:
    """Return an address for an upload; its token is bound to the branch, path and address."""
    check_path(path)
    if valid <= timedelta(0):
        raise InvalidInput("the validity of an upload token must be positive")
    token = new_uid()
    try:
        expires_at = to_micros(workspace.clock.now() + valid)
    except OverflowError as error:
        raise InvalidInput(f"an upload token cannot be valid for {valid}") from error

    def write(partition: Partition) -> str:
        address = partition.new_object(branch)

        def work(connection: Connection) -> None:
            view = tokens.read_view(connection, workspace.repo_uid, branch)
            check_open(connection, partition)
            connection.execute(
                insert(upload_tokens).values(
                    id=token,
                    repo_uid=workspace.repo_uid,
                    branch_uid=view.uid,
                    path=path,
                    address=address,
                    state=UploadState.PENDING,
                    created_at=workspace.now(),
                    expires_at=expires_at,
                )
            )

        workspace.database.transact(work)
        return address

    address = workspace.partitions.write(workspace.repo_uid, write)
    return PhysicalAddress(
        address, url_of(workspace.storage.url, address), token, from_micros(expires_at)
    )


def link_physical_address(
    workspace: Workspace,
    branch: str,
    path: str,
    physical: PhysicalAddress,
    *,
    content_type: str,
    metadata: Mapping[str, str],
) -> Entry:
    """Stage an object uploaded to a physical address. The token works once."""
    check_path(path)
    check_text(content_type, *metadata, *metadata.values())
    with workspace.database.read() as connection:
        _check_token(connection, workspace, branch, path, physical, lock=False)
    try:
        stored = workspace.storage.head(physical.address)
    except NotFound as error:
        raise NotFound(
            f"nothing was uploaded to {physical.address}", hint="upload the object, then link it"
        ) from error
    entry = Entry(
        path,
        physical.address,
        stored.size,
        workspace.clock.now(),
        f"etag:{stored.etag}" if stored.etag else "",
        content_type,
        dict(metadata),
    )

    def work(connection: Connection) -> None:
        _check_token(connection, workspace, branch, path, physical, lock=True)
        token = tokens.lock_open_token(connection, workspace.repo_uid, branch)
        now = workspace.now()
        connection.execute(
            update(upload_tokens)
            .where(upload_tokens.c.id == physical.token)
            .values(state=UploadState.USED)
        )
        ledger.enter(connection, workspace.repo_uid, [entry], now)
        staged_rows.write(connection, token, [entry.values()], now=now, rule=REPLACED)

    workspace.storage.flush([entry.address])
    workspace.database.transact(work)
    return entry


def _check_token(
    connection: Connection,
    workspace: Workspace,
    branch: str,
    path: str,
    physical: PhysicalAddress,
    *,
    lock: bool,
) -> None:
    view = tokens.read_view(connection, workspace.repo_uid, branch)
    query = select(upload_tokens).where(upload_tokens.c.id == physical.token)
    row = connection.execute(query.with_for_update() if lock else query).first()
    bound = (workspace.repo_uid, view.uid, path, physical.address)
    if row is None or (row.repo_uid, row.branch_uid, row.path, row.address) != bound:
        raise InvalidToken(
            f"the upload token is not for {path!r} on {branch} at {physical.address}",
            hint="use the token with its own branch, path and address",
        )
    if row.state == UploadState.USED:
        raise TokenUsed(
            f"the upload token for {path!r} was already used",
            hint="get a new physical address for another upload",
        )
    if row.state == UploadState.EXPIRED or workspace.now() >= row.expires_at:
        raise TokenExpired(
            f"the upload token for {path!r} expired at {from_micros(row.expires_at):%F %T} UTC",
            hint="get a new physical address and upload again",
        )
