"""Later edits hiding an earlier edit: restored commits below them would be unreachable.

An expiration that skipped the commits edited by an earlier run hides them. Undoing only the earlier
run would restore unreachable commits, for the next run to collect.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet

from sqlalchemy import Connection, select

from reclaim.catalog.collection.edit.provisional import TAKEN
from reclaim.catalog.collection.roots.promised import undoable
from reclaim.catalog.database.schema import CommitState, branches, run_edits, run_refs, tags
from reclaim.catalog.database.schema import commits as commit_rows
from reclaim.catalog.refs.commits import STANDING
from reclaim.run_record import RunRecord

Parents = Mapping[str, Sequence[str]]


def find_hiding_runs(
    connection: Connection,
    repo_uid: str,
    edited: Collection[str],
    later: Sequence[RunRecord],
    *,
    undone: bool = False,
) -> dict[str, list[str]]:
    """Return the later runs that hide edited commits from all refs, with the hidden commits.

    ``later`` is ordered newest first. ``undone`` counts only commits that an undo of such a run
    would make reachable again.
    """
    if not edited or not later:
        return {}
    parents, gone = _read_parents(connection, repo_uid)
    if undone:
        parents = {child: above for child, above in parents.items() if child not in gone}
    else:
        gone = frozenset()
    hidden = set(edited) - _reached(parents, _read_tips(connection, repo_uid))
    covering: dict[str, list[str]] = {}
    for run in later:
        if not hidden:
            break
        below = hidden & _reached(parents, _dropped(connection, run.id, gone))
        if below:
            covering[run.id] = sorted(below)
            hidden -= below
    return covering


def find_unreachable(connection: Connection, repo_uid: str, ids: Collection[str]) -> set[str]:
    """Return the commits reached by no branch and no tag."""
    if not ids:
        return set()
    parents, _ = _read_parents(connection, repo_uid)
    return set(ids) - _reached(parents, _read_tips(connection, repo_uid))


def find_newest(connection: Connection, repo_uid: str, ids: Collection[str]) -> set[str]:
    """Return the commits reached by no other of the given commits."""
    if not ids:
        return set()
    parents, _ = _read_parents(connection, repo_uid)
    return set(ids) - _reached(
        parents, (parent for child in ids for parent in parents.get(child, ()))
    )


def find_dropped(connection: Connection, run_id: str) -> set[str]:
    """Return the commits an edit removed from the history, except ancestors of others.

    These are replaced parents, and the commits of deleted refs.
    """
    edits = select(run_edits.c.old_parents, run_edits.c.new_parents)
    dropped = {
        parent
        for row in connection.execute(edits.where(run_edits.c.run_id == run_id))
        for parent in set(json.loads(row.old_parents)) - set(json.loads(row.new_parents))
    }
    deleted = select(run_refs.c.commit_id).where(run_refs.c.run_id == run_id)
    return dropped.union(connection.execute(deleted).scalars())


def _read_parents(connection: Connection, repo_uid: str) -> tuple[Parents, AbstractSet[str]]:
    """Parents of commits with any remains, and the commits no run can restore."""
    undoing = undoable(connection, repo_uid)
    columns = (commit_rows.c.parents, commit_rows.c.state, commit_rows.c.run_id)
    query = select(commit_rows.c.id, *columns).where(commit_rows.c.repo_uid == repo_uid)
    parents: dict[str, Sequence[str]] = {}
    gone: set[str] = set()
    for row in connection.execute(query):
        if row.state != CommitState.COLLECTED:
            parents[row.id] = json.loads(row.parents)
        if row.state not in STANDING and (row.state not in TAKEN or row.run_id not in undoing):
            gone.add(row.id)
    return parents, gone


def _read_tips(connection: Connection, repo_uid: str) -> list[str]:
    heads = select(branches.c.head).where(branches.c.repo_uid == repo_uid)
    named = select(tags.c.commit_id).where(tags.c.repo_uid == repo_uid)
    return [tip for query in (heads, named) for tip in connection.execute(query).scalars()]


def _dropped(connection: Connection, run_id: str, gone: AbstractSet[str]) -> list[str]:
    """Commits cut off by a run: replaced parents, and the commits of deleted refs.

    Excludes edits that cannot be undone because some of their commits are gone.
    """
    edits = select(run_edits.c.old_parents).where(run_edits.c.run_id == run_id)
    replaced = [json.loads(text) for text in connection.execute(edits).scalars()]
    old = [parent for parents in replaced if gone.isdisjoint(parents) for parent in parents]
    deleted = select(run_refs.c.commit_id).where(run_refs.c.run_id == run_id)
    return [*old, *(tip for tip in connection.execute(deleted).scalars() if tip not in gone)]


def _reached(parents: Parents, tips: Iterable[str]) -> set[str]:
    reached: set[str] = set()
    waiting = list(tips)
    while waiting:
        commit_id = waiting.pop()
        if commit_id not in reached:
            reached.add(commit_id)
            waiting.extend(parents.get(commit_id, ()))
    return reached
