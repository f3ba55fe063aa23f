"""Branches, on which changes are made."""

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
    """Branch with its staging area. Reads like any ref and includes uncommitted changes.

    Changes become part of the history with ``commit``.
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
        """Upload many objects, given as (path, data), in parallel; return their number.

        ``progress`` is called after each upload, from several threads.
        """
        return uploads.put_many(self._workspace, self.name, items, progress=progress)

    def delete(self, path: str) -> None:
        """Delete an object on this branch. Existing commits keep it."""
        entry_edits.delete(self._workspace, self.name, [path])

    def delete_many(self, paths: Sequence[str]) -> None:
        """Delete several objects together: all, or none if any does not exist."""
        entry_edits.delete(self._workspace, self.name, paths)

    def copy(self, source: str, target: str, *, source_ref: str | None = None) -> Entry:
        """Copy an object from this branch, or from any ref, to a path of this branch."""
        return entry_edits.copy(self._workspace, source_ref or self.name, source, self.name, target)

    def move(self, source: str, target: str) -> Entry:
        """Move an object to another path, keeping its creation date."""
        return entry_edits.move(self._workspace, self.name, source, target)

    def stage(self, path: str, address: str) -> Entry:
        """Add an existing object outside the catalog without copying it.

        The catalog never deletes such an object. Addresses a catalog may collect are refused.
        """
        return imports.stage(self._workspace, self.name, path, address)

    def stage_many(self, items: Iterable[Import]) -> int:
        """Add many objects outside the catalog without checking each."""
        return imports.stage_many(self._workspace, self.name, items)

    def get_physical_address(self, path: str, *, valid: timedelta = TOKEN_VALID) -> PhysicalAddress:
        """Return an address for a direct upload, with a token for linking the object."""
        return physical_addresses.get_physical_address(self._workspace, self.name, path, valid)

    def link_physical_address(
        self,
        path: str,
        address: PhysicalAddress,
        *,
        content_type: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> Entry:
        """Add an object uploaded to a physical address. The token works once."""
        return physical_addresses.link_physical_address(
            self._workspace,
            self.name,
            path,
            address,
            content_type=content_type,
            metadata=metadata or {},
        )

    def uncommitted(self, prefix: str = "") -> Iterator[Change]:
        """Yield the uncommitted changes in path order, page by page."""
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
        """Commit the uncommitted changes to this branch."""
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
        """Merge the commits of another ref into this branch.

        Paths changed differently on both sides raise ``MergeConflict`` unless ``prefer`` chooses a
        side. Returns the unchanged head if the source is already merged.
        """
        if prefer is not None and prefer not in tuple(Side):
            raise InvalidInput(f"{prefer!r} is not a side", hint="prefer 'source' or 'target'")
        side = Side(prefer) if prefer is not None else None
        note = Note(message or f"Merge {source_ref} into {self.name}", committer, metadata or {})
        return merging.merge(self._workspace, source_ref, self.name, note, side)

    def revert(
        self, ref: str, *, parent: int | None = None, message: str = "", committer: str = ""
    ) -> Commit:
        """Create a commit that reverts another commit. A merge needs the number of ``parent``."""
        note = Note(message or f"Revert {ref}", committer, {})
        return merging.revert(self._workspace, self.name, ref, note, parent)

    def reset(self) -> None:
        """Discard all uncommitted changes."""
        resetting.reset_branch(self._workspace, self.name)
        self._tidy()

    def reset_path(self, path: str) -> None:
        """Discard the uncommitted change of an object."""
        resetting.reset_path(self._workspace, self.name, path)

    def reset_prefix(self, prefix: str) -> int:
        """Discard the uncommitted changes below a prefix; return their number."""
        return resetting.reset_prefix(self._workspace, self.name, prefix)

    def reset_to(self, ref: str) -> Commit:
        """Move this branch to another commit and discard its uncommitted changes."""
        commit = resetting.reset_to(self._workspace, self.name, ref)
        self._tidy()
        return commit

    def _tidy(self) -> None:
        """Remove a bounded number of obsolete rows; later calls remove more.

        The preceding operation has succeeded, so errors are only logged.
        """
        workspace = self._workspace
        try:
            cleaner.clean(workspace.database, workspace.clock, workspace.repo_uid, limit=TIDY)
        except ReclaimError as error:
            log.warning("could not clean staged rows, a later call repeats it: %s", error)
