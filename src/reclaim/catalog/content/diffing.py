"""Differences between two trees, and uncommitted changes of a branch.

Ranges shared by both trees are skipped unread, so the cost depends on the size of the difference.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import Connection

from reclaim.catalog.content.entries import Entry, same_content
from reclaim.catalog.content.tree import Tree, entries_of
from reclaim.catalog.names import after_prefix
from reclaim.catalog.refs.reading import PAGE, RefContents
from reclaim.catalog.staging import staged_rows


class ChangeKind(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Change:
    """Path with a difference; ``before`` or ``after`` is None where the path does not exist."""

    path: str
    before: Entry | None
    after: Entry | None

    @property
    def kind(self) -> ChangeKind:
        if self.before is None:
            return ChangeKind.ADDED
        return ChangeKind.REMOVED if self.after is None else ChangeKind.CHANGED


def diff(before: Tree, after: Tree, prefix: str = "") -> Iterator[Change]:
    """Yield the changes from the first tree to the second, in path order."""
    for path, left, right in _compare(_Side(before, prefix), _Side(after, prefix)):
        if path.startswith(prefix) and not same_content(left, right):
            yield Change(path, left, right)


def staged(
    connection: Connection, shown: RefContents, prefix: str, start: str
) -> tuple[list[Change], str]:
    """Return a page of a branch's uncommitted changes, and the start of the next ("" = none)."""
    page: list[Change] = []
    rows = staged_rows.rows(connection, shown.tokens, prefix=prefix, start=start)
    for path, *values in rows:
        if len(page) == PAGE:
            return page, path
        before = shown.tree.get(path)
        after = Entry.from_values(path, *values) if values[0] is not None else None
        if before is not None or after is not None:
            page.append(Change(path, before, after))
    return page, ""


class _Side:
    """One side of a comparison: unread ranges, and entries read but not yet compared."""

    def __init__(self, tree: Tree, prefix: str) -> None:
        stop = after_prefix(prefix)
        self._tree = tree
        self._ranges = [
            info
            for info in tree.ranges
            if info.max_path >= prefix and (stop is None or info.min_path < stop)
        ]
        self._at = 0
        self.pending: list[Entry] = []

    @property
    def next_digest(self) -> str | None:
        return self._ranges[self._at].digest if self._at < len(self._ranges) else None

    @property
    def exhausted(self) -> bool:
        return not self.pending and self.next_digest is None

    def skip(self) -> None:
        self._at += 1

    def fill(self) -> None:
        if not self.pending and self.next_digest is not None:
            self.pending = list(entries_of(self._tree.rows(self._ranges[self._at])))
            self._at += 1

    def take(self, bound: str) -> list[Entry]:
        """Return the pending entries up to a path."""
        upto = bisect_right(self.pending, bound, key=lambda entry: entry.path)
        taken, self.pending = self.pending[:upto], self.pending[upto:]
        return taken


def _compare(left: _Side, right: _Side) -> Iterator[tuple[str, Entry | None, Entry | None]]:
    """Yield pairs of entries by path, without ranges shared by both sides."""
    while not (left.exhausted and right.exhausted):
        aligned = not left.pending and not right.pending
        if aligned and left.next_digest is not None and left.next_digest == right.next_digest:
            left.skip()
            right.skip()
            continue
        left.fill()
        right.fill()
        bound = min(side.pending[-1].path for side in (left, right) if side.pending)
        ours = {entry.path: entry for entry in left.take(bound)}
        theirs = {entry.path: entry for entry in right.take(bound)}
        for path in sorted(ours.keys() | theirs.keys()):
            yield path, ours.get(path), theirs.get(path)
