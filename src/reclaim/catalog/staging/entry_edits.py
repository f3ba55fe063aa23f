"""Delete, copy and move: changes to visible entries of a branch.

Entries below the open token (sealed rows and the tree of the head) are read before the transaction,
because this may access storage. The transaction then checks that the branch is unchanged, and
starts over otherwise. The open token's own rows are read and locked inside the transaction: a
concurrent put comes before or after, never in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from sqlalchemy import Connection

from reclaim.catalog.content.entries import Entry
from reclaim.catalog.database.transactions import ATTEMPTS
from reclaim.catalog.names import check_path
from reclaim.catalog.refs import commits
from reclaim.catalog.refs.reading import RefContents, gone_if_collected, scene, tree_of
from reclaim.catalog.staging import claims, ledger, reference_lock, staged_rows, tokens
from reclaim.catalog.staging.partitions import Partition
from reclaim.catalog.staging.staged_rows import StagedChange
from reclaim.catalog.staging.tokens import View, ViewChanged
from reclaim.catalog.staging.uploads import REPLACED, check_branch, stage_fresh
from reclaim.catalog.workspace import Workspace
from reclaim.errors import InvalidInput, NotFound, TransactionFailed

T = TypeVar("T")

DELETED = "deleted before it was committed"


@dataclass(frozen=True, slots=True)
class _Seen:
    """View of a branch, with the entries below its open token at some paths."""

    view: View
    below: dict[str, Entry | None]


class _LockedPaths:
    """Some paths of a branch, locked against other writers in a transaction."""

    def __init__(self, connection: Connection, seen: _Seen, now: int) -> None:
        # Before other locks: copy and move create references to existing bytes.
        reference_lock.share(connection, seen.view.repo_uid)
        tokens.lock_view(connection, seen.view)
        self._connection = connection
        self._token = seen.view.open_token
        self._below = seen.below
        self._above: dict[str, StagedChange] = staged_rows.lock_rows(
            connection, self._token, list(seen.below)
        )
        self._now = now

    def visible(self, path: str) -> Entry | None:
        change = self._above.get(path)
        return change.entry if change is not None else self._below[path]

    def share(self, entry: Entry) -> None:
        """Stage an entry for bytes already visible on the branch."""
        claims.check_unclaimed(self._connection, entry.address)
        ledger.hold(self._connection, entry.address)
        self._replace(entry.path, entry, REPLACED)

    def remove(self, path: str) -> None:
        """Make a path invisible."""
        self._replace(path, None, DELETED)

    def _replace(self, path: str, entry: Entry | None, rule: str) -> None:
        change = self._above.pop(path, None)
        changes = []
        if entry is not None:
            changes = [entry.values()]
        elif self._below[path] is not None:
            changes = [staged_rows.tombstone(path, self._now)]
        staged_rows.replace(
            self._connection,
            self._token,
            {path: change} if change else {},
            changes,
            now=self._now,
            rule=rule,
        )
        if changes:
            self._above[path] = StagedChange(entry)


def _look(workspace: Workspace, branch: str, paths: Sequence[str]) -> _Seen:
    with workspace.database.read() as connection:
        view = tokens.read_view(connection, workspace.repo_uid, branch)
        head = commits.get(connection, workspace.repo_uid, view.head)
        sealed = RefContents(head, tree_of(workspace, head), view.tokens[1:])
        return _Seen(view, {path: sealed.find(connection, path) for path in paths})


def _edit(
    workspace: Workspace, branch: str, paths: Sequence[str], work: Callable[[_LockedPaths], T]
) -> T:
    """Run ``work`` in a transaction on an unchanged branch."""
    for _ in range(ATTEMPTS):
        seen = _look(workspace, branch, paths)

        def locked(connection: Connection, seen: _Seen = seen) -> T:
            return work(_LockedPaths(connection, seen, workspace.now()))

        try:
            return workspace.database.transact(locked)
        except ViewChanged:
            continue
    raise TransactionFailed(
        f"the branch {branch} kept changing while it was being written", hint="run it again"
    )


def delete(workspace: Workspace, branch: str, paths: Sequence[str]) -> None:
    """Delete objects in a single transaction; all must exist."""
    for path in paths:
        check_path(path)

    def work(locked_paths: _LockedPaths) -> None:
        for path in paths:
            if locked_paths.visible(path) is None:
                raise _no_object(path, branch)
            locked_paths.remove(path)

    _edit(workspace, branch, paths, work)


def move(workspace: Workspace, branch: str, source: str, target: str) -> Entry:
    """Move an object to another path: copy and delete in a single transaction.

    The entry keeps its address and its creation date.
    """
    check_path(source)
    check_path(target)
    if source == target:
        raise InvalidInput(f"{source!r} cannot be moved to its own path")

    def work(locked_paths: _LockedPaths) -> Entry:
        entry = locked_paths.visible(source)
        if entry is None:
            raise _no_object(source, branch)
        moved = replace(entry, path=target)
        locked_paths.share(moved)
        locked_paths.remove(source)
        return moved

    return _edit(workspace, branch, [source, target], work)


def copy(workspace: Workspace, source_ref: str, source: str, branch: str, target: str) -> Entry:
    """Copy an object to a path of a branch.

    If the same entry is visible on this branch, the address is shared. Any other source is copied
    as bytes, because nothing would hold its address for this branch.
    """
    check_path(source)
    check_path(target)
    check_branch(workspace, branch)
    with workspace.database.read() as connection:
        shown = scene(connection, workspace, source_ref)
        source_entry = shown.find(connection, source)
    if source_entry is None:
        raise _no_object(source, source_ref)
    original = source_entry

    def work(locked_paths: _LockedPaths) -> Entry | None:
        visible = locked_paths.visible(source)
        if visible is None and source_ref == branch:
            raise _no_object(source, branch)
        if original.owned and (visible is None or visible.address != original.address):
            return None
        copied = replace(original, path=target, created_at=workspace.clock.now())
        locked_paths.share(copied)
        return copied

    shared = _edit(workspace, branch, [source, target], work)
    if shared is not None:
        return shared
    # Nothing holds a commit named by its id: a run may collect it meanwhile.
    with gone_if_collected(workspace, shown.commit):
        return _copy_bytes(workspace, original, branch, target)


def _copy_bytes(workspace: Workspace, original: Entry, branch: str, target: str) -> Entry:
    def write(partition: Partition) -> Entry:
        address = partition.new_object(branch)
        try:
            workspace.storage.copy(original.address, address)
        except NotFound as error:
            raise workspace.missing(original) from error
        workspace.storage.flush([address])
        copied = replace(original, path=target, address=address, created_at=workspace.clock.now())
        stage_fresh(workspace, branch, [copied], partition)
        return copied

    return workspace.partitions.write(workspace.repo_uid, write)


def _no_object(path: str, ref: str) -> NotFound:
    return NotFound(f"there is no object {path!r} on {ref}", hint="list them with `reclaim ls`")
