"""Taking an edit of the history back: parents and refs, where they are as the run left them.

Runs that edited the same commit or deleted a ref of the same name are taken back in turn, the
newest first: what a later run left waits for the undo of that run. So does what a later run hides.
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
    is_detour,
    is_waited_for,
    stands,
)
from reclaim.catalog.collection.undo.later_edits import find_covering
from reclaim.catalog.collection.undo.skipped_parents import find_detours
from reclaim.catalog.database.schema import CommitState, run_edits, run_refs, runs
from reclaim.catalog.database.schema import commits as commit_rows
from reclaim.catalog.refs import commits, refs
from reclaim.catalog.workspace import Workspace
from reclaim.clock import to_micros
from reclaim.model import RefKind, SnapshotId
from reclaim.run_record import EXPIRE, Action, RunRecord


@dataclass(frozen=True, slots=True)
class TakenBack:
    """The parts of an edit that were taken back, and those that could not be, in words."""

    changed: list[str] = field(default_factory=list)
    """Changed since by others, and theirs now."""
    lost: list[str] = field(default_factory=list)
    """Needs a commit that is not live, and can be brought back."""
    gone: list[str] = field(default_factory=list)
    """Needs a commit that nobody can bring back."""
    missing: dict[str, list[str]] = field(default_factory=dict)
    """Needs commits that are not all live; each is among the lost or the gone in the end."""
    detours: dict[str, Sequence[str]] = field(default_factory=dict)
    """Has these parents meanwhile: those that are live, and ancestors of the others."""
    loose: set[str] = field(default_factory=set)
    """The commits that something named which is not as it was; some of them may be live."""
    restored: list[str] = field(default_factory=list)
    """Came back, or is back already."""
    later: dict[str, list[str]] = field(default_factory=dict)
    """Was edited since by runs that can be undone themselves, by their ids."""

    @property
    def whole(self) -> bool:
        return not (self.changed or self.lost or self.gone or self.later)

    @property
    def waits(self) -> list[str]:
        """The parts that come back with another undo of the same run."""
        return self.lost + [
            f"{what}: run {run_id} edited it since; undo that run first"
            for run_id, names in self.later.items()
            for what in names
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
    """The parents that a commit had before a run edited it, and whether they were edited ones."""
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
    detours: bool = False,
) -> TakenBack:
    """Restore parents and refs that are as the run left them; what is back already stays.

    With ``forget`` the record of what came back is removed, so that the run can edit it again.
    Parents come back all or none; with ``detours`` those that are live, and the nearest live
    ancestors of the others until these are.
    """
    outcome = TakenBack()
    run = records.find_run(connection, workspace.repo_uid, run_id)
    short = _take_back_parents(connection, workspace, run_id, outcome, forget, detours)
    _pass_over(connection, workspace.repo_uid, run_id, short, outcome)
    _take_back_refs(connection, workspace, run_id, run, outcome, forget=forget)
    _tell_missing(connection, workspace.repo_uid, outcome)
    if run is not None and not forget:
        _find_covering(connection, workspace.repo_uid, run, outcome)
    return outcome


def _tell_missing(connection: Connection, repo_uid: str, outcome: TakenBack) -> None:
    """Tell what can be taken back later from what cannot."""
    wanted = {commit_id for ids in outcome.missing.values() for commit_id in ids}
    gone = gone_for_good(connection, repo_uid, wanted) if wanted else set()
    for what, ids in outcome.missing.items():
        over = [commit_id for commit_id in ids if commit_id in gone]
        detour = outcome.detours.get(what)
        if over:
            outcome.gone.append(f"{what}: {', '.join(over)} is gone{_goes_on(detour)}")
        if detour is not None and len(over) < len(ids):
            rest = ", ".join(commit_id for commit_id in ids if commit_id not in gone)
            outcome.lost.append(f"{what}: {rest} is not back{_goes_on(detour)} until then")
        elif not over:
            outcome.lost.append(what)


def _goes_on(detour: Sequence[str] | None) -> str:
    if detour is None:
        return ""
    return f"; its history goes on at {', '.join(detour)}" if detour else "; its history ends there"


def _find_covering(
    connection: Connection, repo_uid: str, run: RunRecord, outcome: TakenBack
) -> None:
    """Wait for later runs that hide what is taken back: nothing would reach it."""
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
    above = [records.decode(row) for row in connection.execute(query)]
    # Of one that is taken back in parts, those parts count that can be.
    later = [
        one
        for one in above
        if can_be_undone(connection, repo_uid, one, needs=()) and is_waited_for(run, one)
    ]
    edits = select(run_edits.c.commit_id).where(run_edits.c.run_id == run.id)
    edited = set(connection.execute(edits).scalars())
    covered = find_covering(connection, repo_uid, edited, later, undone=True)
    for covering, hidden in covered.items():
        outcome.later.setdefault(covering, []).extend(f"the history above {one}" for one in hidden)
        edited.difference_update(hidden)
    # What else hides it is told, and not waited for: an expiration that cannot be undone any more,
    # and an undo that may never be finished.
    lasting = [
        one
        for one in above
        if one not in later and one.allows(Action.UNDO) and (one.kind == EXPIRE or one.undoing)
    ]
    for hidden in find_covering(connection, repo_uid, edited, lasting).values():
        outcome.changed.extend(f"the history above {one}: no ref reaches it" for one in hidden)
        outcome.loose.update(hidden)


def _take_back_parents(
    connection: Connection,
    workspace: Workspace,
    run_id: str,
    outcome: TakenBack,
    forget: bool,
    detours: bool,
) -> list[tuple[Row[Any], Sequence[str]]]:
    """Give commits the parents back that they had; returns the edits that need a detour.

    With the parents that are there meanwhile.
    """
    uid = workspace.repo_uid
    short: list[tuple[Row[Any], Sequence[str]]] = []
    for edit in connection.execute(select(run_edits).where(run_edits.c.run_id == run_id)).all():
        what = f"the parents of commit {edit.commit_id}"
        parents = _parents_now(connection, uid, edit.commit_id)
        old = json.loads(edit.old_parents)
        if parents == edit.old_parents and (not detours or stands(connection, uid, old)):
            pass
        elif parents not in (edit.old_parents, edit.new_parents) and not is_detour(
            connection, uid, run_id, edit.commit_id, parents
        ):
            editor = find_editor(connection, uid, run_id, edit.commit_id, parents)
            if editor is None:
                outcome.changed.append(what)
                outcome.loose.update(old)
            else:
                outcome.later.setdefault(editor, []).append(what)
            continue
        elif stands(connection, uid, old):
            history_edit.set_parents(connection, uid, edit.commit_id, old, marked=edit.was_marked)
        elif detours:
            short.append((edit, json.loads(parents or "[]")))
            continue
        else:
            outcome.missing[what] = old
            outcome.loose.update(old)
            continue
        outcome.restored.append(what)
        if forget:
            connection.execute(
                delete(run_edits).where(
                    run_edits.c.run_id == run_id, run_edits.c.commit_id == edit.commit_id
                )
            )
    return short


def _pass_over(
    connection: Connection,
    repo_uid: str,
    run_id: str,
    short: Sequence[tuple[Row[Any], Sequence[str]]],
    outcome: TakenBack,
) -> None:
    """Give commits those of their old parents that are live, and ancestors of the others.

    Each is given by its edit, with the parents that it has now. It stays an edited one, of this
    run. Nothing that it reaches now gets out of reach.
    """
    ways = {edit.commit_id: [*json.loads(edit.old_parents), *parents] for edit, parents in short}
    detours = find_detours(connection, repo_uid, ways)
    for edit, _ in short:
        old = tuple(SnapshotId(parent) for parent in json.loads(edit.old_parents))
        new = detours[edit.commit_id]
        commits.hold(connection, repo_uid, new)
        history_edit.set_parents(connection, repo_uid, edit.commit_id, new, marked=True)
        history_edit.note_edit(
            connection, run_id, edit.commit_id, old=old, new=new, was_marked=edit.was_marked
        )
        what = f"the parents of commit {edit.commit_id}"
        outcome.missing[what] = [one for one in old if not stands(connection, repo_uid, [one])]
        outcome.detours[what] = new


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
        what = f"the {ref.kind} {ref.name}"
        named = find_named(connection, uid, ref.name)
        if named == ref.commit_id:
            # Somebody made it anew: its record stays, for it is not this run's to delete.
            if not forget:
                _forget_ref(connection, ref)
            continue
        if named is not None:
            outcome.changed.append(what)
            outcome.loose.add(ref.commit_id)
        elif run and (deleter := find_deleter(connection, uid, run, ref.name, ref.commit_id)):
            outcome.later.setdefault(deleter, []).append(what)
        elif stands(connection, uid, [ref.commit_id]):
            insert = refs.insert_branch if ref.kind == RefKind.BRANCH else refs.insert_tag
            insert(connection, uid, ref.name, ref.commit_id, workspace.now())
            outcome.restored.append(what)
            _forget_ref(connection, ref)
        else:
            outcome.missing[what] = [ref.commit_id]


def _forget_ref(connection: Connection, ref: Row[Any]) -> None:
    """Remove the record of a ref that is back: who deletes it from now on means it."""
    connection.execute(
        delete(run_refs).where(
            run_refs.c.run_id == ref.run_id,
            run_refs.c.kind == ref.kind,
            run_refs.c.name == ref.name,
        )
    )


def _parents_now(connection: Connection, repo_uid: str, commit_id: str) -> str | None:
    """The parents of a commit as they are written; None if the commit was collected."""
    query = select(commit_rows.c.parents).where(
        commit_rows.c.repo_uid == repo_uid,
        commit_rows.c.id == commit_id,
        commit_rows.c.state != CommitState.COLLECTED,
    )
    return connection.execute(query.with_for_update()).scalar()
