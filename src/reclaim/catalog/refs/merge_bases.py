"""Merge bases: the newest common commit of two lines of history.

An expiration replaces parents, so a base found through an edited commit may not be where the lines
diverged: the commits in between may have been removed. But edits are recorded (``run_edits``), and
rows of commits stay when their contents are deleted. The original history is therefore checked as
well, and a base is trusted if it is also the base there (decision 0038).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from reclaim.catalog.database.schema import CommitState, run_edits, runs
from reclaim.catalog.database.schema import commits as commit_rows
from reclaim.catalog.refs.commits import Commit, get, missing, scan
from reclaim.clock import to_micros

Sides = dict[str, set[str]]
"""Sides reaching a commit, by its id."""


@dataclass(frozen=True, slots=True)
class MergeBase:
    """Newest commit reached by both sides.

    It is not ``trusted`` if the true base may have been removed from the history: changes between
    the two would be lost.
    """

    commit: Commit | None
    trusted: bool


def merge_base(connection: Connection, repo_uid: str, left: Commit, right: Commit) -> MergeBase:
    """Return the merge base of two commits."""
    sides = _begin(left, right)
    edited = False
    base: Commit | None = None
    for commit in scan(connection, repo_uid, max(left.written_at, right.written_at)):
        reached = sides.pop(commit.id, None)
        if reached is None:
            continue
        if len(reached) == 2:
            base = commit
            break
        edited = edited or commit.marked
        _pass_on(sides, commit.parents, reached)
        if not sides:
            break
    else:
        raise missing(sides)
    if not edited:
        return MergeBase(base, trusted=base is not None)
    written = _find_as_written(connection, repo_uid, left, right)
    if written is None:
        return MergeBase(base, trusted=False)
    return MergeBase(get(connection, repo_uid, written), trusted=True)


def _find_as_written(
    connection: Connection, repo_uid: str, left: Commit, right: Commit
) -> str | None:
    """Merge base in the original history, if known and still reached by a side.

    Commits reached by no side may be collected at any time.
    """
    written = _read_written_parents(connection, repo_uid)
    sides = _begin(left, right)
    standing = set(sides)
    columns = (commit_rows.c.id, commit_rows.c.parents, commit_rows.c.marked, commit_rows.c.state)
    latest = to_micros(max(left.written_at, right.written_at))
    query = (
        select(*columns)
        .where(commit_rows.c.repo_uid == repo_uid, commit_rows.c.written_at <= latest)
        .order_by(commit_rows.c.written_at.desc(), commit_rows.c.id)
    )
    with connection.execute(query, execution_options={"yield_per": 1_000}) as streamed:
        for row in streamed:
            stands = row.id in standing
            if stands:
                standing.remove(row.id)
                standing.update(json.loads(row.parents))
            reached = sides.pop(row.id, None)
            if reached is None:
                continue
            if len(reached) == 2:
                return str(row.id) if stands else None
            parents = _written_parents(row, written)
            if parents is None:
                return None
            _pass_on(sides, parents, reached)
            if not sides:
                return None
    return None


def _begin(left: Commit, right: Commit) -> Sides:
    sides: Sides = {}
    for side, tip in (("left", left), ("right", right)):
        sides.setdefault(tip.id, set()).add(side)
    return sides


def _pass_on(sides: Sides, parents: Sequence[str], reached: set[str]) -> None:
    for parent in parents:
        sides.setdefault(parent, set()).update(reached)


def _written_parents(row: Any, written: Mapping[str, str]) -> Sequence[str] | None:
    """Original parents of a commit; None if unknown.

    Earlier versions emptied the parents of a collected commit, and recorded nothing where an undo
    ended a history at missing commits.
    """
    text = written.get(row.id, "") if row.marked else row.parents
    parents: Sequence[str] | None = json.loads(text) if text else None
    return None if row.state == CommitState.COLLECTED and not parents else parents


def _read_written_parents(connection: Connection, repo_uid: str) -> Mapping[str, str]:
    """Parents of commits before the first edit of each; "" where runs disagree."""
    query = (
        select(run_edits.c.commit_id, run_edits.c.old_parents)
        .join(runs, runs.c.id == run_edits.c.run_id)
        .where(runs.c.repo_uid == repo_uid, ~run_edits.c.was_marked)
    )
    written: dict[str, str] = {}
    for row in connection.execute(query):
        known = written.setdefault(row.commit_id, row.old_parents)
        if known != row.old_parents:
            written[row.commit_id] = ""
    return written
