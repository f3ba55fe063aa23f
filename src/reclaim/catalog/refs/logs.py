"""The log in pages, all of them of one history.

A page is told where the last one ended and which version the history had then. An edit of the
history changes the version, so a reader gets one history or a conflict, never a mixture.
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
    """A page of the log of a ref, and what to pass on for the next one."""
    if limit < 1:
        raise InvalidInput("a page must have room for at least one commit")
    query = select(repositories.c.history_version).where(repositories.c.uid == repo_uid)
    version = str(connection.execute(query).scalar_one())
    tip_id, last = ref, ""
    if after:
        seen, _, rest = after.partition(".")
        tip_id, _, last = rest.partition(".")
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
    found = list(islice(walked, limit + 1))
    more = f"{version}.{tip.id}.{found[limit - 1].id}" if len(found) > limit else ""
    return found[:limit], more
