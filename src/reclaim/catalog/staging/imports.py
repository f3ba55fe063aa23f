"""Stage: entries that point at objects outside the catalog, where they are.

Such objects are never collected. For that to be true, nothing that a catalog may collect can
be staged: every address under the ``repos/`` of a catalog's storage is refused.
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
"""How many are staged in one transaction."""


@dataclass(frozen=True, slots=True)
class Import:
    """An object that exists outside the catalog and is to be staged where it is."""

    path: str
    address: str
    size: int
    checksum: str = ""
    content_type: str = ""
    metadata: Mapping[str, str] | None = None


def stage(workspace: Workspace, branch: str, path: str, address: str) -> Entry:
    """Stage an object that lies outside the catalog's storage, after a look at it."""
    url = _outside(workspace, address, {})
    storage, key = workspace.externals.locate(url)
    found = storage.head(key)
    item = Import(path, url, found.size, f"etag:{found.etag}" if found.etag else "")
    check_branch(workspace, branch)
    values = _values(workspace, item, workspace.now(), {})
    _stage_batch(workspace, branch, [values])
    return Entry.from_values(*values)


def stage_many(workspace: Workspace, branch: str, items: Iterable[Import]) -> int:
    """Stage many existing objects, believing the sizes given; returns how many."""
    check_branch(workspace, branch)
    remaining = iter(items)
    done = 0
    created_at = workspace.now()
    asked: dict[str, bool] = {}
    while batch := list(islice(remaining, TOGETHER)):
        # The last one counts where a path is given twice.
        changes = {item.path: _values(workspace, item, created_at, asked) for item in batch}
        _stage_batch(workspace, branch, list(changes.values()))
        done += len(batch)
    return done


def _values(
    workspace: Workspace, item: Import, created_at: int, asked: dict[str, bool]
) -> staged_rows.Values:
    if not 0 <= item.size < 2**63:
        raise InvalidInput(f"{item.path!r} cannot have {item.size} bytes")
    metadata = item.metadata or {}
    if item.checksum or item.content_type or metadata:
        check_text(item.checksum, item.content_type, *metadata, *metadata.values())
    return (
        check_path(item.path),
        _outside(workspace, item.address, asked),
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


def _outside(workspace: Workspace, address: str, asked: dict[str, bool]) -> str:
    """The one spelling of an address, refused if any catalog could collect what is there."""
    url = object_url(address)
    # No catalog has anything that it may collect elsewhere than below a folder of this name.
    if "/" + addresses.ROOT in url and (
        url.startswith(workspace.storage.url.rstrip("/") + "/" + addresses.ROOT)
        or workspace.externals.is_owned(url, asked)
    ):
        raise OwnedAddress(
            f"{address} lies under the storage of a catalog, which may collect it",
            hint="copy the object with `reclaim cp`, or put its bytes",
        )
    return url
