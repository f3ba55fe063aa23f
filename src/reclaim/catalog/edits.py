"""Delete, copy and move: changes to entries that are visible on a branch.

What lies below the open token (sealed rows and the tree of the head) is looked up before the
transaction, because that may read storage; the transaction then checks that the branch is as it
was seen, and runs again from the start if it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from sqlalchemy import Connection

from reclaim.catalog import commits, ledger, staging
from reclaim.catalog.database import ATTEMPTS
from reclaim.catalog.entries import Entry
from reclaim.catalog.names import check_path
from reclaim.catalog.partitions import check_open
from reclaim.catalog.reading import Scene, scene
from reclaim.catalog.staging import View, ViewChanged
from reclaim.catalog.uploads import REPLACED, check_branch
from reclaim.catalog.workspace import Workspace
from reclaim.errors import InvalidInput, NotFound, TransactionFailed

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Below:
    """A branch as it was seen, and what lies below its open token at some paths."""

    view: View
    entries: dict[str, Entry]

    def visible(self, connection: Connection, path: str) -> Entry | None:
        """The entry at a path now. The branch must be locked as it was seen."""
        row = staging.find(connection, [self.view.open_token], path)
        if row is None:
            return self.entries.get(path)
        return row.entry

    def remove(self, connection: Connection, path: str, now: int) -> None:
        """Make a path invisible."""
        token = self.view.open_token
        if path in self.entries:
            staging.bury(connection, token, [path], now=now)
        else:
            staging.remove(connection, token, [path], now=now, rule="deleted before committed")


def _look(workspace: Workspace, branch: str, paths: Sequence[str]) -> _Below:
    with workspace.database.read() as connection:
        view = staging.read_view(connection, workspace.repo_uid, branch)
        head = commits.get(connection, workspace.repo_uid, view.head)
        sealed = Scene(head, workspace.containers.tree(head.metarange), view.tokens[1:])
        found = {path: sealed.find(connection, path) for path in paths}
    return _Below(view, {path: entry for path, entry in found.items() if entry is not None})


def _edit(
    workspace: Workspace,
    branch: str,
    paths: Sequence[str],
    work: Callable[[Connection, _Below], T],
) -> T:
    """Run ``work`` in a transaction in which the branch is as it was looked at."""
    for _ in range(ATTEMPTS):
        below = _look(workspace, branch, paths)

        def locked(connection: Connection, below: _Below = below) -> T:
            staging.lock_view(connection, below.view)
            return work(connection, below)

        try:
            return workspace.database.transact(locked)
        except ViewChanged:
            continue
    raise TransactionFailed(
        f"the branch {branch} kept changing while it was being written", hint="run it again"
    )


def delete(workspace: Workspace, branch: str, paths: Sequence[str]) -> None:
    """Delete objects in one transaction; all must be there."""
    for path in paths:
        check_path(path)

    def work(connection: Connection, below: _Below) -> None:
        for path in paths:
            if below.visible(connection, path) is None:
                raise _no_object(path, branch)
            below.remove(connection, path, workspace.now())

    _edit(workspace, branch, paths, work)


def move(workspace: Workspace, branch: str, source: str, target: str) -> Entry:
    """Give an object another path: copy and delete in one transaction.

    The entry keeps its address and its creation date.
    """
    check_path(source)
    check_path(target)
    if source == target:
        raise InvalidInput(f"{source!r} is where it is already")

    def work(connection: Connection, below: _Below) -> Entry:
        entry = below.visible(connection, source)
        if entry is None:
            raise _no_object(source, branch)
        moved = replace(entry, path=target)
        _share(connection, below, moved, workspace.now())
        below.remove(connection, source, workspace.now())
        return moved

    return _edit(workspace, branch, [source, target], work)


def copy(workspace: Workspace, source_ref: str, source: str, branch: str, target: str) -> Entry:
    """Copy an object to a path of a branch.

    When the same entry is visible on that branch now, the address is shared; any other source
    is copied as bytes, because nothing would hold its address for this branch.
    """
    check_path(source)
    check_path(target)
    check_branch(workspace, branch)
    with workspace.database.read() as connection:
        wanted = scene(connection, workspace, source_ref).find(connection, source)
    if wanted is None:
        raise _no_object(source, source_ref)
    original = wanted

    def work(connection: Connection, below: _Below) -> Entry | None:
        visible = below.visible(connection, source)
        if original.owned and (visible is None or visible.address != original.address):
            return None
        copied = replace(original, path=target, created_at=workspace.clock.now())
        _share(connection, below, copied, workspace.now())
        return copied

    shared = _edit(workspace, branch, [source, target], work)
    return shared if shared is not None else _copy_bytes(workspace, original, branch, target)


def _share(connection: Connection, below: _Below, entry: Entry, now: int) -> None:
    ledger.hold(connection, entry.address)
    staging.write(connection, below.view.open_token, [entry], now=now, rule=REPLACED)


def _copy_bytes(workspace: Workspace, original: Entry, branch: str, target: str) -> Entry:
    with workspace.partitions.use(workspace.repo_uid) as partition:
        address = partition.new_object(branch)
        try:
            workspace.storage.copy(original.address, address)
        except NotFound as error:
            raise workspace.missing(original) from error
        workspace.storage.flush([address])
        copied = replace(original, path=target, address=address, created_at=workspace.clock.now())

        def work(connection: Connection) -> None:
            token = staging.lock_open_token(connection, workspace.repo_uid, branch)
            check_open(connection, partition)
            now = workspace.now()
            ledger.enter(connection, workspace.repo_uid, [address], now)
            staging.write(connection, token, [copied], now=now, rule=REPLACED)

        workspace.database.transact(work)
    return copied


def _no_object(path: str, ref: str) -> NotFound:
    return NotFound(f"there is no object {path!r} on {ref}", hint="list them with `reclaim ls`")
