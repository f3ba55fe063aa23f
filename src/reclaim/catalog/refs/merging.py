"""Merge and revert: three-way, path by path.

A path changed by a single side since the base takes this side. A path changed differently by both
sides is a conflict, which is an error unless a side was chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection

from reclaim.catalog.content.diffing import Change, diff
from reclaim.catalog.content.entries import Entry, same_content
from reclaim.catalog.content.range_writer import reusable_from, rewrite
from reclaim.catalog.content.tree import Tree
from reclaim.catalog.database.transactions import ATTEMPTS
from reclaim.catalog.refs import commits
from reclaim.catalog.refs.commits import Commit
from reclaim.catalog.refs.committing import Draft, Note, land
from reclaim.catalog.refs.merge_bases import MergeBase, merge_base
from reclaim.catalog.refs.reading import tree_of
from reclaim.catalog.staging import staged_rows, tokens
from reclaim.catalog.staging.partitions import Partition, advance_epoch
from reclaim.catalog.staging.tokens import View, ViewChanged
from reclaim.catalog.workspace import Workspace
from reclaim.errors import (
    DirtyBranch,
    InvalidInput,
    MergeConflict,
    NothingToCommit,
    ReclaimError,
    TransactionFailed,
)

NAMED_CONFLICTS = 20


class Side(StrEnum):
    """Side that wins a conflict."""

    SOURCE = "source"
    TARGET = "target"


def merge(
    workspace: Workspace, source_ref: str, branch: str, note: Note, prefer: Side | None = None
) -> Commit:
    """Merge the commits of a ref into a branch.

    Returns the branch's head unchanged if it already contains the source.
    """

    def attempt() -> Commit:
        with workspace.database.read() as connection:
            view, target = _clean_head(connection, workspace, branch)
            source = commits.resolve(connection, workspace.repo_uid, source_ref)
            base = merge_base(connection, workspace.repo_uid, target, source)
        if base.commit is not None and base.commit.id == source.id:
            return target

        def combine() -> _Combination:
            return _Combination(workspace, base, source, target, prefer)

        return _land(workspace, view, combine, note, parents=[target, source])

    return _repeat(branch, attempt)


def revert(
    workspace: Workspace, branch: str, ref: str, note: Note, parent: int | None = None
) -> Commit:
    """Create a commit reverting another commit's changes against its parent."""

    def attempt() -> Commit:
        with workspace.database.read() as connection:
            view, target = _clean_head(connection, workspace, branch)
            undone = commits.resolve(connection, workspace.repo_uid, ref)
            source = commits.get(connection, workspace.repo_uid, _reverted_parent(undone, parent))
        base = MergeBase(undone, trusted=True)

        def combine() -> _Combination:
            return _Combination(workspace, base, source, target, prefer=None)

        return _land(workspace, view, combine, note, parents=[target], taken_from=[source])

    return _repeat(branch, attempt)


def _repeat(branch: str, attempt: Callable[[], Commit]) -> Commit:
    for _ in range(ATTEMPTS):
        try:
            return attempt()
        except ViewChanged:
            continue
    raise TransactionFailed(
        f"the branch {branch} kept changing while it was being merged", hint="run it again"
    )


def _clean_head(connection: Connection, workspace: Workspace, branch: str) -> tuple[View, Commit]:
    view = tokens.read_view(connection, workspace.repo_uid, branch)
    if staged_rows.has_rows(connection, view.tokens):
        raise DirtyBranch(
            f"the branch {branch} has uncommitted changes",
            hint="commit them or reset them first",
        )
    return view, commits.get(connection, workspace.repo_uid, view.head)


def _reverted_parent(undone: Commit, parent: int | None) -> str:
    if not undone.parents:
        raise InvalidInput(f"commit {undone.id} is the root commit and cannot be reverted")
    if undone.marked:
        raise InvalidInput(
            f"the parents of commit {undone.id} were replaced by an expiration, "
            "so its changes are no longer known",
            hint="restore single objects with `reclaim cp` from an older commit instead",
        )
    if parent is None and len(undone.parents) > 1:
        raise InvalidInput(
            f"commit {undone.id} is a merge", hint="select the parent with --parent N"
        )
    number = 1 if parent is None else parent
    if not 1 <= number <= len(undone.parents):
        raise InvalidInput(f"commit {undone.id} has no parent number {number}")
    return undone.parents[number - 1]


def _land(
    workspace: Workspace,
    view: View,
    combine: Callable[[], _Combination],
    note: Note,
    *,
    parents: list[Commit],
    taken_from: list[Commit] | None = None,
) -> Commit:
    trees = [tree_of(workspace, parent) for parent in parents]

    def write(partition: Partition) -> Commit:
        with _announced(workspace, view, partition) as announced:
            return write_and_land(announced, partition)

    def write_and_land(announced: View, partition: Partition) -> Commit:
        begun_at = workspace.clock.now()
        combined = combine()
        _, metarange = rewrite(
            combined.target,
            combined.changes(),
            storage=workspace.storage,
            partition=partition,
            reusable=reusable_from(trees),
        )
        combined.check()
        if len(parents) == 1 and not combined.changed:
            raise NothingToCommit("reverting this commit would change nothing")
        draft = Draft(announced, parents, metarange, note, begun_at, taken_from=taken_from or [])
        return land(workspace, draft, partition)

    return workspace.partitions.write(workspace.repo_uid, write)


@contextmanager
def _announced(workspace: Workspace, view: View, partition: Partition) -> Iterator[View]:
    """Record on the branch the partition being written, and count an epoch for it.

    A commit records it with the sealed changes; a merge has none.
    """

    def announce(connection: Connection) -> tuple[View, int]:
        epoch = advance_epoch(connection, partition)
        tokens.lock_view(connection, view, exclusive=True)
        return tokens.announce(connection, view, partition.id), epoch

    announced, epoch = workspace.database.transact(announce)
    try:
        workspace.partitions.write_epoch_marker(partition, epoch)
        yield announced
    except ReclaimError:
        with suppress(ReclaimError):
            workspace.database.transact(
                lambda connection: tokens.withdraw(connection, view, announced)
            )
        raise


class _Combination:
    """Changes of a source since a base, applied to a target."""

    def __init__(
        self,
        workspace: Workspace,
        base: MergeBase,
        source: Commit,
        target: Commit,
        prefer: Side | None,
    ) -> None:
        self.source = tree_of(workspace, source)
        self.target = tree_of(workspace, target)
        self._base = tree_of(workspace, base.commit) if base.commit and base.trusted else None
        self._prefer = prefer
        self._conflicts: list[str] = []
        self._conflict_count = 0
        self.changed = 0

    def changes(self) -> Iterator[tuple[Any, ...]]:
        """Yield the changes to the target, in path order.

        After an unresolved conflict no more changes are yielded, but all conflicts are counted;
        ``check`` then fails.
        """
        for path, entry, conflict in self._wanted():
            if conflict and self._prefer is None:
                self._conflict_count += 1
                if len(self._conflicts) < NAMED_CONFLICTS:
                    self._conflicts.append(path)
            elif conflict and self._prefer is Side.TARGET:
                continue
            elif not self._conflict_count:
                self.changed += 1
                yield entry.values() if entry else (path, None, 0, 0, "", "", "")

    def check(self) -> None:
        if not self._conflict_count:
            return
        named = ", ".join(self._conflicts[:5])
        more = f" and {self._conflict_count - 5} more" if self._conflict_count > 5 else ""
        raise MergeConflict(
            f"{self._conflict_count} path(s) changed on both sides: {named}{more}",
            hint="choose a side with --prefer source or --prefer target, or resolve them first",
            count=self._conflict_count,
            paths=self._conflicts,
        )

    def _wanted(self) -> Iterator[tuple[str, Entry | None, bool]]:
        """Each path changed by the source: its new entry, and whether it conflicts."""
        if self._base is None:
            # Without a trusted base, any difference may be a change of either side.
            for change in diff(self.target, self.source):
                yield change.path, change.after, True
            return
        for theirs, ours in _paired(diff(self._base, self.source), self._base, self.target):
            if ours is None:
                yield theirs.path, theirs.after, False
            elif not same_content(ours.after, theirs.after):
                yield theirs.path, theirs.after, True


def _paired(
    theirs: Iterator[Change], base: Tree, target: Tree
) -> Iterator[tuple[Change, Change | None]]:
    """Yield the source's changes, each with the target's change of the same path."""
    ours = diff(base, target)
    own = next(ours, None)
    for change in theirs:
        while own is not None and own.path < change.path:
            own = next(ours, None)
        yield change, own if own is not None and own.path == change.path else None
