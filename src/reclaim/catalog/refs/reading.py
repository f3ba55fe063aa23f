"""Reading of refs: staged changes over the tree of a commit."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa
from sqlalchemy import Connection

from reclaim.catalog.content import checksums
from reclaim.catalog.content.entries import Entry
from reclaim.catalog.content.ranges import RangeInfo
from reclaim.catalog.content.tree import Tree
from reclaim.catalog.names import after_prefix, check_path, check_prefix, check_text
from reclaim.catalog.refs import commits
from reclaim.catalog.refs.commits import Commit
from reclaim.catalog.refs.leases import CommitLeases, LeaseHandle
from reclaim.catalog.staging import claims, staged_rows, tokens
from reclaim.catalog.staging.claims import ExpiredBy
from reclaim.catalog.workspace import Workspace
from reclaim.errors import Corrupt, InvalidInput, NotFound, StorageUnavailable

PAGE = 1_000
MOST_FETCHED = 20_000


@dataclass(frozen=True, slots=True)
class RefContents:
    """Contents of a ref: the tree of a commit and, on a branch, the staging tokens over it."""

    commit: Commit
    tree: Tree
    tokens: tuple[int, ...] = ()

    def find(self, connection: Connection, path: str) -> Entry | None:
        """The visible entry at a path."""
        row = staged_rows.find(connection, self.tokens, path) if self.tokens else None
        if row is not None:
            return row.entry
        return self.tree.get(path)

    def entries(
        self, connection: Connection, *, prefix: str, start: str, fetch: int = staged_rows.FETCH
    ) -> Iterator[Entry]:
        """The visible entries with a prefix, from ``start`` on, in path order."""
        low = max(start, prefix)
        committed = self.tree.entries(start=low, stop=after_prefix(prefix))
        if not self.tokens:
            return committed
        staged = staged_rows.rows(connection, self.tokens, start=start, prefix=prefix, fetch=fetch)
        return _overlay(committed, staged)


def _overlay(committed: Iterator[Entry], staged: Iterator[Any]) -> Iterator[Entry]:
    below = next(committed, None)
    for row in staged:
        path = row[0]
        while below is not None and below.path < path:
            yield below
            below = next(committed, None)
        if below is not None and below.path == path:
            below = next(committed, None)
        if row[1] is not None:
            yield Entry.from_values(*row)
        if below is None:
            yield from (Entry.from_values(*row) for row in staged if row[1] is not None)
            return
    if below is not None:
        yield below
        yield from committed


def scene(connection: Connection, workspace: Workspace, ref: str) -> RefContents:
    """Current contents of a ref: a branch with its staged changes, others as committed."""
    staged: tuple[int, ...] = ()
    with suppress(NotFound):
        staged = tokens.read_view(connection, workspace.repo_uid, ref).tokens
    commit = commits.resolve(connection, workspace.repo_uid, ref)
    return RefContents(commit, tree_of(workspace, commit), staged)


def tree_of(workspace: Workspace, commit: Commit) -> Tree:
    """The tree of a commit, for readers that may race with a collection."""
    with gone_if_collected(workspace, commit):
        return CommitTree(workspace, commit)


class CommitTree(Tree):
    """Tree with its commit, to explain a missing range."""

    def __init__(self, workspace: Workspace, commit: Commit) -> None:
        super().__init__(workspace.containers.tree(commit.metarange).ranges, workspace.containers)
        self._workspace = workspace
        self._commit = commit

    def rows(self, info: RangeInfo) -> pa.Table:
        with gone_if_collected(self._workspace, self._commit):
            return super().rows(info)


@contextmanager
def gone_if_collected(workspace: Workspace, commit: Commit) -> Iterator[None]:
    """On a missing container, check whether the commit has been condemned since it was read."""
    try:
        yield
    except Corrupt as error:
        if isinstance(error.__cause__, NotFound):
            # Another snapshot than the caller's, in which the commit is still live.
            with workspace.database.read() as connection:
                commits.get(connection, workspace.repo_uid, commit.id)
        raise


@dataclass(frozen=True, slots=True)
class Page:
    """Page of a listing: entries and common prefixes in order.

    ``after`` is the token for the next page; empty on the last page.
    """

    entries: list[Entry]
    prefixes: list[str]
    after: str


class RefReader:
    """Reader for a ref. A branch includes its uncommitted changes.

    A branch is read in its current state at each call. With ``leases``, the first read of any other
    ref takes a lease on its commit; later reads use the same commit. The lease ends when the reader
    is garbage collected or the catalog is closed.
    """

    def __init__(
        self,
        workspace: Workspace,
        ref: str,
        leases: CommitLeases | None = None,
        use: LeaseHandle | None = None,
    ) -> None:
        self._workspace = workspace
        self._leases = leases
        self._use = use
        self._opening = threading.Lock()
        self.ref = ref

    def stat(self, path: str) -> Entry:
        """The entry at a path."""
        return self._find(path)[1]

    def exists(self, path: str) -> bool:
        """Whether an entry exists at a path."""
        try:
            self.stat(path)
        except NotFound:
            return False
        return True

    def get(self, path: str) -> bytes:
        """The bytes of an object."""
        commit, entry = self._find(path)
        storage, address = self._workspace.locate(entry)
        with gone_if_collected(self._workspace, commit):
            try:
                return storage.get(address)
            except NotFound as error:
                raise self._workspace.missing(entry) from error

    def open(self, path: str) -> ObjectReader:
        """An object to read by ranges; on a branch the one that is there now."""
        return ObjectReader(self, *self._find(path))

    def stream(self, path: str) -> Iterator[bytes]:
        """Yield the bytes of an object in pieces, for objects larger than memory."""
        yield from self._stream(*self._find(path))

    def stream_verified(self, path: str) -> tuple[Entry, Iterator[bytes]]:
        """Return an entry and its bytes in pieces; corrupt bytes raise ``Corrupt`` at the end.

        Without a supported checksum (``checksums.is_known``) only the size is compared.
        """
        commit, entry = self._find(path)
        pieces = checksums.compared(
            self._stream(commit, entry),
            path=entry.path,
            address=entry.address,
            size=entry.size,
            checksum=entry.checksum,
        )
        return entry, pieces

    def _stream(self, commit: Commit, entry: Entry) -> Iterator[bytes]:
        storage, address = self._workspace.locate(entry)
        with gone_if_collected(self._workspace, commit):
            try:
                for piece in storage.stream(address):
                    self._check()
                    yield piece
            except NotFound as error:
                raise self._workspace.missing(entry) from error

    def _read_range(self, commit: Commit, entry: Entry, start: int, end: int) -> bytes:
        self._check()
        storage, address = self._workspace.locate(entry)
        with gone_if_collected(self._workspace, commit):
            try:
                data = storage.get_range(address, start, end)
            except NotFound as error:
                raise self._workspace.missing(entry) from error
            except StorageUnavailable:
                # Storages refuse a range beyond the end of an object, each with another answer.
                if storage.head(address).size >= end:
                    raise
                data = b""
        if len(data) != end - start:
            raise Corrupt(
                f"the bytes of {entry.path} are damaged: the object is shorter than "
                f"{entry.size:,} bytes (at {entry.address})",
                hint="restore the object from a backup or another copy; nothing was changed",
            )
        return data

    def list(
        self, prefix: str = "", *, delimiter: str = "", after: str = "", limit: int = PAGE
    ) -> Page:
        """Return a page of a listing; ``entries`` iterates over the whole listing.

        With a ``delimiter`` (usually ``/``), paths are grouped by the part up to its next
        occurrence. Pass a page's ``after`` to get the next page.
        """
        check_prefix(prefix)
        check_text(after)
        check_prefix(delimiter.replace("/", ""))
        if limit < 1:
            raise InvalidInput("the limit of a page must be at least 1")
        with self._shown() as (connection, shown):
            return _page(connection, shown, prefix, delimiter, after, limit)

    def entries(self, prefix: str = "") -> Iterator[Entry]:
        """All entries with a prefix, page by page; each page is consistent in itself."""
        after = ""
        while True:
            page = self.list(prefix, after=after, limit=10 * PAGE)
            yield from page.entries
            if not page.after:
                return
            after = page.after

    def expired(self, entries: Iterable[Entry]) -> Mapping[str, ExpiredBy]:
        """Return the given entries with bytes deleted by a lifecycle rule, by address."""
        owned = {entry.address for entry in entries if entry.owned}
        with self._workspace.database.read() as connection:
            return claims.find_expired(connection, owned)

    def _find(self, path: str) -> tuple[Commit, Entry]:
        check_path(path)
        with self._shown() as (connection, shown):
            entry = shown.find(connection, path)
        if entry is None:
            raise NotFound(
                f"there is no object {path!r} on {self.ref}", hint="list them with `reclaim ls`"
            )
        return shown.commit, entry

    @contextmanager
    def _shown(self) -> Iterator[tuple[Connection, RefContents]]:
        """Current contents, with the database snapshot they are read from."""
        self._open()
        self._check()
        ref = self._use.commit if self._use is not None else self.ref
        with self._workspace.database.read() as connection:
            yield connection, scene(connection, self._workspace, ref)

    def _open(self) -> None:
        with self._opening:
            if self._leases is None or self._use is not None:
                return
            with suppress(NotFound), self._workspace.database.read() as connection:
                tokens.read_view(connection, self._workspace.repo_uid, self.ref)
                return
            self._use = self._leases.open_if_writable(self._workspace, self.ref)

    def _check(self) -> None:
        if self._use is not None:
            self._use.check()


class ObjectReader:
    """One object, read by ranges: the entry at the time of ``RefReader.open``.

    The lease of the reader, if any, lasts until the object reader is garbage.
    """

    def __init__(self, reader: RefReader, commit: Commit, entry: Entry) -> None:
        self._reader = reader
        self._commit = commit
        self.entry = entry

    def read(self, start: int, end: int) -> bytes:
        """The bytes from ``start`` up to ``end``, cut off at the object's size."""
        start, end, _ = slice(start, end).indices(self.entry.size)
        if start >= end:
            return b""
        return self._reader._read_range(self._commit, self.entry, start, end)


def _page(
    connection: Connection, shown: RefContents, prefix: str, delimiter: str, after: str, limit: int
) -> Page:
    entries: list[Entry] = []
    prefixes: list[str] = []
    start = _next_after(after, prefix, delimiter)
    if not delimiter:
        # One more than asked for says whether there is another page.
        fetch = min(limit + 1, MOST_FETCHED)
        listed = shown.entries(connection, prefix=prefix, start=start, fetch=fetch)
        page = list(islice(listed, limit + 1))
        return Page(page[:limit], [], page[limit - 1].path if len(page) > limit else "")
    while True:
        rolled = None
        for entry in shown.entries(connection, prefix=prefix, start=start):
            if len(entries) + len(prefixes) == limit:
                last = max(entries[-1].path if entries else "", prefixes[-1] if prefixes else "")
                return Page(entries, prefixes, last)
            rolled = _common_prefix(entry.path, prefix, delimiter)
            if rolled:
                break
            entries.append(entry)
        if not rolled:
            return Page(entries, prefixes, "")
        prefixes.append(rolled)
        # Everything below a common prefix is skipped without being read.
        start = after_prefix(rolled) or rolled


def _next_after(after: str, prefix: str, delimiter: str) -> str:
    """Smallest start after ``after`` and, for a common prefix, after everything below it."""
    if not after:
        return ""
    if _common_prefix(after, prefix, delimiter) == after:
        return after_prefix(after) or after
    # No path holds a character this low, so nothing lies between the two.
    return after + "\x01"


def _common_prefix(path: str, prefix: str, delimiter: str) -> str | None:
    if not delimiter:
        return None
    at = path.find(delimiter, len(prefix))
    return None if at < 0 else path[: at + len(delimiter)]
