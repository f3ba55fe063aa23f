"""Staging tokens: groups of a branch's uncommitted changes, and their states.

A branch has a single open token, filled by writers, and any number of sealed tokens, taken by
commits in progress (or crashed). Newer tokens shadow older ones. Every change of a branch's head or
tokens locks its row first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, Select, insert, select, update

from reclaim.catalog.database.schema import TokenState, branches, staging_tokens
from reclaim.catalog.database.transactions import LostRace
from reclaim.errors import NotFound, TransactionFailed


@dataclass(frozen=True, slots=True)
class View:
    """Branch at a point in time: its head and its tokens, sealed tokens oldest first."""

    repo_uid: str
    name: str
    uid: str
    head: str
    open_token: int
    sealed: tuple[tuple[int, int], ...]
    """Sealed tokens as (id, version); a reset of rows changes the version."""

    @property
    def tokens(self) -> tuple[int, ...]:
        """All tokens with visible rows, newest first."""
        return (self.open_token, *(token for token, _ in reversed(self.sealed)))


class ViewChanged(TransactionFailed):
    """The branch changed between reading and writing; read it again."""


def read_view(connection: Connection, repo_uid: str, name: str) -> View:
    """Return the current view of a branch."""
    return _view(connection, repo_uid, name, lock=None)


def lock_view(connection: Connection, view: View, *, exclusive: bool = False) -> None:
    """Lock the branch and fail if its view has changed."""
    lock = "update" if exclusive else "share"
    if _view(connection, view.repo_uid, view.name, lock=lock) != view:
        raise ViewChanged(
            f"the branch {view.name} changed while it was being written", hint="run it again"
        )


def lock_branch(connection: Connection, repo_uid: str, name: str) -> View:
    """Return the current view, locked against other changes of the branch's head or tokens."""
    return _view(connection, repo_uid, name, lock="update")


def _view(connection: Connection, repo_uid: str, name: str, lock: str | None) -> View:
    query = select(branches).where(branches.c.repo_uid == repo_uid, branches.c.name == name)
    if lock:
        query = query.with_for_update(read=lock == "share")
    branch = connection.execute(query).first()
    if branch is None:
        raise no_such_branch(name)
    sealed = connection.execute(
        select(staging_tokens.c.id, staging_tokens.c.version)
        .where(
            staging_tokens.c.branch_uid == branch.uid,
            staging_tokens.c.state == TokenState.SEALED,
        )
        .order_by(staging_tokens.c.id)
    )
    return View(
        repo_uid=repo_uid,
        name=name,
        uid=branch.uid,
        head=branch.head,
        open_token=branch.token,
        sealed=tuple((row.id, row.version) for row in sealed),
    )


def no_such_branch(name: str) -> NotFound:
    return NotFound(
        f"there is no branch {name!r}", hint="list the branches with `reclaim branch list`"
    )


def new_token(
    connection: Connection,
    repo_uid: str,
    branch_uid: str,
    *,
    state: TokenState = TokenState.OPEN,
    partition: str | None = None,
) -> int:
    """Insert a token, open by default."""
    row = insert(staging_tokens).values(
        repo_uid=repo_uid, branch_uid=branch_uid, state=state, partition_id=partition
    )
    return int(connection.execute(row.returning(staging_tokens.c.id)).scalar_one())


def lock_open_token(connection: Connection, repo_uid: str, branch: str) -> int:
    """Return the branch's open token, locked against commits and resets."""
    query = (
        select(staging_tokens.c.id)
        .join(branches, branches.c.token == staging_tokens.c.id)
        .where(
            branches.c.repo_uid == repo_uid,
            branches.c.name == branch,
            staging_tokens.c.state == TokenState.OPEN,
        )
        .with_for_update(read=True, of=staging_tokens)
    )
    token = connection.execute(query).scalar()
    if token is None:
        read_view(connection, repo_uid, branch)
        raise LostRace(f"the branch {branch} was committed meanwhile", hint="run it again")
    return int(token)


def lock_tokens(connection: Connection, view: View) -> None:
    """Lock the tokens of a locked branch, so no writer can be about to add to the open token.

    Staging locks only the open token, in shared mode: this waits for all stagers.
    """
    query = select(staging_tokens.c.id).where(staging_tokens.c.id.in_(view.tokens))
    connection.execute(query.order_by(staging_tokens.c.id).with_for_update()).all()


def seal(connection: Connection, view: View, partition: str) -> View:
    """Seal the open token and create a new one. The branch must be locked.

    The token names the partition of its commit.
    """
    fresh = new_token(connection, view.repo_uid, view.uid)
    _set_state(connection, [view.open_token], TokenState.SEALED)
    connection.execute(
        update(staging_tokens)
        .where(staging_tokens.c.id == view.open_token)
        .values(partition_id=partition)
    )
    _set_open(connection, view, fresh)
    return read_view(connection, view.repo_uid, view.name)


def announce(connection: Connection, view: View, partition: str) -> View:
    """Add a sealed token without changes, naming the partition of a commit in progress.

    Used for commits on a branch without staged changes of their own. The branch must be locked.
    """
    new_token(connection, view.repo_uid, view.uid, state=TokenState.SEALED, partition=partition)
    return read_view(connection, view.repo_uid, view.name)


def names_partition(connection: Connection, view: View, partition: str) -> bool:
    """Whether a sealed token of a branch names a partition."""
    query = select(staging_tokens.c.id).where(
        staging_tokens.c.id.in_([token for token, _ in view.sealed]),
        staging_tokens.c.partition_id == partition,
    )
    return connection.execute(query.limit(1)).first() is not None


def withdraw(connection: Connection, before: View, announced: View) -> None:
    """Drop an announced token, unless its commit has landed."""
    added = set(announced.sealed) - set(before.sealed)
    connection.execute(
        update(staging_tokens)
        .where(
            staging_tokens.c.id.in_([token for token, _ in added]),
            staging_tokens.c.state == TokenState.SEALED,
        )
        .values(state=TokenState.DROPPED, version=staging_tokens.c.version + 1)
    )


def partitions_in_flight(repo_uid: str) -> Select[tuple[str]]:
    """Select the partitions of commits in progress or crashed."""
    return select(staging_tokens.c.partition_id).where(
        staging_tokens.c.repo_uid == repo_uid,
        staging_tokens.c.state == TokenState.SEALED,
        staging_tokens.c.partition_id.is_not(None),
    )


def drop_all(connection: Connection, view: View, *, reopen: bool = True) -> None:
    """Drop all uncommitted changes of a locked branch at once, whatever their number."""
    _set_state(connection, view.tokens, TokenState.DROPPED)
    if reopen:
        _set_open(connection, view, new_token(connection, view.repo_uid, view.uid))


def take(connection: Connection, view: View, commit_id: str) -> None:
    """Mark the sealed tokens as committed by a commit."""
    connection.execute(
        update(staging_tokens)
        .where(staging_tokens.c.id.in_([token for token, _ in view.sealed]))
        .values(state=TokenState.COMMITTED, commit_id=commit_id)
    )


def _set_state(connection: Connection, tokens: Sequence[int], state: TokenState) -> None:
    connection.execute(
        update(staging_tokens)
        .where(staging_tokens.c.id.in_(tokens))
        .values(state=state, version=staging_tokens.c.version + 1)
    )


def _set_open(connection: Connection, view: View, token: int) -> None:
    connection.execute(update(branches).where(branches.c.uid == view.uid).values(token=token))


def bump(connection: Connection, tokens: Sequence[int]) -> None:
    """Change the version of sealed tokens, so commits that have read them must fail."""
    connection.execute(
        update(staging_tokens)
        .where(staging_tokens.c.id.in_(tokens))
        .values(version=staging_tokens.c.version + 1)
    )
