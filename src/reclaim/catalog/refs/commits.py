"""Commits: the snapshots of a catalog repository, and ref expressions.

A commit is always written after its parents, by at least a microsecond. Walking the history is
therefore a single scan of the commits in descending time, following the parents it meets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy import Connection, RowMapping, insert, select

from reclaim.catalog.database.schema import CommitState, branches, commits, repositories, tags
from reclaim.catalog.refs.moments import end_of
from reclaim.catalog.staging import ledger
from reclaim.clock import from_micros, to_micros
from reclaim.errors import Corrupt, Gone, InvalidInput, NotFound, TransactionFailed

SHORTEST_PREFIX = 6
_REVISION = re.compile(
    r"(?P<base>[^~^@]*)(?:@(?P<moment>[^~^@]*))?(?P<steps>(?:~\d{0,9}|\^\d{0,9})*)"
)
_STEP = re.compile(r"([~^])(\d{0,9})")
_HEX = re.compile(r"[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit. ``marked`` means an expiration has replaced or dropped parents."""

    id: str
    parents: tuple[str, ...]
    metarange: str
    written_at: datetime
    committer: str
    message: str
    metadata: Mapping[str, str] = field(default_factory=dict)
    marked: bool = False


class BeingCollected(TransactionFailed):
    """The commit is marked by a run that may still find it live and release it."""


def _commit(row: RowMapping) -> Commit:
    return Commit(
        id=row["id"],
        parents=tuple(json.loads(row["parents"])),
        metarange=row["metarange"],
        written_at=from_micros(row["written_at"]),
        committer=row["committer"],
        message=row["message"],
        metadata=json.loads(row["metadata"]),
        marked=row["marked"],
    )


def get(connection: Connection, repo_uid: str, commit_id: str) -> Commit:
    """Return a readable commit; raise Gone for a condemned commit."""
    query = (
        select(commits)
        .join(repositories, repositories.c.uid == commits.c.repo_uid)
        .where(commits.c.repo_uid == repo_uid, commits.c.id == commit_id)
        .where(repositories.c.deleted_at.is_(None))
    )
    row = connection.execute(query).mappings().first()
    if row is None:
        raise NotFound(f"there is no commit {commit_id}", hint="see `reclaim log`")
    if row["state"] == CommitState.PROVISIONAL:
        raise Gone(
            f"commit {commit_id} is being removed by run {row['run_id']}",
            hint="the run may release it; try again when the run has ended",
            run=row["run_id"],
            rule=row["rule"],
        )
    if row["state"] == CommitState.QUARANTINED:
        raise Gone(
            f"commit {commit_id} was put in quarantine by run {row['run_id']} ({row['rule']})",
            hint=f"restore it with `reclaim undo {row['run_id']}`, until it is purged",
            run=row["run_id"],
            rule=row["rule"],
        )
    if row["state"] != CommitState.LIVE:
        raise ledger.gone(f"commit {commit_id}", row["run_id"], row["rule"])
    return _commit(row)


def hold(connection: Connection, repo_uid: str, ids: Iterable[str]) -> None:
    """Lock commits before a ref or another commit refers to them.

    Condemning updates the same rows, so either transaction always sees the other.
    """
    commit_ids = sorted(set(ids))
    query = (
        select(commits.c.id, commits.c.state, commits.c.run_id)
        .where(commits.c.repo_uid == repo_uid, commits.c.id.in_(commit_ids))
        .order_by(commits.c.id)
        .with_for_update(read=True)
    )
    by_id = {row.id: row for row in connection.execute(query)}
    for commit_id in commit_ids:
        row = by_id.get(commit_id)
        if row is None or row.state != CommitState.LIVE:
            by = f"is being removed by run {row.run_id}" if row else "no longer exists"
            marked = row is not None and row.state == CommitState.PROVISIONAL
            raise (BeingCollected if marked else TransactionFailed)(
                f"commit {commit_id} {by}; no new reference to it is possible",
                hint="start again from a commit reachable from a branch or a tag",
                commit=commit_id,
            )


def save(
    connection: Connection, repo_uid: str, commit: Commit, *, taken_from: Iterable[str] = ()
) -> None:
    """Insert a commit, after checking that the commits it depends on exist and stay.

    Checking the parents is sufficient: descendants of condemned commits are condemned with them.
    """
    hold(connection, repo_uid, {*commit.parents, *taken_from})
    connection.execute(
        insert(commits).values(
            repo_uid=repo_uid,
            id=commit.id,
            parents=json.dumps(commit.parents),
            metarange=commit.metarange,
            written_at=to_micros(commit.written_at),
            committer=commit.committer,
            message=commit.message,
            metadata=json.dumps(commit.metadata, sort_keys=True),
        )
    )


def resolve(connection: Connection, repo_uid: str, ref: str) -> Commit:
    """Return the commit of a ref expression.

    An expression is a branch, a tag, a commit id or its beginning; then optionally ``@`` and a time
    (the newest commit up to this time along first parents); then any number of ``~N`` (the Nth
    first parent) and ``^N`` (the Nth parent).
    """
    parts = _REVISION.fullmatch(ref)
    if parts is None or not parts["base"]:
        raise InvalidInput(f"{ref!r} is not a ref", hint="use a branch, a tag or a commit id")
    commit = get(connection, repo_uid, _named(connection, repo_uid, parts["base"]))
    if parts["moment"] is not None:
        commit = _as_of(connection, repo_uid, commit, parts["base"], parts["moment"])
    for sign, digits in _STEP.findall(parts["steps"]):
        number = int(digits) if digits else 1
        if sign == "~":
            for _ in range(number):
                commit = get(connection, repo_uid, _parent(commit, 1))
        elif number:
            commit = get(connection, repo_uid, _parent(commit, number))
    return commit


def _as_of(connection: Connection, repo_uid: str, tip: Commit, base: str, moment: str) -> Commit:
    """Return the newest commit on the first-parent line written by the end of a moment."""
    end = end_of(moment)
    oldest = tip
    for commit in walk(connection, repo_uid, tip, first_parent=True):
        if commit.written_at < end:
            return get(connection, repo_uid, commit.id)
        oldest = commit
    raise NotFound(
        f"{base} has no commit at or before {moment}",
        hint=f"its oldest is {oldest.id[:12]} of {oldest.written_at:%Y-%m-%d %H:%M:%S} UTC",
    )


def _parent(commit: Commit, number: int) -> str:
    if number > len(commit.parents):
        raise NotFound(f"commit {commit.id} has no parent number {number}")
    return commit.parents[number - 1]


def _named(connection: Connection, repo_uid: str, name: str) -> str:
    for table, column in ((branches, branches.c.head), (tags, tags.c.commit_id)):
        query = select(column).where(table.c.repo_uid == repo_uid, table.c.name == name)
        commit_id = connection.execute(query).scalar()
        if commit_id is not None:
            return str(commit_id)
    if len(name) >= SHORTEST_PREFIX and _HEX.fullmatch(name):
        query = select(commits.c.id).where(
            commits.c.repo_uid == repo_uid, commits.c.id >= name, commits.c.id < name + "g"
        )
        live = query.where(commits.c.state == CommitState.LIVE)
        # Includes condemned commits, so readers get the reason why they are gone.
        ids = (
            connection.execute(live.limit(2)).scalars().all()
            or connection.execute(query.limit(2)).scalars().all()
        )
        if len(ids) > 1:
            raise InvalidInput(f"several commits start with {name}", hint="use a longer prefix")
        if ids:
            return str(ids[0])
    raise NotFound(
        f"there is no branch, tag or commit {name!r}",
        hint="see `reclaim branch list`, `reclaim tag list` and `reclaim log`",
    )


STANDING = (CommitState.LIVE, CommitState.PROVISIONAL)
"""States of commits in the history; a provisional commit may be released again."""


def scan(connection: Connection, repo_uid: str, latest: datetime | None = None) -> Iterator[Commit]:
    """Yield all commits that are not condemned, children before parents, newest first."""
    query = (
        select(commits)
        .where(commits.c.repo_uid == repo_uid, commits.c.state.in_(STANDING))
        .order_by(commits.c.written_at.desc(), commits.c.id)
    )
    if latest is not None:
        query = query.where(commits.c.written_at <= to_micros(latest))
    with connection.execute(query, execution_options={"yield_per": 1_000}) as streamed:
        for row in streamed.mappings():
            yield _commit(row)


def walk(
    connection: Connection, repo_uid: str, tip: Commit, *, first_parent: bool = False
) -> Iterator[Commit]:
    """Yield a commit and its ancestors, newest first."""
    wanted = {tip.id}
    for commit in scan(connection, repo_uid, tip.written_at):
        if commit.id in wanted:
            wanted.remove(commit.id)
            wanted.update(commit.parents[:1] if first_parent else commit.parents)
            yield commit
        if not wanted:
            return
    raise missing(wanted)


def missing(ids: Iterable[str]) -> Corrupt:
    return Corrupt(
        f"the history is missing commits: {', '.join(sorted(ids)[:3])}",
        hint="restore the database from a backup; nothing was changed",
    )
