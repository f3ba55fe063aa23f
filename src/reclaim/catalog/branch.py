"""A branch: the place where changes are made."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from reclaim.catalog.content import diffing
from reclaim.catalog.content.diffing import Change
from reclaim.catalog.content.entries import Entry
from reclaim.catalog.names import check_prefix
from reclaim.catalog.refs import committing, merging
from reclaim.catalog.refs.commits import Commit
from reclaim.catalog.refs.committing import Note
from reclaim.catalog.refs.merging import Side
from reclaim.catalog.refs.reading import RefReader, scene
from reclaim.catalog.staging import (
    cleaner,
    entry_edits,
    imports,
    physical_addresses,
    resetting,
    tokens,
    uploads,
)
from reclaim.catalog.staging.imports import Import
from reclaim.catalog.staging.physical_addresses import TOKEN_VALID, PhysicalAddress
from reclaim.catalog.staging.uploads import Data
from reclaim.catalog.workspace import Workspace
from reclaim.errors import InvalidInput, ReclaimError

TIDY = 10_000

log = logging.getLogger(__name__)


class Branch(RefReader):
    """A branch with its staging area. It reads like any ref and shows uncommitted changes.

    Nothing is part of the history until ``commit``.
    """

    def __init__(self, workspace: Workspace, name: str) -> None:
        super().__init__(workspace, name)
        self.name = name

    def put(
        self,
        path: str,
        data: Data,
        *,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> Entry:
        """Upload an object: bytes, a file on disk, or an open binary file."""
        return uploads.put(
            self._workspace,
            self.name,
            path,
            data,
            content_type=content_type,
            metadata=metadata or {},
        )

    def put_many(
        self,
        items: Iterable[tuple[str, bytes | Path]],
        *,
        progress: Callable[[Entry], None] = lambda _entry: None,
    ) -> int:
        """Upload many objects given as (path, data), several at a time; returns how many.

        ``progress`` is called after each upload, from several threads.
        """
        return uploads.put_many(self._workspace, self.name, items, progress=progress)

    def delete(self, path: str) -> None:
        """Delete an object on this branch. Commits that have it keep it."""
        entry_edits.delete(self._workspace, self.name, [path])

    def delete_many(self, paths: Sequence[str]) -> None:
        """Delete several objects together: all of them, or none if one is not there."""
        entry_edits.delete(self._workspace, self.name, paths)

    def copy(self, source: str, target: str, *, source_ref: str | None = None) -> Entry:
        """Copy an object from this branch, or from any ref, to a path of this branch."""
        return entry_edits.copy(self._workspace, source_ref or self.name, source, self.name, target)

    def move(self, source: str, target: str) -> Entry:
        """Give an object another path; it keeps its creation date."""
        return entry_edits.move(self._workspace, self.name, source, target)

    def stage(self, path: str, address: str) -> Entry:
        """Add an object that lies outside the catalog, where it is.

        The catalog never deletes such an object. Addresses that a catalog may collect are refused.
        """
        return imports.stage(self._workspace, self.name, path, address)

    def stage_many(self, items: Iterable[Import]) -> int:
        """Add many objects that lie outside the catalog, without looking at each."""
        return imports.stage_many(self._workspace, self.name, items)

    def get_physical_address(self, path: str, *, valid: timedelta = TOKEN_VALID) -> PhysicalAddress:
        """A place to upload an object to yourself, and the token to link it with."""
        return physical_addresses.get_physical_address(self._workspace, self.name, path, valid)

    def link_physical_address(
        self,
        path: str,
        address: PhysicalAddress,
        *,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> Entry:
        """Add an object that you uploaded to a physical address. Its token works once."""
        return physical_addresses.link_physical_address(
            self._workspace,
            self.name,
            path,
            address,
            content_type=content_type,
            metadata=metadata or {},
        )

    def uncommitted(self, prefix: str = "") -> Iterator[Change]:
        """The changes that a commit would take, in path order, page by page."""
        check_prefix(prefix)
        start = ""
        while True:
            with self._workspace.database.read() as connection:
                tokens.read_view(connection, self._workspace.repo_uid, self.name)
                shown = scene(connection, self._workspace, self.name)
                page, start = diffing.staged(connection, shown, prefix, start)
            yield from page
            if not start:
                return

    def commit(
        self,
        message: str,
        *,
        committer: str = "",
        metadata: Mapping[str, str] | None = None,
        allow_empty: bool = False,
    ) -> Commit:
        """Make the uncommitted changes a commit of this branch."""
        note = Note(message, committer, metadata or {})
        commit = committing.commit(self._workspace, self.name, note, allow_empty=allow_empty)
        self._tidy()
        return commit

    def merge(
        self,
        source_ref: str,
        *,
        message: str = "",
        committer: str = "",
        prefer: Side | str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Commit:
        """Merge what another ref has committed into this branch.

        A path that both sides changed differently is a ``MergeConflict`` unless ``prefer``
        chooses a side. Returns the head unchanged when the source is in it already.
        """
        if prefer is not None and prefer not in tuple(Side):
            raise InvalidInput(f"{prefer!r} is not a side", hint="prefer 'source' or 'target'")
        side = Side(prefer) if prefer is not None else None
        note = Note(message or f"Merge {source_ref} into {self.name}", committer, metadata or {})
        return merging.merge(self._workspace, source_ref, self.name, note, side)

    def revert(
        self, ref: str, *, parent: int | None = None, message: str = "", committer: str = ""
    ) -> Commit:
        """Commit the opposite of what a commit changed. A merge needs the ``parent``'s number."""
        note = Note(message or f"Revert {ref}", committer, {})
        return merging.revert(self._workspace, self.name, ref, note, parent)

    def reset(self) -> None:
        """Throw away all uncommitted changes."""
        resetting.reset_branch(self._workspace, self.name)
        self._tidy()

    def reset_path(self, path: str) -> None:
        """Throw away the uncommitted change of one object."""
        resetting.reset_path(self._workspace, self.name, path)

    def reset_prefix(self, prefix: str) -> int:
        """Throw away the uncommitted changes below a prefix; returns how many there were."""
        return resetting.reset_prefix(self._workspace, self.name, prefix)

    def reset_to(self, ref: str) -> Commit:
        """Move this branch to another commit and throw away its uncommitted changes."""
        commit = resetting.reset_to(self._workspace, self.name, ref)
        self._tidy()
        return commit

    def _tidy(self) -> None:
        """Remove a bounded number of rows that nobody reads; the rest waits for the next time.

        What came before it has succeeded, so its own trouble is not the caller's.
        """
        workspace = self._workspace
        try:
            cleaner.clean(workspace.database, workspace.clock, workspace.repo_uid, limit=TIDY)
        except ReclaimError as error:
            log.warning("staged rows were left for a later cleaning: %s", error)
