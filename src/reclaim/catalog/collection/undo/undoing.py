"""The way back: parents, refs and commits as a run found them, where nothing changed since.

An expiration is taken back whole or refused (``taking_back``). Of a collection that set its objects
aside, all that is whole again comes back; the rest is named and left.
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
from reclaim.catalog.collection.undo.later_edits import find_dropped, find_tops, out_of_reach
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
"""How many of the things that are gone a message names."""


@dataclass(frozen=True, slots=True)
class TakenCommit:
    """A commit that a run let go of, as it was."""

    parents: tuple[SnapshotId, ...]
    metarange: str


@dataclass(frozen=True, slots=True)
class RestoredCommits:
    """Commits that an undo brought back, and sentences about the rest.

    What was ``left`` has changed since and is somebody else's now, or leads to what is gone for
    good; what ``waits`` comes back with a later undo of the same run, once all that it needs is
    there. ``held`` are the leases on commits that no branch or tag reaches.
    """

    commits: int
    left: tuple[str, ...]
    waits: tuple[str, ...]
    held: tuple[Lease, ...]
    released_claims: bool
    """Whether claims of the run are void now, and have to be removed."""


def undo_edit(workspace: Workspace, lock: RepositoryLock, run_id: str) -> list[str]:
    """Take back the edit of a run that set nothing aside; returns what was left.

    Of an expiration, and of a run that stopped before it condemned anything: whole. Of another that
    is done, as far as the commits are there: what it deleted is gone.
    """

    def work(connection: Connection) -> list[str]:
        lock.assure(connection)
        refs.check_repository(connection, workspace.repo_uid, lock=True)
        run = find(connection, workspace.repo_uid, run_id)
        condemned = has_condemned(connection, workspace.repo_uid, run_id)
        done = run.phase == Phase.DONE
        if condemned and not done:
            raise Refused(
                f"run {run_id} put nothing in quarantine and has deleted something, which cannot "
                "be brought back",
                hint="finish it: apply its plan again; then its edit of the history can be undone, "
                "as far as commits are left",
            )
        if not has_edited(connection, run_id) and not run.edit.taken_back:
            if condemned or run.counts.objects:
                raise Refused(
                    f"run {run_id} put nothing in quarantine and edited no history: what it "
                    "deleted cannot be brought back",
                    hint="apply with --quarantine to be able to undo it",
                )
            raise Refused(
                f"run {run_id} edited no history and removed no commit; "
                "there is nothing to bring back"
            )
        return _undo_edit(connection, workspace, run_id, in_parts=done and run.kind != EXPIRE)

    return workspace.database.transact(work)


def _undo_edit(
    connection: Connection, workspace: Workspace, run_id: str, *, in_parts: bool = False
) -> list[str]:
    """Take an edit back; returns what had changed since and was left.

    Whole, or not at all; ``in_parts`` leaves what leads to commits that are gone for good. What
    came back is leased for as long as a quarantine of the run would have been kept.
    """
    dropped = find_dropped(connection, run_id)
    outcome = take_back(connection, workspace, run_id)
    if in_parts and outcome.gone and not outcome.restored and not outcome.waits:
        raise Refused(
            f"nothing of run {run_id} can be brought back: it put nothing in quarantine, and what "
            f"it took out of history is gone ({'; '.join(outcome.gone[:SHOWN])})",
            hint="apply with --quarantine to be able to undo it",
        )
    if outcome.lost or (outcome.gone and not in_parts):
        raise Refused(
            "the run cannot be undone: something that it took out of history was removed since",
            hint="; ".join([*outcome.lost, *outcome.gone]),
        )
    if outcome.later:
        first = next(iter(outcome.later))
        raise Refused(
            f"run {run_id} cannot be undone yet: {'; '.join(outcome.waits)}",
            hint=f"undo the later run first: reclaim undo {first}",
        )
    begun = find(connection, workspace.repo_uid, run_id).started_at
    rest = begun + SAFETY.quarantine - workspace.clock.now()
    _hold(connection, workspace, run_id, dropped, max(rest, SAFETY.after_undo))
    _end(connection, workspace.repo_uid, run_id)
    history_edit.bump(connection, workspace.repo_uid)
    return [*outcome.changed, *outcome.gone, *_taken_since(connection, workspace.repo_uid, run_id)]


def _taken_since(connection: Connection, repo_uid: str, run_id: str) -> list[str]:
    """A sentence about lifecycle runs since: a ref that comes back may have other rules than those
    that reached the same commits meanwhile."""
    run = find(connection, repo_uid, run_id)
    since = claimed_addresses.promoted_since(connection, repo_uid, run.started_at)
    if not since:
        return []
    more = f" and {len(since) - SHOWN} more" if len(since) > SHOWN else ""
    named = ", ".join(since[:SHOWN])
    return [f"what lifecycle rules have taken since stays gone (run {named}{more})"]


def find(connection: Connection, repo_uid: str, run_id: str) -> RunRecord:
    """The record of a run."""
    run = records.find_run(connection, repo_uid, run_id)
    if run is None:
        raise NotFound(f"there is no run {run_id}", hint="see `reclaim runs`")
    return run


def taken(workspace: Workspace, run_id: str) -> dict[SnapshotId, TakenCommit]:
    """The commits that a run condemned or set aside."""
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
    """Make the commits of a run live again, of those that are whole, with parents and refs.

    In one transaction. Where a parent is not there, the history of a commit goes on at the nearest
    ancestors that are. What came back is leased to the end of the run's window: the rules that
    took it would do so again. The run is undone once all is back; with ``complete`` all of its
    objects are.
    """

    def work(connection: Connection) -> RestoredCommits:
        lock.assure(connection)
        uid = workspace.repo_uid
        refs.check_repository(connection, uid, lock=True)
        query = _taken(uid, run_id).order_by(commit_rows.c.id).with_for_update()
        rows = {row.id: row for row in connection.execute(query)}
        back, waits = _standing(connection, uid, rows, whole)
        set_state(connection, uid, back, CommitState.LIVE, run_id=None, rule=None)
        _note_parents(connection, uid, run_id, {one: rows[one] for one in back})
        dropped = find_dropped(connection, run_id)
        outcome = take_back(connection, workspace, run_id, detours=True)
        waits += outcome.waits
        finished = complete and not waits
        returned = dropped | back
        length = _window(connection, workspace, run_id)
        released_claims = False
        if finished:
            # From here on the promise of the run protects nothing any more.
            returned |= outcome.loose
            _end(connection, uid, run_id)
            # What it took is back, so that it can be referred to again.
            released_claims = claimed_addresses.release_undone(connection, run_id)
        _hold(connection, workspace, run_id, returned, length)
        history_edit.bump(connection, uid)
        left = (*outcome.changed, *outcome.gone)
        named = _list_held(connection, workspace, run_id)
        return RestoredCommits(len(back), left, tuple(waits), named, released_claims)

    return workspace.database.transact(work)


def _window(connection: Connection, workspace: Workspace, run_id: str) -> timedelta:
    """The rest of a run's window, and a day at least."""
    aside = find(connection, workspace.repo_uid, run_id).quarantine
    until = None if aside is None else aside.until
    rest = until - workspace.clock.now() if until else timedelta(0)
    return max(rest, SAFETY.after_undo)


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
    """The whole commits whose parents are live, come back with them, or cannot come back.

    And why others wait: not for a parent that nobody can bring back, nor for one that an undo of
    its run could not bring back now.
    """
    back = rows.keys() & set(whole)
    waits = [
        f"commit {one}: not all of its objects are there" for one in sorted(rows.keys() - back)
    ]
    outside = {parent for one in back for parent in _parents(rows[one])} - back
    query = select(commit_rows.c.id).where(
        commit_rows.c.repo_uid == repo_uid,
        commit_rows.c.state == CommitState.LIVE,
        among(connection, commit_rows.c.id, outside),
    )
    missing = outside - set(connection.execute(query).scalars())
    children: dict[str, list[str]] = {}
    for one in back:
        for parent in _parents(rows[one]):
            children.setdefault(parent, []).append(one)
    broken = rows.keys() - set(whole) | _not_brought_back(connection, repo_uid, missing)
    waiting: list[str] = sorted(missing - gone_for_good(connection, repo_uid, missing) - broken)
    while waiting:
        lost = waiting.pop()
        for one in children.get(lost, ()):
            if one in back:
                back.discard(one)
                waits.append(f"commit {one}: its parent {lost} is not there")
                waiting.append(one)
    return back, waits


def _not_brought_back(connection: Connection, repo_uid: str, ids: Collection[str]) -> set[str]:
    """Those of some commits whose run was begun to be undone, and that did not come back."""
    undoing = {run.id for run in records.list_runs(connection, repo_uid) if run.undoing}
    query = select(commit_rows.c.id).where(
        commit_rows.c.repo_uid == repo_uid,
        commit_rows.c.state.in_(TAKEN),
        among(connection, commit_rows.c.run_id, undoing),
        among(connection, commit_rows.c.id, set(ids)),
    )
    return set(connection.execute(query).scalars())


def _note_parents(
    connection: Connection, repo_uid: str, run_id: str, back: Mapping[str, Row[Any]]
) -> None:
    """Record the parents of commits that come back without all of them, as an edit of the run.

    So each undo of the run gives them what is there by then, and the run waits for the rest.
    """
    named = {parent for row in back.values() for parent in _parents(row)}
    query = select(commit_rows.c.id).where(
        commit_rows.c.repo_uid == repo_uid,
        commit_rows.c.state == CommitState.LIVE,
        among(connection, commit_rows.c.id, named),
    )
    absent = named - set(connection.execute(query).scalars())
    for commit_id, row in sorted(back.items()):
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
    """Lease what came back, by its newest commits: rules and runs leave what these reach."""
    uid = workspace.repo_uid
    there = [one for one in sorted(returned) if stands(connection, uid, [one])]
    for one in sorted(find_tops(connection, uid, there)):
        leases.hold(connection, workspace, one, holder=_holder(run_id), length=length)


def _list_held(connection: Connection, workspace: Workspace, run_id: str) -> tuple[Lease, ...]:
    """The leases of a run's undo on commits that no branch or tag reaches."""
    now = workspace.database.now(connection, workspace.clock)
    own = [
        lease
        for lease in leases.list_leases(connection, workspace.repo_uid)
        if lease.holder == _holder(run_id) and lease.valid_at(now)
    ]
    named = {str(lease.snapshot) for lease in own}
    hidden = out_of_reach(connection, workspace.repo_uid, named)
    return tuple(lease for lease in own if lease.snapshot in hidden)


def _holder(run_id: str) -> str:
    return f"{UNDO_HOLDER}{run_id}"


def _end(connection: Connection, repo_uid: str, run_id: str) -> None:
    run = find(connection, repo_uid, run_id)
    records.save_run(connection, repo_uid, replace(run, phase=Phase.UNDONE))


def _parents(row: Any) -> tuple[SnapshotId, ...]:
    return tuple(SnapshotId(parent) for parent in json.loads(row.parents))
