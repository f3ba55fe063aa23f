"""Edits that lie above another: what an undo brings back below them, no ref reaches.

An expiration that passed over the commits that an earlier run edited hides them. To take the
earlier one back alone would bring commits back that hang on nothing, for the next run to collect.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence

from sqlalchemy import Connection, select

from reclaim.catalog.database.schema import branches, run_edits, run_refs, tags
from reclaim.catalog.database.schema import commits as commit_rows
from reclaim.model import Run

Parents = Mapping[str, Sequence[str]]


def find_covering(
    connection: Connection, repo_uid: str, edited: Collection[str], later: Sequence[Run]
) -> dict[str, list[str]]:
    """The runs, of some later ones, that have to be undone for refs to reach edited commits.

    With the commits for whose sake each has to be; ``later`` has the newest first.
    """
    if not edited or not later:
        return {}
    parents = _read_parents(connection, repo_uid)
    hidden = set(edited) - _reached(parents, _read_tips(connection, repo_uid))
    covering: dict[str, list[str]] = {}
    for run in later:
        if not hidden:
            break
        below = hidden & _reached(parents, _dropped(connection, run.id))
        if below:
            covering[run.id] = sorted(below)
            hidden -= below
    return covering


def _read_parents(connection: Connection, repo_uid: str) -> Parents:
    query = select(commit_rows.c.id, commit_rows.c.parents)
    rows = connection.execute(query.where(commit_rows.c.repo_uid == repo_uid))
    return {row.id: json.loads(row.parents) for row in rows}


def _read_tips(connection: Connection, repo_uid: str) -> list[str]:
    heads = select(branches.c.head).where(branches.c.repo_uid == repo_uid)
    named = select(tags.c.commit_id).where(tags.c.repo_uid == repo_uid)
    return [tip for query in (heads, named) for tip in connection.execute(query).scalars()]


def _dropped(connection: Connection, run_id: str) -> list[str]:
    """Commits that a run cut off: parents that it replaced, and commits of refs that it deleted."""
    edits = select(run_edits.c.old_parents).where(run_edits.c.run_id == run_id)
    old = [parent for text in connection.execute(edits).scalars() for parent in json.loads(text)]
    deleted = select(run_refs.c.commit_id).where(run_refs.c.run_id == run_id)
    return [*old, *connection.execute(deleted).scalars()]


def _reached(parents: Parents, tips: Iterable[str]) -> set[str]:
    reached: set[str] = set()
    waiting = list(tips)
    while waiting:
        commit_id = waiting.pop()
        if commit_id not in reached:
            reached.add(commit_id)
            waiting.extend(parents.get(commit_id, ()))
    return reached
