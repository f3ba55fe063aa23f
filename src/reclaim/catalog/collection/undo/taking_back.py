"""Reverting an edit of the history: parents and refs, where unchanged since the run.

Edits of the same commit, or deletions of a ref with the same name, by several runs are reverted in
turn, newest first: parts changed by a later run wait for the undo of that run. So do parts hidden
by a later run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, delete, exists, or_, select

from reclaim.catalog.collection import records
from reclaim.catalog.collection.edit import history_edit
from reclaim.catalog.collection.roots.promised import gone_for_good
from reclaim.catalog.collection.undo.editors import (
    can_be_undone,
    find_deleter,
    find_editor,
    find_named,
    has_substitute_parents,
    must_wait_for,
    stands,
)
from reclaim.catalog.collection.undo.later_edits import find_hiding_runs
from reclaim.catalog.collection.undo.live_ancestors import find_live_ancestors
from reclaim.catalog.database.schema import CommitState, run_edits, run_refs, runs
from reclaim.catalog.database.schema import commits as commit_rows
from reclaim.catalog.refs import commits, refs
from reclaim.catalog.workspace import Workspace
from reclaim.clock import to_micros
from reclaim.model import RefKind, SnapshotId
from reclaim.run_record import EXPIRE, Action, RunRecord


@dataclass(frozen=True, slots=True)
class TakenBack:
    """Reverted parts of an edit, and parts that could not be reverted, as sentences."""

    changed: list[str] = field(default_factory=list)
    """Changed since by others, who own them now."""
    lost: list[str] = field(default_factory=list)
    """Parts that need a commit which is not live but can be restored."""
    gone: list[str] = field(default_factory=list)
    """Parts that need a commit no run can restore."""
    missing: dict[str, list[str]] = field(default_factory=dict)
    """Missing commits of each part, some or all of its needs; finally listed as lost or gone."""
    substitutes: dict[str, Sequence[str]] = field(default_factory=dict)
    """Substitute parents until then: live parents, and live ancestors of missing parents."""
    loose: set[str] = field(default_factory=set)
    """Commits named by a part that was changed since; some of them may be live."""
    restored: list[str] = field(default_factory=list)
    """Restored parts, including parts already restored."""
    later: dict[str, list[str]] = field(default_factory=dict)
    """Parts edited since by undoable runs, by run id."""

    @property
    def whole(self) -> bool:
        return not (self.changed or self.lost or self.gone or self.later)

    @property
    def waits(self) -> list[str]:
        """Parts restored by a later undo of the same run."""
        return self.lost + [
            f"{part}: run {run_id} edited it since; undo that run first"
            for run_id, names in self.later.items()
            for part in names
        ]


def has_edited(connection: Connection, run_id: str) -> bool:
    """Whether an edit of a run is recorded."""
    queries = (
        select(table.c.run_id).where(table.c.run_id == run_id) for table in (run_edits, run_refs)
    )
    return any(connection.execute(query.limit(1)).first() is not None for query in queries)


def find_edit(
    connection: Connection, run_id: str, commit_id: str
) -> tuple[tuple[SnapshotId, ...], bool] | None:
    """Parents of a commit before a run's edit, and whether they were already edited."""
    query = select(run_edits.c.old_parents, run_edits.c.was_marked)
    own = (run_edits.c.run_id == run_id) & (run_edits.c.commit_id == commit_id)
    row = connection.execute(query.where(own)).first()
    if row is None:
        return None
    return tuple(SnapshotId(parent) for parent in json.loads(row.old_parents)), row.was_marked


def take_back(
    connection: Connection,
    workspace: Workspace,
    run_id: str,
    *,
    forget: bool = False,
    substitutes: bool = False,
) -> TakenBack:
    """Restore unchanged parents and refs; parts already restored stay.

    With ``forget`` the record of restored parts is removed, so the run can edit them again. Parents
    are restored completely or not at all; with ``substitutes``, live parents are restored at once,
    with the nearest live ancestors in place of missing parents.
    """
    outcome = TakenBack()
    run = records.find_run(connection, workspace.repo_uid, run_id)
    short = _take_back_parents(connection, workspace, run_id, outcome, forget, substitutes)
    _set_live_ancestors(connection, workspace.repo_uid, run_id, short, outcome)
    _take_back_refs(connection, workspace, run_id, run, outcome, forget=forget)
    _sort_missing(connection, workspace.repo_uid, outcome)
    if run is not None and not forget:
        _wait_for_hiding_runs(connection, workspace.repo_uid, run, outcome)
    return outcome


def _sort_missing(connection: Connection, repo_uid: str, outcome: TakenBack) -> None:
    """Separate parts that can be restored later from parts that cannot."""
    wanted = {commit_id for ids in outcome.missing.values() for commit_id in ids}
    gone = gone_for_good(connection, repo_uid, wanted) if wanted else set()
    for part, ids in outcome.missing.items():
        unrestorable = [commit_id for commit_id in ids if commit_id in gone]
        substitute = outcome.substitutes.get(part)
        if unrestorable:
            outcome.gone.append(
                f"{part}: {', '.join(unrestorable)} is gone{_continuation(substitute)}"
            )
        if substitute is not None and len(unrestorable) < len(ids):
            restorable = ", ".join(commit_id for commit_id in ids if commit_id not in gone)
            outcome.lost.append(
                f"{part}: {restorable} is not restored yet{_continuation(substitute)} until then"
            )
        elif not unrestorable:
            outcome.lost.append(part)


def _continuation(substitute: Sequence[str] | None) -> str:
    if substitute is None:
        return ""
    return (
        f"; its history goes on at {', '.join(substitute)}"
        if substitute
        else "; its history ends there"
    )


def _wait_for_hiding_runs(
    connection: Connection, repo_uid: str, run: RunRecord, outcome: TakenBack
) -> None:
    """Wait for later runs that hide restored commits from every ref."""
    query = (
        select(runs)
        .where(
            runs.c.repo_uid == repo_uid,
            runs.c.id != run.id,
            runs.c.started_at >= to_micros(run.started_at),
            or_(*(exists().where(table.c.run_id == runs.c.id) for table in (run_edits, run_refs))),
        )
        .order_by(runs.c.started_at.desc(), runs.c.id)
    )
    later_runs = [records.decode(row) for row in connection.execute(query)]
    # For a run undone in parts, only the undoable parts count.
    later = [
        other
        for other in later_runs
        if can_be_undone(connection, repo_uid, other, needs=()) and must_wait_for(run, other)
    ]
    edits = select(run_edits.c.commit_id).where(run_edits.c.run_id == run.id)
    edited = set(connection.execute(edits).scalars())
    covered = find_hiding_runs(connection, repo_uid, edited, later, undone=True)
    for covering, hidden in covered.items():
        outcome.later.setdefault(covering, []).extend(
            f"the history above {edited_id}" for edited_id in hidden
        )
        edited.difference_update(hidden)
    # Other hiding runs are reported without waiting: expirations that cannot be undone any
    # more, and undos that may never be finished.
    lasting = [
        other
        for other in later_runs
        if other not in later
        and other.allows(Action.UNDO)
        and (other.kind == EXPIRE or other.undoing)
    ]
    for hidden in find_hiding_runs(connection, repo_uid, edited, lasting).values():
        outcome.changed.extend(
            f"the history above {edited_id}: no ref reaches it" for edited_id in hidden
        )
        outcome.loose.update(hidden)


def _take_back_parents(
    connection: Connection,
    workspace: Workspace,
    run_id: str,
    outcome: TakenBack,
    forget: bool,
    substitutes: bool,
) -> list[tuple[Row[Any], Sequence[str]]]:
    """Restore the former parents of commits; return edits that need substitutes.

    Returned edits come with the current parents.
    """
    uid = workspace.repo_uid
    short: list[tuple[Row[Any], Sequence[str]]] = []
    for edit in connection.execute(select(run_edits).where(run_edits.c.run_id == run_id)).all():
        part = f"the parents of commit {edit.commit_id}"
        parents = _parents_now(connection, uid, edit.commit_id)
        old = json.loads(edit.old_parents)
        if parents == edit.old_parents and (not substitutes or stands(connection, uid, old)):
            pass
        elif parents not in (edit.old_parents, edit.new_parents) and not has_substitute_parents(
            connection, uid, run_id, edit.commit_id, parents
        ):
            editor = find_editor(connection, uid, run_id, edit.commit_id, parents)
            if editor is None:
                outcome.changed.append(part)
                outcome.loose.update(old)
            else:
                outcome.later.setdefault(editor, []).append(part)
            continue
        elif stands(connection, uid, old):
            history_edit.set_parents(connection, uid, edit.commit_id, old, marked=edit.was_marked)
        elif substitutes:
            short.append((edit, json.loads(parents or "[]")))
            continue
        else:
            outcome.missing[part] = old
            outcome.loose.update(old)
            continue
        outcome.restored.append(part)
        if forget:
            connection.execute(
                delete(run_edits).where(
                    run_edits.c.run_id == run_id, run_edits.c.commit_id == edit.commit_id
                )
            )
    return short


def _set_live_ancestors(
    connection: Connection,
    repo_uid: str,
    run_id: str,
    short: Sequence[tuple[Row[Any], Sequence[str]]],
    outcome: TakenBack,
) -> None:
    """Give commits their live former parents, and live ancestors of the others.

    Each commit is given by its edit, with its current parents. It stays edited by this run. No
    commit it reaches now becomes unreachable.
    """
    ways = {edit.commit_id: [*json.loads(edit.old_parents), *parents] for edit, parents in short}
    substitutes = find_live_ancestors(connection, repo_uid, ways)
    for edit, _ in short:
        old = tuple(SnapshotId(parent) for parent in json.loads(edit.old_parents))
        new = substitutes[edit.commit_id]
        commits.hold(connection, repo_uid, new)
        history_edit.set_parents(connection, repo_uid, edit.commit_id, new, marked=True)
        history_edit.note_edit(
            connection, run_id, edit.commit_id, old=old, new=new, was_marked=edit.was_marked
        )
        part = f"the parents of commit {edit.commit_id}"
        outcome.missing[part] = [
            parent for parent in old if not stands(connection, repo_uid, [parent])
        ]
        outcome.substitutes[part] = new


def _take_back_refs(
    connection: Connection,
    workspace: Workspace,
    run_id: str,
    run: RunRecord | None,
    outcome: TakenBack,
    *,
    forget: bool,
) -> None:
    uid = workspace.repo_uid
    for ref in connection.execute(select(run_refs).where(run_refs.c.run_id == run_id)).all():
        part = f"the {ref.kind} {ref.name}"
        named = find_named(connection, uid, ref.name)
        if named == ref.commit_id:
            # Recreated by others: with ``forget`` the record stays, so this run does not delete it.
            if not forget:
                _forget_ref(connection, ref)
            continue
        if named is not None:
            outcome.changed.append(part)
            outcome.loose.add(ref.commit_id)
        elif run and (deleter := find_deleter(connection, uid, run, ref.name, ref.commit_id)):
            outcome.later.setdefault(deleter, []).append(part)
        elif stands(connection, uid, [ref.commit_id]):
            insert = refs.insert_branch if ref.kind == RefKind.BRANCH else refs.insert_tag
            insert(connection, uid, ref.name, ref.commit_id, workspace.now())
            outcome.restored.append(part)
            _forget_ref(connection, ref)
        else:
            outcome.missing[part] = [ref.commit_id]


def _forget_ref(connection: Connection, ref: Row[Any]) -> None:
    """Remove the record of a restored ref: later deletions are new decisions."""
    connection.execute(
        delete(run_refs).where(
            run_refs.c.run_id == ref.run_id,
            run_refs.c.kind == ref.kind,
            run_refs.c.name == ref.name,
        )
    )


def _parents_now(connection: Connection, repo_uid: str, commit_id: str) -> str | None:
    """Stored parents of a commit; None if it was collected."""
    query = select(commit_rows.c.parents).where(
        commit_rows.c.repo_uid == repo_uid,
        commit_rows.c.id == commit_id,
        commit_rows.c.state != CommitState.COLLECTED,
    )
    return connection.execute(query.with_for_update()).scalar()
