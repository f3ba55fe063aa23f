"""Undo: restore parents, refs and commits as a run found them, where unchanged since.

An expiration is undone completely or refused (``taking_back``). For a collection with quarantine,
every intact commit is restored; the others are named and left.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from sqlalchemy import Connection, Row, select

from reclaim.catalog.collection import records
from reclaim.catalog.collection.condemn import claimed_addresses
from reclaim.catalog.collection.condemn.commit_states import set_state
from reclaim.catalog.collection.edit import history_edit
from reclaim.catalog.collection.edit.provisional import TAKEN, has_condemned
from reclaim.catalog.collection.locks import RepositoryLock
from reclaim.catalog.collection.roots.promised import gone_for_good
from reclaim.catalog.collection.undo.editors import stands
from reclaim.catalog.collection.undo.later_edits import find_dropped, find_newest, find_unreachable
from reclaim.catalog.collection.undo.taking_back import find_edit, has_edited, take_back
from reclaim.catalog.database.schema import CommitState
from reclaim.catalog.database.schema import commits as commit_rows
from reclaim.catalog.database.sets import among
from reclaim.catalog.refs import leases, refs
from reclaim.catalog.workspace import Workspace
from reclaim.errors import NotFound, Refused
from reclaim.model import UNDO_HOLDER, Lease, SnapshotId
from reclaim.run_record import EXPIRE, Phase, RunRecord
from reclaim.safety import SAFETY

SHOWN = 3
"""Number of missing items named in a message."""


@dataclass(frozen=True, slots=True)
class TakenCommit:
    """Commit as it was before a run removed it."""

    parents: tuple[SnapshotId, ...]
    metarange: str


@dataclass(frozen=True, slots=True)
class RestoredCommits:
    """Commits restored by an undo, and sentences about the others.

    ``left`` are parts changed since by others, or leading to commits gone for good; ``waits`` are
    parts restored by a later undo of the same run, once everything they need is available.
    ``held`` are the leases on commits reached by no branch or tag.
    """

    commits: int
    left: tuple[str, ...]
    waits: tuple[str, ...]
    held: tuple[Lease, ...]
    released_claims: bool
    """Whether claims of the run are now void and must be removed."""


def undo_edit(workspace: Workspace, lock: RepositoryLock, run_id: str) -> list[str]:
    """Undo the edit of a run without quarantine; return the parts left.

    The edit of an expiration, or of a run that stopped before condemning anything, is undone
    completely. The edit of another completed run is undone as far as the commits exist: deleted
    objects are gone.
    """

    def work(connection: Connection) -> list[str]:
        lock.assure(connection)
        refs.check_repository(connection, workspace.repo_uid, lock=True)
        run = find(connection, workspace.repo_uid, run_id)
        condemned = has_condemned(connection, workspace.repo_uid, run_id)
        done = run.phase == Phase.DONE
        if condemned and not done:
            raise Refused(
                f"run {run_id} put nothing in quarantine and deleted objects, which "
                "cannot be restored",
                hint="apply its plan again to finish it; then its edit of history can be undone, "
                "as far as commits still exist",
            )
        if not has_edited(connection, run_id) and not run.edit.taken_back:
            if condemned or run.counts.objects:
                raise Refused(
                    f"run {run_id} put nothing in quarantine and edited no history: objects it "
                    "deleted cannot be restored",
                    hint="use --quarantine to make a run undoable",
                )
            raise Refused(
                f"run {run_id} edited no history and removed no commit; there is nothing to undo"
            )
        return _undo_edit(connection, workspace, run_id, in_parts=done and run.kind != EXPIRE)

    return workspace.database.transact(work)


def _undo_edit(
    connection: Connection, workspace: Workspace, run_id: str, *, in_parts: bool = False
) -> list[str]:
    """Revert an edit; return the parts changed since and left.

    Completely or not at all; ``in_parts`` leaves parts leading to commits gone for good. Restored
    commits get leases for as long as a quarantine of the run would have lasted.
    """
    dropped = find_dropped(connection, run_id)
    outcome = take_back(connection, workspace, run_id)
    if in_parts and outcome.gone and not outcome.restored and not outcome.waits:
        raise Refused(
            f"run {run_id} cannot be undone: it put nothing in quarantine, and the commits "
            f"it removed from history are gone ({'; '.join(outcome.gone[:SHOWN])})",
            hint="use --quarantine to make a run undoable",
        )
    if outcome.lost or (outcome.gone and not in_parts):
        raise Refused(
            "the run cannot be undone: commits it removed from history were deleted since",
            hint="; ".join([*outcome.lost, *outcome.gone]),
        )
    if outcome.later:
        first = next(iter(outcome.later))
        raise Refused(
            f"run {run_id} cannot be undone yet: {'; '.join(outcome.waits)}",
            hint=f"undo the later run first: reclaim undo {first}",
        )
    begun = find(connection, workspace.repo_uid, run_id).started_at
    remaining = begun + SAFETY.quarantine - workspace.clock.now()
    _hold(connection, workspace, run_id, dropped, max(remaining, SAFETY.after_undo))
    _end(connection, workspace.repo_uid, run_id)
    history_edit.bump(connection, workspace.repo_uid)
    return [*outcome.changed, *outcome.gone, *_taken_since(connection, workspace.repo_uid, run_id)]


def _taken_since(connection: Connection, repo_uid: str, run_id: str) -> list[str]:
    """Sentence about later lifecycle runs.

    A restored ref may have other rules than the refs reaching the same commits meanwhile.
    """
    run = find(connection, repo_uid, run_id)
    since = claimed_addresses.promoted_since(connection, repo_uid, run.started_at)
    if not since:
        return []
    more = f" and {len(since) - SHOWN} more" if len(since) > SHOWN else ""
    named = ", ".join(since[:SHOWN])
    return [f"objects deleted since by lifecycle rules stay deleted (run {named}{more})"]


def find(connection: Connection, repo_uid: str, run_id: str) -> RunRecord:
    """Return the record of a run."""
    run = records.find_run(connection, repo_uid, run_id)
    if run is None:
        raise NotFound(f"there is no run {run_id}", hint="see `reclaim runs`")
    return run


def taken(workspace: Workspace, run_id: str) -> dict[SnapshotId, TakenCommit]:
    """Commits condemned or quarantined by a run."""
    with workspace.database.read() as connection:
        return {
            SnapshotId(row.id): TakenCommit(_parents(row), row.metarange)
            for row in connection.execute(_taken(workspace.repo_uid, run_id))
        }


def restore(
    workspace: Workspace,
    lock: RepositoryLock,
    run_id: str,
    whole: Collection[str],
    *,
    complete: bool,
) -> RestoredCommits:
    """Make the intact commits of a run live again, with parents and refs.

    Works in a single transaction. Where a parent is missing, a commit continues at its nearest live
    ancestors. Restored commits get leases to the end of the run's quarantine, because the same
    rules would expire them again. The run is undone once everything is restored; ``complete`` means
    all of its objects are.
    """

    def work(connection: Connection) -> RestoredCommits:
        lock.assure(connection)
        uid = workspace.repo_uid
        refs.check_repository(connection, uid, lock=True)
        query = _taken(uid, run_id).order_by(commit_rows.c.id).with_for_update()
        rows = {row.id: row for row in connection.execute(query)}
        restorable, waits = _standing(connection, uid, rows, whole)
        set_state(connection, uid, restorable, CommitState.LIVE, run_id=None, rule=None)
        _note_parents(
            connection, uid, run_id, {commit_id: rows[commit_id] for commit_id in restorable}
        )
        dropped = find_dropped(connection, run_id)
        outcome = take_back(connection, workspace, run_id, substitutes=True)
        waits += outcome.waits
        finished = complete and not waits
        returned = dropped | restorable
        length = _window(connection, workspace, run_id)
        released_claims = False
        if finished:
            # From here on the promise of the run protects nothing.
            returned |= outcome.loose
            _end(connection, uid, run_id)
            # Its objects are restored and can be referenced again.
            released_claims = claimed_addresses.release_undone(connection, run_id)
        _hold(connection, workspace, run_id, returned, length)
        history_edit.bump(connection, uid)
        left = (*outcome.changed, *outcome.gone)
        named = _list_held(connection, workspace, run_id)
        return RestoredCommits(len(restorable), left, tuple(waits), named, released_claims)

    return workspace.database.transact(work)


def _window(connection: Connection, workspace: Workspace, run_id: str) -> timedelta:
    """Remaining time of a run's quarantine; at least a day."""
    quarantine = find(connection, workspace.repo_uid, run_id).quarantine
    until = None if quarantine is None else quarantine.until
    remaining = until - workspace.clock.now() if until else timedelta(0)
    return max(remaining, SAFETY.after_undo)


def _taken(repo_uid: str, run_id: str) -> Any:
    columns = (commit_rows.c.parents, commit_rows.c.metarange, commit_rows.c.marked)
    return select(commit_rows.c.id, *columns).where(
        commit_rows.c.repo_uid == repo_uid,
        commit_rows.c.run_id == run_id,
        commit_rows.c.state.in_(TAKEN),
    )


def _standing(
    connection: Connection, repo_uid: str, rows: Mapping[str, Row[Any]], whole: Collection[str]
) -> tuple[set[str], list[str]]:
    """Intact commits with parents live or restored with them, and reasons why others wait.

    No commit waits for a parent that no run can restore, or that the undo of its run could not
    restore now.
    """
    restorable = rows.keys() & set(whole)
    waits = [
        f"commit {commit_id}: some of its objects are missing"
        for commit_id in sorted(rows.keys() - restorable)
    ]
    outside = {
        parent for commit_id in restorable for parent in _parents(rows[commit_id])
    } - restorable
    query = select(commit_rows.c.id).where(
        commit_rows.c.repo_uid == repo_uid,
        commit_rows.c.state == CommitState.LIVE,
        among(connection, commit_rows.c.id, outside),
    )
    missing = outside - set(connection.execute(query).scalars())
    children: dict[str, list[str]] = {}
    for commit_id in restorable:
        for parent in _parents(rows[commit_id]):
            children.setdefault(parent, []).append(commit_id)
    broken = rows.keys() - set(whole) | _not_brought_back(connection, repo_uid, missing)
    waiting: list[str] = sorted(missing - gone_for_good(connection, repo_uid, missing) - broken)
    while waiting:
        lost = waiting.pop()
        for child in children.get(lost, ()):
            if child in restorable:
                restorable.discard(child)
                waits.append(f"commit {child}: its parent {lost} is missing")
                waiting.append(child)
    return restorable, waits


def _not_brought_back(connection: Connection, repo_uid: str, ids: Collection[str]) -> set[str]:
    """Return the commits whose run has a started undo that did not restore them."""
    undoing = {run.id for run in records.list_runs(connection, repo_uid) if run.undoing}
    query = select(commit_rows.c.id).where(
        commit_rows.c.repo_uid == repo_uid,
        commit_rows.c.state.in_(TAKEN),
        among(connection, commit_rows.c.run_id, undoing),
        among(connection, commit_rows.c.id, set(ids)),
    )
    return set(connection.execute(query).scalars())


def _note_parents(
    connection: Connection, repo_uid: str, run_id: str, restored: Mapping[str, Row[Any]]
) -> None:
    """Record the parents of partially restored commits as an edit of the run.

    Each undo of the run then adds the parents available by then, and the run waits for the others.
    """
    named = {parent for row in restored.values() for parent in _parents(row)}
    query = select(commit_rows.c.id).where(
        commit_rows.c.repo_uid == repo_uid,
        commit_rows.c.state == CommitState.LIVE,
        among(connection, commit_rows.c.id, named),
    )
    absent = named - set(connection.execute(query).scalars())
    for commit_id, row in sorted(restored.items()):
        parents = _parents(row)
        if absent.isdisjoint(parents):
            continue
        old, was_marked = find_edit(connection, run_id, commit_id) or (parents, bool(row.marked))
        history_edit.note_edit(
            connection, run_id, commit_id, old=old, new=parents, was_marked=was_marked
        )


def _hold(
    connection: Connection,
    workspace: Workspace,
    run_id: str,
    returned: Collection[str],
    length: timedelta,
) -> None:
    """Take leases on the newest restored commits, which protect all commits they reach."""
    uid = workspace.repo_uid
    live = [commit_id for commit_id in sorted(returned) if stands(connection, uid, [commit_id])]
    for commit_id in sorted(find_newest(connection, uid, live)):
        leases.hold(connection, workspace, commit_id, holder=_holder(run_id), length=length)


def _list_held(connection: Connection, workspace: Workspace, run_id: str) -> tuple[Lease, ...]:
    """Leases of a run's undo on commits reached by no branch or tag."""
    now = workspace.database.now(connection, workspace.clock)
    own = [
        lease
        for lease in leases.list_leases(connection, workspace.repo_uid)
        if lease.holder == _holder(run_id) and lease.valid_at(now)
    ]
    named = {str(lease.snapshot) for lease in own}
    hidden = find_unreachable(connection, workspace.repo_uid, named)
    return tuple(lease for lease in own if lease.snapshot in hidden)


def _holder(run_id: str) -> str:
    return f"{UNDO_HOLDER}{run_id}"


def _end(connection: Connection, repo_uid: str, run_id: str) -> None:
    run = find(connection, repo_uid, run_id)
    records.save_run(connection, repo_uid, replace(run, phase=Phase.UNDONE))


def _parents(row: Any) -> tuple[SnapshotId, ...]:
    return tuple(SnapshotId(parent) for parent in json.loads(row.parents))
