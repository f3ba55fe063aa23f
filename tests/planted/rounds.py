"""Bugs that rounds on PostgreSQL find, with connections that really work at once."""

from __future__ import annotations

from tests.planted.bug import Bug

RACE = "tests/collect/test_run_races.py::test_a_race"
STALE_LOCK = f"{RACE}[stale lock]"
DYING_RANGE = f"{RACE}[revert into a dying range]"
CLOSED_PARTITION = f"{RACE}[a stalled writer after its partition was closed]"
LOCKS = "reclaim.catalog.collection.locks"

BUGS: dict[str, Bug] = {
    "the lock is looked at and not held": Bug(
        LOCKS,
        right="connection.execute(query.with_for_update(read=True)).scalar()",
        wrong="connection.execute(query).scalar()",
        test=STALE_LOCK,
    ),
    "a run that lost its lock promotes": Bug(
        "reclaim.catalog.collection.commit_states",
        right="""    def work(connection: Connection) -> int:
        lock.assure(connection)
        return connection.execute(
            update(commits)
            .where(commits.c.repo_uid == workspace.repo_uid)
""",
        wrong="""    def work(connection: Connection) -> int:
        return connection.execute(
            update(commits)
            .where(commits.c.repo_uid == workspace.repo_uid)
""",
        test=STALE_LOCK,
    ),
    "a run gives the lock of another back": Bug(
        LOCKS,
        right="    mine = delete(locks).where(locks.c.repo_uid == workspace.repo_uid, "
        "locks.c.owner == owner)\n",
        wrong="    mine = delete(locks).where(locks.c.repo_uid == workspace.repo_uid)\n",
        test=STALE_LOCK,
    ),
    "a revert does not hold the commit that it takes from": Bug(
        "reclaim.catalog.refs.commits",
        right="    hold(connection, repo_uid, {*commit.parents, *taken_from})\n",
        wrong="    hold(connection, repo_uid, commit.parents)\n",
        test=DYING_RANGE,
    ),
    "confirm skipped, while commits are reverted": Bug(
        "reclaim.run.apply",
        right="fresh = live_containers(seen, kept)",
        wrong="fresh = live_containers(seen, ())",
        test=DYING_RANGE,
    ),
    "one look, while commits are reverted": Bug(
        "reclaim.run.apply",
        right="            self._held.condemn(unmarked)\n",
        wrong="            self._held.condemn(unmarked)\n            return seen, now\n",
        test=DYING_RANGE,
    ),
    "a writer stages into a partition that was closed": Bug(
        "reclaim.catalog.staging.uploads",
        right="        check_open(connection, partition)\n",
        wrong="",
        test=CLOSED_PARTITION,
    ),
    "a commit lands whose partition was closed": Bug(
        "reclaim.catalog.refs.committing",
        right="        check_open(connection, partition)\n",
        wrong="",
        test=CLOSED_PARTITION,
    ),
    "a partition is looked at and not held open": Bug(
        "reclaim.catalog.staging.partitions",
        right="""        .with_for_update(read=True)
    )
    if connection.execute(query).scalar() != PartitionState.OPEN:
""",
        wrong="""    )
    if connection.execute(query).scalar() != PartitionState.OPEN:
""",
        test=CLOSED_PARTITION,
    ),
}
