"""Condemning: new references to commits to be collected become impossible.

Creating a reference locks the commit's row and checks that it is live; marking updates the same
row. Either the mark or the reference always sees the other. A mark is provisional and carries the
id of its run until the run promotes it; afterwards it is final.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import Connection, and_, select, update

from reclaim.catalog.collection.locks import RepositoryLock
from reclaim.catalog.database.schema import (
    CommitState,
    PartitionState,
    branches,
    commits,
    leases,
    partitions,
    tags,
)
from reclaim.catalog.database.sets import among, batches
from reclaim.catalog.staging import tokens
from reclaim.catalog.staging.partitions import OVERDUE
from reclaim.catalog.workspace import Workspace
from reclaim.clock import MICROSECOND, to_micros
from reclaim.model import SnapshotId

BATCH = 1_000
# The parents stay: a merge needs them to find merge bases.
_REDUCED = {
    "state": CommitState.COLLECTED,
    "metarange": "",
    "message": "",
    "metadata": "{}",
    "committer": "",
}


def mark(workspace: Workspace, lock: RepositoryLock, rules: Mapping[SnapshotId, str]) -> int:
    """Mark commits provisionally, each with a rule; return the number of marked commits.

    Commits named directly by a ref or a valid lease are skipped: they are live again.
    """
    done = 0
    for batch in batches(sorted(rules.items()), BATCH):

        def work(connection: Connection, batch: list[tuple[SnapshotId, str]] = batch) -> int:
            lock.assure(connection)
            return _mark(connection, workspace, lock.run_id, dict(batch))

        done += workspace.database.transact(work)
    return done


def _mark(
    connection: Connection, workspace: Workspace, run_id: str, rules: Mapping[SnapshotId, str]
) -> int:
    repo_uid = workspace.repo_uid
    query = (
        select(commits.c.id)
        .where(commits.c.repo_uid == repo_uid, commits.c.state == CommitState.LIVE)
        .where(among(connection, commits.c.id, list(rules)))
        .order_by(commits.c.id)
        .with_for_update()
    )
    locked = set(connection.execute(query).scalars())
    # Later statements see every reference created before the lock was taken.
    now = to_micros(workspace.database.now(connection, workspace.clock))
    for column, valid in (
        (branches.c.head, branches.c.repo_uid == repo_uid),
        (tags.c.commit_id, tags.c.repo_uid == repo_uid),
        (
            leases.c.commit_id,
            and_(leases.c.repo_uid == repo_uid, leases.c.refreshed_at + leases.c.length > now),
        ),
    ):
        named = select(column).where(valid, among(connection, column, locked))
        locked -= set(connection.execute(named).scalars())
    by_rule: dict[str, list[str]] = {}
    for commit_id in locked:
        by_rule.setdefault(rules[commit_id], []).append(commit_id)
    for rule, ids in by_rule.items():
        set_state(connection, repo_uid, ids, CommitState.PROVISIONAL, run_id=run_id, rule=rule)
    return len(locked)


def release(workspace: Workspace, lock: RepositoryLock, ids: Collection[str]) -> None:
    """Remove a run's provisional marks from commits that are live after all."""
    for batch in batches(sorted(ids), BATCH):

        def work(connection: Connection, batch: list[str] = batch) -> None:
            lock.assure(connection)
            in_batch = among(connection, commits.c.id, batch)
            connection.execute(
                update(commits)
                .where(commits.c.repo_uid == workspace.repo_uid, in_batch)
                .where(commits.c.state == CommitState.PROVISIONAL, commits.c.run_id == lock.run_id)
                .values(state=CommitState.LIVE, run_id=None, rule=None)
            )

        workspace.database.transact(work)


def release_all(workspace: Workspace, lock: RepositoryLock) -> int:
    """Remove every provisional mark. Only for the holder of the lock: all marks are leftovers."""

    def work(connection: Connection) -> int:
        lock.assure(connection)
        return release_marks(connection, workspace.repo_uid)

    return workspace.database.transact(work)


def release_marks(connection: Connection, repo_uid: str) -> int:
    """Remove every provisional mark, in a transaction of the holder of the lock."""
    return connection.execute(
        update(commits)
        .where(commits.c.repo_uid == repo_uid, commits.c.state == CommitState.PROVISIONAL)
        .values(state=CommitState.LIVE, run_id=None, rule=None)
    ).rowcount


def promote(workspace: Workspace, lock: RepositoryLock) -> int:
    """Make a run's marks final, all at once; return their number.

    One by one, a crash could leave a condemned commit with a child released by the next run.
    """

    def work(connection: Connection) -> int:
        lock.assure(connection)
        return connection.execute(
            update(commits)
            .where(commits.c.repo_uid == workspace.repo_uid)
            .where(commits.c.state == CommitState.PROVISIONAL, commits.c.run_id == lock.run_id)
            .values(state=CommitState.CONDEMNED)
        ).rowcount

    return workspace.database.transact(work)


def collect(
    workspace: Workspace,
    lock: RepositoryLock,
    ids: Collection[str],
    *,
    exclude_runs: Collection[str] = (),
) -> int:
    """Reduce condemned commits to the reason why they are gone."""
    return _condemned(workspace, lock, ids, _REDUCED, exclude_runs)


def mark_quarantined(workspace: Workspace, lock: RepositoryLock, ids: Collection[str]) -> int:
    """Mark commits condemned by this run as quarantined."""
    done = 0
    for batch in batches(sorted(ids), BATCH):

        def work(connection: Connection, batch: list[str] = batch) -> int:
            lock.assure(connection)
            return connection.execute(
                update(commits)
                .where(commits.c.repo_uid == workspace.repo_uid)
                .where(among(connection, commits.c.id, batch))
                .where(commits.c.state == CommitState.CONDEMNED, commits.c.run_id == lock.run_id)
                .values(state=CommitState.QUARANTINED)
            ).rowcount

        done += workspace.database.transact(work)
    return done


def list_condemned(workspace: Workspace, exclude_runs: Collection[str]) -> dict[str, str]:
    """Metaranges of condemned commits, except of some runs."""
    with workspace.database.read() as connection:
        query = select(commits.c.id, commits.c.metarange).where(
            commits.c.repo_uid == workspace.repo_uid,
            commits.c.state == CommitState.CONDEMNED,
            ~among(connection, commits.c.run_id, exclude_runs),
        )
        return {row.id: row.metarange for row in connection.execute(query)}


def take_over(
    workspace: Workspace,
    lock: RepositoryLock,
    ids: Collection[str],
    *,
    exclude_runs: Collection[str] = (),
) -> int:
    """Attribute condemned commits to this run, whose undo then restores them."""
    return _condemned(workspace, lock, ids, {"run_id": lock.run_id}, exclude_runs)


def forget(workspace: Workspace, lock: RepositoryLock, run_id: str) -> int:
    """Reduce the quarantined commits of a run after their objects are purged."""

    def work(connection: Connection) -> int:
        lock.assure(connection)
        return connection.execute(
            update(commits)
            .where(commits.c.repo_uid == workspace.repo_uid, commits.c.run_id == run_id)
            .where(commits.c.state == CommitState.QUARANTINED)
            .values(**_REDUCED)
        ).rowcount

    return workspace.database.transact(work)


def _condemned(
    workspace: Workspace,
    lock: RepositoryLock,
    ids: Collection[str],
    values: Mapping[str, Any],
    exclude_runs: Collection[str] = (),
) -> int:
    """Change condemned commits in batches, except commits condemned by some runs."""
    done = 0
    for batch in batches(sorted(ids), BATCH):

        def work(connection: Connection, batch: list[str] = batch) -> int:
            lock.assure(connection)
            return connection.execute(
                update(commits)
                .where(commits.c.repo_uid == workspace.repo_uid)
                .where(among(connection, commits.c.id, batch))
                .where(commits.c.state == CommitState.CONDEMNED)
                .where(~among(connection, commits.c.run_id, exclude_runs))
                .values(**values)
            ).rowcount

        done += workspace.database.transact(work)
    return done


def close_overdue(workspace: Workspace) -> int:
    """Close overdue partitions for good; return their number.

    Excludes partitions of commits in progress: a copy of the database made meanwhile has no other
    evidence that such a commit has landed.
    """

    def work(connection: Connection) -> int:
        now = to_micros(workspace.database.now(connection, workspace.clock))
        return connection.execute(
            update(partitions)
            .where(
                partitions.c.repo_uid == workspace.repo_uid,
                partitions.c.state == PartitionState.OPEN,
                partitions.c.renewed_at < now - OVERDUE // MICROSECOND,
                partitions.c.id.not_in(tokens.partitions_in_flight(workspace.repo_uid)),
            )
            .values(state=PartitionState.CLOSED, closed_at=now)
        ).rowcount

    return workspace.database.transact(work)


def set_state(
    connection: Connection,
    repo_uid: str,
    ids: Collection[str],
    state: CommitState,
    *,
    run_id: str | None,
    rule: str | None,
) -> None:
    """Set the state of commits, with the responsible run and rule."""
    connection.execute(
        update(commits)
        .where(commits.c.repo_uid == repo_uid, among(connection, commits.c.id, ids))
        .values(state=state, run_id=run_id, rule=rule)
    )
