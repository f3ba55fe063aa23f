"""Staging: the uncommitted changes of a branch.

Rows belong to staging tokens and are read through the token's state. A branch has one open
token, which writers fill, and any number of sealed ones, which commits in flight (or crashed)
have taken. Newer tokens shadow older ones; a row without an address is a tombstone. Rows of
sealed tokens are never touched by put, delete and move.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, delete, insert, select, update

from reclaim.catalog import ledger
from reclaim.catalog.database import LostRace
from reclaim.catalog.entries import COLUMNS, Entry
from reclaim.catalog.names import after_prefix
from reclaim.catalog.schema import TokenState, branches, staged_entries, staging_tokens
from reclaim.errors import NotFound, TransactionFailed

FETCH = 5_000
_COLUMNS = [staged_entries.c[name] for name in COLUMNS]


@dataclass(frozen=True, slots=True)
class View:
    """A branch at one instant: its head and its tokens, sealed ones oldest first."""

    repo_uid: str
    name: str
    uid: str
    head: str
    open_token: int
    sealed: tuple[tuple[int, int], ...]
    """The sealed tokens as (id, version); a reset that touches one changes this."""

    @property
    def tokens(self) -> tuple[int, ...]:
        """All tokens whose rows are visible, newest first."""
        return (self.open_token, *(token for token, _ in reversed(self.sealed)))


class ViewChanged(TransactionFailed):
    """The branch moved between looking and writing; look again."""


def read_view(connection: Connection, repo_uid: str, name: str) -> View:
    """The branch as it is now."""
    return _view(connection, repo_uid, name, lock=None)


def lock_view(connection: Connection, view: View, *, exclusive: bool = False) -> None:
    """Lock the branch and fail unless it is as it was seen."""
    lock = "update" if exclusive else "share"
    if _view(connection, view.repo_uid, view.name, lock=lock) != view:
        raise ViewChanged(
            f"the branch {view.name} changed while it was being written", hint="run it again"
        )


def lock_branch(connection: Connection, repo_uid: str, name: str) -> View:
    """The branch as it is now, locked against every other change of its head or tokens."""
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


def new_token(connection: Connection, repo_uid: str, branch_uid: str) -> int:
    """Insert an open token."""
    row = insert(staging_tokens).values(
        repo_uid=repo_uid, branch_uid=branch_uid, state=TokenState.OPEN
    )
    return int(connection.execute(row.returning(staging_tokens.c.id)).scalar_one())


def lock_open_token(connection: Connection, repo_uid: str, branch: str) -> int:
    """The branch's open token, locked so that no commit or reset takes it meanwhile."""
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


def seal(connection: Connection, view: View) -> View:
    """Seal the open token and give the branch a new one. The branch must be locked."""
    fresh = new_token(connection, view.repo_uid, view.uid)
    _set_state(connection, [view.open_token], TokenState.SEALED)
    _set_open(connection, view, fresh)
    return read_view(connection, view.repo_uid, view.name)


def drop_all(connection: Connection, view: View, *, reopen: bool = True) -> None:
    """Drop every uncommitted change of a locked branch at once, whatever their number."""
    _set_state(connection, view.tokens, TokenState.DROPPED)
    if reopen:
        _set_open(connection, view, new_token(connection, view.repo_uid, view.uid))


def take(connection: Connection, view: View, commit_id: str) -> None:
    """Flip the sealed tokens to committed and record which commit took them."""
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


def write(
    connection: Connection, token: int, entries: Sequence[Entry], *, now: int, rule: str
) -> None:
    """Stage entries in an open, locked token; addresses that this replaces are released."""
    rows = [
        dict(zip(COLUMNS, entry.values(), strict=True), owned=entry.owned, token_id=token)
        for entry in entries
    ]
    _write_rows(connection, token, rows, now=now, rule=rule)


def bury(connection: Connection, token: int, paths: Iterable[str], *, now: int) -> None:
    """Stage tombstones."""
    blank = {"address": None, "owned": False, "size": 0, "created_at": now, "checksum": ""}
    rows = [dict(blank, path=path, token_id=token, content_type="", metadata="") for path in paths]
    _write_rows(connection, token, rows, now=now, rule="deleted before it was committed")


def _write_rows(
    connection: Connection, token: int, rows: list[dict[str, Any]], *, now: int, rule: str
) -> None:
    # The rows that are replaced are locked, so that two writers of one path release in turn.
    # A row that appears meanwhile makes the insert fail, and the transaction runs again.
    replaced = _locked(connection, token, [row["path"] for row in rows])
    fresh = [row for row in rows if row["path"] not in replaced]
    if replaced:
        removed = delete(staged_entries).where(
            staged_entries.c.token_id == token, staged_entries.c.path.in_(replaced)
        )
        connection.execute(removed)
        fresh = rows
    if fresh:
        connection.execute(insert(staged_entries), fresh)
    kept = {row["address"] for row in rows}
    released = {address for address in replaced.values() if address and address not in kept}
    ledger.release(connection, released, now, rule)


def remove(
    connection: Connection, token: int, paths: Sequence[str], *, now: int, rule: str
) -> None:
    """Take rows out of a token; their addresses are released."""
    locked = _locked(connection, token, paths)
    if locked:
        connection.execute(
            delete(staged_entries).where(
                staged_entries.c.token_id == token, staged_entries.c.path.in_(locked)
            )
        )
        ledger.release(connection, {a for a in locked.values() if a}, now, rule)


def _locked(connection: Connection, token: int, paths: Sequence[str]) -> dict[str, str | None]:
    """The token's rows at these paths, locked: path → address, None where it is not ours."""
    query = (
        select(staged_entries.c.path, staged_entries.c.address, staged_entries.c.owned)
        .where(staged_entries.c.token_id == token, staged_entries.c.path.in_(paths))
        .with_for_update()
    )
    return {row.path: row.address if row.owned else None for row in connection.execute(query)}


def bump(connection: Connection, tokens: Sequence[int]) -> None:
    """Change the version of sealed tokens, so that a commit that has read them must fail."""
    connection.execute(
        update(staging_tokens)
        .where(staging_tokens.c.id.in_(tokens))
        .values(version=staging_tokens.c.version + 1)
    )


def has_rows(connection: Connection, tokens: Sequence[int]) -> bool:
    """Whether any of the tokens holds a change."""
    query = select(staged_entries.c.path).where(staged_entries.c.token_id.in_(tokens)).limit(1)
    return connection.execute(query).first() is not None


@dataclass(frozen=True, slots=True)
class Found:
    """What staging says of a path; no entry is a tombstone."""

    entry: Entry | None


def find(connection: Connection, tokens: Sequence[int], path: str) -> Found | None:
    """The newest row for a path, or None when staging has nothing to say of it."""
    query = (
        select(*_COLUMNS)
        .where(staged_entries.c.token_id.in_(tokens), staged_entries.c.path == path)
        .order_by(staged_entries.c.token_id.desc())
        .limit(1)
    )
    row = connection.execute(query).first()
    if row is None:
        return None
    return Found(Entry.from_values(*row) if row.address is not None else None)


def rows(
    connection: Connection,
    tokens: Sequence[int],
    *,
    start: str = "",
    prefix: str = "",
) -> Iterator[Sequence[Any]]:
    """The visible changes from ``start`` on, in path order: the values of ``COLUMNS``.

    ``tokens`` are newest first. Each token is read through its own cursor in bounded pieces.
    """
    cursors = [_token_rows(connection, token, start=start, prefix=prefix) for token in tokens]
    if len(cursors) == 1:
        yield from cursors[0]
        return
    last: str | None = None
    keyed = [_ranked(cursor, rank) for rank, cursor in enumerate(cursors)]
    for path, _rank, row in heapq.merge(*keyed, key=lambda item: (item[0], item[1])):
        if path != last:
            last = path
            yield row


def _ranked(cursor: Iterator[Sequence[Any]], rank: int) -> Iterator[tuple[str, int, Sequence[Any]]]:
    for row in cursor:
        yield row[0], rank, row


def _token_rows(
    connection: Connection, token: int, *, start: str, prefix: str
) -> Iterator[Sequence[Any]]:
    query = (
        select(*_COLUMNS).where(staged_entries.c.token_id == token).order_by(staged_entries.c.path)
    )
    low = max(start, prefix)
    if low:
        query = query.where(staged_entries.c.path >= low)
    high = after_prefix(prefix)
    if high is not None:
        query = query.where(staged_entries.c.path < high)
    options = {"stream_results": True, "yield_per": FETCH}
    with connection.execute(query, execution_options=options) as streamed:
        yield from streamed
