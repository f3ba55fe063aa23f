"""Repositories: branches, tags and their shared history."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any

from reclaim.catalog.content import diffing
from reclaim.catalog.content.diffing import Change
from reclaim.catalog.names import check_prefix
from reclaim.catalog.refs import commits, leases, logs, refs
from reclaim.catalog.refs.commits import Commit
from reclaim.catalog.refs.leases import CommitLeases
from reclaim.catalog.refs.reading import RefReader, tree_of
from reclaim.catalog.refs.refs import NamedRef
from reclaim.catalog.staging import cleaner
from reclaim.catalog.staging.cleaner import Cleaned
from reclaim.catalog.workspace import Workspace
from reclaim.model import Lease
from reclaim.run_record import RunRecord
from reclaim.storage import Storage

if TYPE_CHECKING:
    from reclaim.catalog.branch import Branch
    from reclaim.catalog.collection.roots.observing import Roots
    from reclaim.catalog.settings import RepositorySettings


class Repository:
    """Repository of a catalog, returned by ``Catalog.repository``.

    Code for writing and collecting is loaded on first use: most processes only read.
    """

    def __init__(
        self,
        workspace: Workspace,
        leases: CommitLeases,
    ) -> None:
        self._workspace = workspace
        self._leases = leases
        self.name = workspace.name
        self.uid = workspace.repo_uid
        self.default_branch = workspace.default_branch
        self.created_at = workspace.created_at

    def branch(self, name: str) -> Branch:
        """Return a branch for reading and writing. It is looked up on use."""
        from reclaim.catalog.branch import Branch

        return Branch(self._workspace, name)

    def at(self, ref: str) -> RefReader:
        """Return a reader for any branch, tag, commit id or expression like ``main~2``.

        Reading anything but a branch takes a lease on the commit while the reader is in use.
        """
        return RefReader(self._workspace, ref, self._leases)

    @contextmanager
    def lease(self, ref: str) -> Iterator[RefReader]:
        """Open a commit for reading, with a lease until the end of the block.

            with repo.lease("v1") as reader:
                reader.get("2026/orders.csv")

        The lease is renewed in the background. If renewal fails, the reader raises ``LeaseLapsed``
        before any of its objects may be collected.
        """
        with self._leases.hold(self._workspace, ref) as use:
            yield RefReader(self._workspace, use.commit, use=use)

    def take_lease(self, ref: str, *, holder: str, length: timedelta) -> Lease:
        """Take a lease on a commit without automatic renewal, for readers outside Python."""
        return leases.take(self._workspace, ref, holder=holder, length=length)

    def renew_lease(self, lease_id: str) -> Lease:
        """Renew a lease for its length from now on; a lapsed lease cannot be renewed."""
        return leases.renew(self._workspace.database, self._workspace.clock, self.uid, lease_id)

    def release_lease(self, lease_id: str) -> None:
        """Release a lease."""
        leases.release(self._workspace.database, self.uid, lease_id)

    def leases(self) -> list[tuple[Lease, bool]]:
        """Return all leases, oldest first, each with its validity."""
        workspace = self._workspace
        with workspace.database.read() as connection:
            now = workspace.database.now(connection, workspace.clock)
            listed = leases.list_leases(connection, self.uid)
        return [(lease, lease.valid_at(now)) for lease in listed]

    def branches(self) -> list[NamedRef]:
        """Return all branches, by name."""
        with self._workspace.database.read() as connection:
            return refs.list_branches(connection, self.uid, self.default_branch)

    def tags(self) -> list[NamedRef]:
        """Return all tags, by name."""
        with self._workspace.database.read() as connection:
            return refs.list_tags(connection, self.uid)

    def create_branch(self, name: str, source: str | None = None) -> Branch:
        """Create a branch at a commit; by default at the head of the default branch."""
        refs.create_branch(self._workspace, name, source or self.default_branch)
        return self.branch(name)

    def delete_branch(self, name: str) -> None:
        """Delete a branch with its uncommitted changes. Merged commits stay."""
        refs.delete_branch(self._workspace, name)

    def create_tag(self, name: str, ref: str) -> Commit:
        """Create a tag: a fixed name for a commit."""
        return self.commit(refs.create_tag(self._workspace, name, ref))

    def delete_tag(self, name: str) -> None:
        refs.delete_tag(self._workspace, name)

    def commit(self, ref: str) -> Commit:
        """Return the commit of a ref."""
        with self._workspace.database.read() as connection:
            return commits.resolve(connection, self.uid, ref)

    def log(
        self,
        ref: str | None = None,
        *,
        path: str = "",
        first_parent: bool = False,
        limit: int | None = None,
    ) -> list[Commit]:
        """Return a commit and its ancestors, newest first, from a single database snapshot.

        With a path, return only commits with a change there from their first parent; a path ending
        in ``/`` stands for everything below it.
        """
        check_prefix(path)
        with self._workspace.database.read() as connection:
            tip = commits.resolve(connection, self.uid, ref or self.default_branch)
            walk = commits.walk(connection, self.uid, tip, first_parent=first_parent)
            read = list(islice(walk, None if path else limit))
        if not path:
            return read
        return list(islice((commit for commit in read if self._changed(commit, path)), limit))

    def _changed(self, commit: Commit, path: str) -> bool:
        """Whether a commit differs from its first parent at a path, or below one with ``/``."""
        if commit.parents:
            changed = (change.path for change in self.diff(commit.parents[0], commit.id, path))
        else:
            changed = (entry.path for entry in self.at(commit.id).list(path, limit=1).entries)
        # In path order: the path itself comes before all that start with it.
        first = next(changed, None)
        return first is not None and (path.endswith("/") or first == path)

    def log_page(
        self, ref: str | None = None, *, after: str = "", limit: int = 1_000
    ) -> tuple[list[Commit], str]:
        """Return a page of the log, and the ``after`` of the next page ("" on the last page).

        All pages come from the same history. If the history is edited in between, the next page
        raises ``Conflict``.
        """
        with self._workspace.database.read() as connection:
            return logs.page(connection, self.uid, ref or self.default_branch, after, limit)

    def runs(self) -> list[RunRecord]:
        """Return the runs that changed the history, newest first."""
        from reclaim.catalog.collection import records

        with self._workspace.database.read() as connection:
            return records.list_runs(connection, self.uid)

    def merge_base(self, left: str, right: str) -> Commit | None:
        """Return the newest commit reached by both refs."""
        from reclaim.catalog.refs import merge_bases

        with self._workspace.database.read() as connection:
            tips = [commits.resolve(connection, self.uid, ref) for ref in (left, right)]
            return merge_bases.merge_base(connection, self.uid, *tips).commit

    def diff(self, before: str, after: str, prefix: str = "") -> Iterator[Change]:
        """Yield the changes between two commits in path order. Both have a lease until the end."""
        check_prefix(prefix)
        uses = [self._leases.open_if_writable(self._workspace, ref) for ref in (before, after)]
        left, right = (tree_of(self._workspace, self.commit(use.commit)) for use in uses)

        def changes() -> Iterator[Change]:
            for change in diffing.diff(left, right, prefix):
                yield change
                for use in uses:
                    use.check()

        return changes()

    def read_roots(self, destination: Storage, prefix: str = "", *, settled: bool = False) -> Roots:
        """Read every root of collection from a single snapshot; see ``observing``.

        Large results are written to files below ``prefix`` of a storage.
        """
        from reclaim.catalog.collection.roots import observing

        return observing.observe(
            self._workspace, self.default_branch, destination, prefix, settled=settled
        )

    def settings(self) -> RepositorySettings:
        from reclaim.catalog.settings import read_settings

        with self._workspace.database.read() as connection:
            return read_settings(connection, self.uid)

    def change_settings(self, **changes: Any) -> RepositorySettings:
        """Change some settings, such as ``hard_delete=True``; return all settings."""
        from reclaim.catalog.settings import change_settings

        return change_settings(self._workspace, changes)

    def clean(self, *, limit: int | None = None) -> Cleaned:
        """Remove rows of committed or reset changes. Commits also remove some."""
        return cleaner.clean(self._workspace.database, self._workspace.clock, self.uid, limit=limit)
