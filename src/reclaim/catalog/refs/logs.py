"""Log in pages, all from the same history.

A page token contains the last commit of the page and the version of the history. An edit of the
history changes the version, so readers get a single history or a conflict, never a mixture.
"""

from __future__ import annotations

from itertools import dropwhile, islice

from sqlalchemy import Connection, select

from reclaim.catalog.database.schema import repositories
from reclaim.catalog.refs import commits
from reclaim.catalog.refs.commits import Commit
from reclaim.errors import Conflict, InvalidInput


def page(
    connection: Connection, repo_uid: str, ref: str, after: str, limit: int
) -> tuple[list[Commit], str]:
    """Return a page of the log of a ref, and the token for the next page."""
    if limit < 1:
        raise InvalidInput("the limit of a page must be at least 1")
    query = select(repositories.c.history_version).where(repositories.c.uid == repo_uid)
    version = str(connection.execute(query).scalar_one())
    tip_id, last = ref, ""
    if after:
        seen, _, location = after.partition(".")
        tip_id, _, last = location.partition(".")
        if not last:
            raise InvalidInput(f"{after!r} is not the end of a page of the log")
        if seen != version:
            raise Conflict(
                "the history was edited since the last page was read",
                hint="start again at the first page",
            )
    tip = commits.resolve(connection, repo_uid, tip_id)
    walked = commits.walk(connection, repo_uid, tip)
    if last:
        walked = islice(dropwhile(lambda commit: commit.id != last, walked), 1, None)
    listed = list(islice(walked, limit + 1))
    more = f"{version}.{tip.id}.{listed[limit - 1].id}" if len(listed) > limit else ""
    return listed[:limit], more
