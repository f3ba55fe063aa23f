"""Staging of existing objects outside the catalog, without copying.

Such objects are never collected. To guarantee this, an address that a catalog may collect cannot be
staged: every address under the ``repos/`` of a catalog's storage is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from sqlalchemy import Connection

from reclaim.catalog import addresses
from reclaim.catalog.content.entries import Entry, dump_metadata
from reclaim.catalog.names import check_path, check_text
from reclaim.catalog.staging import staged_rows, tokens
from reclaim.catalog.staging.uploads import REPLACED, check_branch
from reclaim.catalog.workspace import Workspace
from reclaim.errors import InvalidInput, OwnedAddress
from reclaim.urls import object_url

TOGETHER = 20_000
"""Number of objects staged in a single transaction."""


@dataclass(frozen=True, slots=True)
class Import:
    """Existing object outside the catalog, to be staged without copying."""

    path: str
    address: str
    size: int
    checksum: str = ""
    content_type: str = ""
    metadata: Mapping[str, str] | None = None


def stage(workspace: Workspace, branch: str, path: str, address: str) -> Entry:
    """Stage an object outside the catalog's storage, after checking that it exists."""
    url = _outside(workspace, address, {})
    storage, key = workspace.externals.locate(url)
    stored = storage.head(key)
    item = Import(path, url, stored.size, f"etag:{stored.etag}" if stored.etag else "")
    check_branch(workspace, branch)
    values = _values(workspace, item, workspace.now(), {})
    _stage_batch(workspace, branch, [values])
    return Entry.from_values(*values)


def stage_many(workspace: Workspace, branch: str, items: Iterable[Import]) -> int:
    """Stage many existing objects, trusting the given sizes; return their number."""
    check_branch(workspace, branch)
    remaining = iter(items)
    done = 0
    created_at = workspace.now()
    owned_markers: dict[str, bool] = {}
    while batch := list(islice(remaining, TOGETHER)):
        # For duplicate paths the last item counts.
        changes = {item.path: _values(workspace, item, created_at, owned_markers) for item in batch}
        _stage_batch(workspace, branch, list(changes.values()))
        done += len(batch)
    return done


def _values(
    workspace: Workspace, item: Import, created_at: int, owned_markers: dict[str, bool]
) -> staged_rows.Values:
    if not 0 <= item.size < 2**63:
        raise InvalidInput(f"{item.path!r} cannot have {item.size} bytes")
    metadata = item.metadata or {}
    if item.checksum or item.content_type or metadata:
        check_text(item.checksum, item.content_type, *metadata, *metadata.values())
    return (
        check_path(item.path),
        _outside(workspace, item.address, owned_markers),
        item.size,
        created_at,
        item.checksum,
        item.content_type,
        dump_metadata(metadata),
    )


def _stage_batch(workspace: Workspace, branch: str, changes: list[staged_rows.Values]) -> None:
    def work(connection: Connection) -> None:
        token = tokens.lock_open_token(connection, workspace.repo_uid, branch)
        staged_rows.write(connection, token, changes, now=workspace.now(), rule=REPLACED)

    workspace.database.transact(work)


def _outside(workspace: Workspace, address: str, owned_markers: dict[str, bool]) -> str:
    """Return the normalized address; refuse it if any catalog could collect its object."""
    url = object_url(address)
    # Catalogs only collect below folders of this name.
    if "/" + addresses.ROOT in url and (
        url.startswith(workspace.storage.url.rstrip("/") + "/" + addresses.ROOT)
        or workspace.externals.is_owned(url, owned_markers)
    ):
        raise OwnedAddress(
            f"{address} is in the storage of a catalog, which may collect it",
            hint="copy the object with `reclaim cp`, or upload its bytes",
        )
    return url
