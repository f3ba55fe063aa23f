"""Reset: discard uncommitted changes, or move a branch to another commit.

Resetting a whole branch drops its tokens, in the same time for any number of entries; the cleaner
removes their rows later.
"""

from __future__ import annotations

from sqlalchemy import Connection, select, update

from reclaim.catalog.database.schema import branches, staged_entries
from reclaim.catalog.names import after_prefix, check_path, check_prefix
from reclaim.catalog.refs import commits
from reclaim.catalog.refs.commits import Commit
from reclaim.catalog.staging import reference_lock, staged_rows, tokens
from reclaim.catalog.workspace import Workspace
from reclaim.errors import InvalidInput, NotFound

RULE = "reset before it was committed"


def reset_branch(workspace: Workspace, branch: str) -> None:
    """Discard all uncommitted changes of a branch."""

    def work(connection: Connection) -> None:
        view = tokens.lock_branch(connection, workspace.repo_uid, branch)
        tokens.drop_all(connection, view)

    workspace.database.transact(work)


def reset_to(workspace: Workspace, branch: str, ref: str) -> Commit:
    """Move a branch to another commit and discard its uncommitted changes."""

    def work(connection: Connection) -> Commit:
        reference_lock.share(connection, workspace.repo_uid)
        # Locked before resolving the ref, which may name this branch.
        view = tokens.lock_branch(connection, workspace.repo_uid, branch)
        commit = commits.resolve(connection, workspace.repo_uid, ref)
        commits.hold(connection, workspace.repo_uid, [commit.id])
        tokens.drop_all(connection, view)
        connection.execute(
            update(branches).where(branches.c.uid == view.uid).values(head=commit.id)
        )
        return commit

    return workspace.database.transact(work)


def reset_path(workspace: Workspace, branch: str, path: str) -> None:
    """Discard the uncommitted change of an object."""
    check_path(path)
    if not _reset(workspace, branch, path, None):
        raise NotFound(f"{path!r} has no uncommitted change on {branch}")


def reset_prefix(workspace: Workspace, branch: str, prefix: str) -> int:
    """Discard the uncommitted changes below a prefix; return their number."""
    if not prefix:
        raise InvalidInput("the prefix is empty", hint="reset the whole branch instead")
    check_prefix(prefix)
    return _reset(workspace, branch, prefix, after_prefix(prefix))


def _reset(workspace: Workspace, branch: str, low: str, high: str | None) -> int:
    """Remove rows from the open and sealed tokens, in a single transaction.

    A sealed token losing a row gets a new version, so a commit in progress that has read the row
    cannot land.
    """
    column = staged_entries.c.path
    bounds = column == low if high is None else (column >= low) & (column < high)

    def work(connection: Connection) -> int:
        view = tokens.lock_branch(connection, workspace.repo_uid, branch)
        removed = 0
        for token in view.tokens:
            touched = False
            query = select(column).where(staged_entries.c.token_id == token, bounds)
            while paths := list(connection.execute(query.limit(staged_rows.FETCH)).scalars()):
                staged_rows.remove(connection, token, paths, now=workspace.now(), rule=RULE)
                removed += len(paths)
                touched = True
            if touched and token != view.open_token:
                tokens.bump(connection, [token])
        return removed

    return workspace.database.transact(work)
