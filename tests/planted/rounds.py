"""Bugs that rounds on PostgreSQL find, with connections that really work at once: one of each race,
for each costs a server of its own."""

from __future__ import annotations

from tests.planted.bug import Bug

RACE = "tests/collect/apply/test_run_races.py::test_a_race"
STALE_LOCK = f"{RACE}[stale lock]"
DYING_RANGE = f"{RACE}[revert into a dying range]"
CLOSED_PARTITION = f"{RACE}[a stalled writer after its partition was closed]"
TRIES = 4
"""Who is first is a matter of chance here, so that not every try finds a bug."""

BUGS: dict[str, Bug] = {
    "a run that lost its lock promotes": Bug(
        "reclaim.catalog.collection.condemn.commit_states",
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
        tries=TRIES,
    ),
    "one look, while commits are reverted": Bug(
        "reclaim.run.apply.condemning",
        right="        held.condemn(unmarked)\n",
        wrong="        held.condemn(unmarked)\n        return seen, now\n",
        test=DYING_RANGE,
        tries=TRIES,
    ),
    "a commit lands whose partition was closed": Bug(
        "reclaim.catalog.refs.committing",
        drops="land.work: check_open",
        test=CLOSED_PARTITION,
        tries=TRIES,
    ),
}
