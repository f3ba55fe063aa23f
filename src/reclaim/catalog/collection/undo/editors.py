"""Other runs that edited the same commits or refs: an undo waits for some of them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

from sqlalchemy import Connection, select

from reclaim.catalog.collection import records
from reclaim.catalog.collection.roots.promised import gone_for_good
from reclaim.catalog.database.schema import CommitState, branches, run_edits, run_refs, runs, tags
from reclaim.catalog.database.schema import commits as commit_rows
from reclaim.catalog.refs import commits
from reclaim.clock import to_micros
from reclaim.errors import TransactionFailed
from reclaim.run_record import EARLY, EXPIRE, Action, Phase, RunRecord


def find_editor(
    connection: Connection, repo_uid: str, run_id: str, commit_id: str, parents: str | None
) -> str | None:
    """Return an undoable run that gave a commit its current parents."""
    for run, old in _editors(connection, repo_uid, run_id, commit_id, parents):
        if can_be_undone(connection, repo_uid, run, needs=old):
            return run.id
    return None


def has_substitute_parents(
    connection: Connection, repo_uid: str, run_id: str, commit_id: str, parents: str | None
) -> bool:
    """Whether another run's undo gave a commit substitutes, because true parents are missing.

    Such an edit is not waited for: the missing parents may never return.
    """
    return any(
        run.undoing and not stands(connection, repo_uid, old)
        for run, old in _editors(connection, repo_uid, run_id, commit_id, parents)
    )


def _editors(
    connection: Connection, repo_uid: str, run_id: str, commit_id: str, parents: str | None
) -> Iterator[tuple[RunRecord, list[str]]]:
    """Yield other runs that gave a commit its current parents, with its previous parents."""
    query = (
        select(runs, run_edits.c.old_parents)
        .join(run_edits, run_edits.c.run_id == runs.c.id)
        .where(
            runs.c.repo_uid == repo_uid,
            runs.c.id != run_id,
            run_edits.c.commit_id == commit_id,
            run_edits.c.new_parents == parents,
        )
        .order_by(runs.c.started_at.desc(), runs.c.id)
    )
    for row in connection.execute(query).all():
        yield records.decode(row), json.loads(row.old_parents)


def find_deleter(
    connection: Connection, repo_uid: str, run: RunRecord, name: str, commit_id: str
) -> str | None:
    """Return a later undoable run that deleted a ref of the same name at another commit.

    Each run saw its deleted ref when it was planned, so their start times give the order.
    """
    query = (
        select(runs, run_refs.c.commit_id)
        .join(run_refs, run_refs.c.run_id == runs.c.id)
        .where(
            runs.c.repo_uid == repo_uid,
            runs.c.started_at > to_micros(run.started_at),
            run_refs.c.name == name,
            run_refs.c.commit_id != commit_id,
        )
        .order_by(runs.c.started_at.desc(), runs.c.id)
    )
    for row in connection.execute(query).all():
        if can_be_undone(connection, repo_uid, records.decode(row), needs=[row.commit_id]):
            return str(row.id)
    return None


def can_be_undone(
    connection: Connection, repo_uid: str, run: RunRecord, *, needs: Collection[str]
) -> bool:
    """Whether a part of a run's edit, which ``needs`` some commits, can still be undone.

    The edit of an expiration, or of a stopped run, is undone completely or refused, so not if a
    part is gone. The edit of a completed run without quarantine is undone in parts.
    """
    if not run.allows(Action.UNDO):
        return False
    if run.quarantine is not None:
        return True
    if run.kind == EXPIRE or run.phase in EARLY:
        return not _leads_to_gone(connection, repo_uid, run.id)
    return run.phase == Phase.DONE and not gone_for_good(connection, repo_uid, needs)


def _leads_to_gone(connection: Connection, repo_uid: str, run_id: str) -> bool:
    """Whether an edit, where unchanged, hides commits no run can restore."""
    edits = (
        select(run_edits.c.old_parents)
        .join(commit_rows, commit_rows.c.id == run_edits.c.commit_id)
        .where(
            commit_rows.c.repo_uid == repo_uid,
            run_edits.c.run_id == run_id,
            commit_rows.c.parents == run_edits.c.new_parents,
            commit_rows.c.state != CommitState.COLLECTED,
        )
    )
    hidden = {parent for text in connection.execute(edits).scalars() for parent in json.loads(text)}
    for ref in connection.execute(select(run_refs).where(run_refs.c.run_id == run_id)).all():
        if find_named(connection, repo_uid, ref.name) is None:
            hidden.add(ref.commit_id)
    return bool(hidden and gone_for_good(connection, repo_uid, hidden))


def stands(connection: Connection, repo_uid: str, ids: list[str]) -> bool:
    """Whether commits are live; live commits are held until the transaction ends."""
    try:
        commits.hold(connection, repo_uid, ids)
    except TransactionFailed:
        return False
    return True


def must_wait_for(run: RunRecord, later: RunRecord) -> bool:
    """Whether an undo waits for the undo of a later run hiding its commits.

    A later run with a started undo may be incomplete forever, and has restored everything possible.
    Its promised commits stay protected, so only a run with its own quarantine has time to wait.
    """
    return run.quarantine is not None or not later.undoing


def find_named(connection: Connection, repo_uid: str, name: str) -> str | None:
    """Commit of the branch or tag with a name."""
    for table, column in ((branches, branches.c.head), (tags, tags.c.commit_id)):
        query = select(column).where(table.c.repo_uid == repo_uid, table.c.name == name)
        if (commit := connection.execute(query).scalar()) is not None:
            return str(commit)
    return None
