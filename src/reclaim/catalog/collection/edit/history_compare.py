"""Check that a history has not changed since a decision on it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sqlalchemy import Connection, select

from reclaim.catalog.database.schema import branches, repositories, tags
from reclaim.catalog.database.schema import commits as commit_rows
from reclaim.catalog.refs import refs
from reclaim.model import RefKind

if TYPE_CHECKING:
    from reclaim.catalog.collection.edit.history_edit import HistoryRead

LONGEST_LINE = 1_000
"""Maximum number of commits added to a branch since its history was read."""


def version(connection: Connection, repo_uid: str) -> int:
    """Version of the history, incremented by each edit and each rollback."""
    query = select(repositories.c.history_version).where(repositories.c.uid == repo_uid)
    return int(connection.execute(query).scalar_one())


def is_as_read(connection: Connection, repo_uid: str, read: HistoryRead) -> bool:
    """Whether a decision on a read history still holds; refs are locked meanwhile.

    The history must not have been edited, and no ref may be new or have moved. Deleted refs need no
    rule any more. Plain commits on top of a branch do not matter: they reach no additional older
    commits, and no rule keeps more of the older commits because of them.
    """
    refs.check_repository(connection, repo_uid, lock=True)
    if version(connection, repo_uid) != read.version:
        return False
    tips = {(ref.kind, ref.name): str(ref.snapshot) for ref in read.refs}
    heads = (
        select(branches.c.name, branches.c.head)
        .where(branches.c.repo_uid == repo_uid)
        .order_by(branches.c.name)
        .with_for_update(read=True)
    )
    named = select(tags.c.name, tags.c.commit_id).where(tags.c.repo_uid == repo_uid)
    return all(
        _stands_on(connection, repo_uid, head, tips.get((RefKind.BRANCH, name)))
        for name, head in connection.execute(heads).all()
    ) and all(
        commit_id == tips.get((RefKind.TAG, name)) for name, commit_id in connection.execute(named)
    )


def _stands_on(connection: Connection, repo_uid: str, head: str, tip: str | None) -> bool:
    """Whether a head is a tip, or a line of single-parent commits leads from it to the tip."""
    for _ in range(LONGEST_LINE):
        if tip is None or head == tip:
            break
        query = select(commit_rows.c.parents)
        query = query.where(commit_rows.c.repo_uid == repo_uid, commit_rows.c.id == head)
        parents = json.loads(connection.execute(query).scalar_one())
        if len(parents) != 1:
            break
        [head] = parents
    return head == tip
