"""Taking an edit of the history back: parents and refs, where they are as the run left them.

Runs that edited the same commit or deleted a ref of the same name are taken back in turn, the
newest first: what a later run left waits for the undo of that run. So does what a later run hides.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection, Row, delete, exists, or_, select

from reclaim.catalog.collection import history_edit, records
from reclaim.catalog.collection.covering import find_covering
from reclaim.catalog.collection.detours import find_detours
from reclaim.catalog.collection.promised import gone_for_good
from reclaim.catalog.database.schema import CommitState, branches, run_edits, run_refs, runs, tags
from reclaim.catalog.database.schema import commits as commit_rows
from reclaim.catalog.refs import commits, refs
from reclaim.catalog.workspace import Workspace
from reclaim.clock import to_micros
from reclaim.errors import TransactionFailed
from reclaim.model import RefKind, Run, RunState, SnapshotId

EXPIRE = "expire"
"""The kind of run that only edits history."""
EARLY = (RunState.STARTED, RunState.STOPPED)


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


def _find_covering(connection: Connection, repo_uid: str, run: Run, outcome: TakenBack) -> None:
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
    later = [one for one in above if _can_be_undone(connection, repo_uid, one, needs=())]
    edits = select(run_edits.c.commit_id).where(run_edits.c.run_id == run.id)
    edited = set(connection.execute(edits).scalars())
    covered = find_covering(connection, repo_uid, edited, later, undone=True)
    for covering, hidden in covered.items():
        outcome.later.setdefault(covering, []).extend(f"the history above {one}" for one in hidden)
        edited.difference_update(hidden)
    # What an expiration hides that cannot be undone any more is told, and not waited for.
    lasting = [one for one in above if one.kind == EXPIRE and one not in later and _is_open(one)]
    for hidden in find_covering(connection, repo_uid, edited, lasting).values():
        outcome.changed.extend(f"the history above {one}" for one in hidden)
        outcome.loose.update(hidden)


def _take_back_parents(
    connection: Connection,
    workspace: Workspace,
    run_id: str,
    outcome: TakenBack,
    forget: bool,
    detours: bool,
) -> list[Row[Any]]:
    """Give commits the parents back that they had; returns the edits that need a detour."""
    uid = workspace.repo_uid
    short: list[Row[Any]] = []
    for edit in connection.execute(select(run_edits).where(run_edits.c.run_id == run_id)).all():
        what = f"the parents of commit {edit.commit_id}"
        parents = _parents_now(connection, uid, edit.commit_id)
        old = json.loads(edit.old_parents)
        if parents == edit.old_parents and (not detours or stands(connection, uid, old)):
            pass
        elif parents not in (edit.old_parents, edit.new_parents):
            editor = _editor(connection, uid, run_id, edit.commit_id, parents)
            if editor is None:
                outcome.changed.append(what)
                outcome.loose.update(old)
            else:
                outcome.later.setdefault(editor, []).append(what)
            continue
        elif stands(connection, uid, old):
            history_edit.set_parents(connection, uid, edit.commit_id, old, marked=edit.was_marked)
        elif detours:
            short.append(edit)
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
    short: Sequence[Row[Any]],
    outcome: TakenBack,
) -> None:
    """Give commits those of their old parents that are live, and ancestors of the others.

    They stay edited ones, of this run. Nothing that they reach now gets out of reach.
    """
    ways = {
        edit.commit_id: [*json.loads(edit.old_parents), *json.loads(edit.new_parents)]
        for edit in short
    }
    detours = find_detours(connection, repo_uid, ways)
    for edit in short:
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
    run: Run | None,
    outcome: TakenBack,
    *,
    forget: bool,
) -> None:
    uid = workspace.repo_uid
    for ref in connection.execute(select(run_refs).where(run_refs.c.run_id == run_id)).all():
        what = f"the {ref.kind} {ref.name}"
        named = _named(connection, uid, ref.name)
        if named == ref.commit_id:
            # Somebody made it anew: its record stays, for it is not this run's to delete.
            continue
        if named is not None:
            outcome.changed.append(what)
            outcome.loose.add(ref.commit_id)
        elif run and (deleter := _deleter(connection, uid, run, ref.name, ref.commit_id)):
            outcome.later.setdefault(deleter, []).append(what)
        elif stands(connection, uid, [ref.commit_id]):
            insert = refs.insert_branch if ref.kind == RefKind.BRANCH else refs.insert_tag
            insert(connection, uid, ref.name, ref.commit_id, workspace.now())
            outcome.restored.append(what)
            if forget:
                connection.execute(
                    delete(run_refs).where(
                        run_refs.c.run_id == run_id,
                        run_refs.c.kind == ref.kind,
                        run_refs.c.name == ref.name,
                    )
                )
        else:
            outcome.missing[what] = [ref.commit_id]


def _editor(
    connection: Connection, repo_uid: str, run_id: str, commit_id: str, parents: str | None
) -> str | None:
    """Another run that gave a commit the parents that it has now, and can be undone."""
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
        needs = json.loads(row.old_parents)
        if _can_be_undone(connection, repo_uid, records.decode(row), needs=needs):
            return str(row.id)
    return None


def _deleter(
    connection: Connection, repo_uid: str, run: Run, name: str, commit_id: str
) -> str | None:
    """A later run that deleted a ref of the same name at another commit, and can be undone.

    Each of the two saw the ref that it deleted when it was planned, so their times tell the order.
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
        if _can_be_undone(connection, repo_uid, records.decode(row), needs=[row.commit_id]):
            return str(row.id)
    return None


def _can_be_undone(
    connection: Connection, repo_uid: str, run: Run, *, needs: Collection[str]
) -> bool:
    """Whether a part of a run's edit, which ``needs`` some commits, can still be taken back.

    An expiration, and a run that stopped, is taken back whole or refused, so not if a part of it
    is gone. One that is done and put nothing in quarantine is taken back in parts.
    """
    if not _is_open(run):
        return False
    if run.quarantine is not None:
        return True
    if run.kind == EXPIRE or run.state in EARLY:
        return not _leads_to_gone(connection, repo_uid, run.id)
    return run.state == RunState.DONE and not gone_for_good(connection, repo_uid, needs)


def _is_open(run: Run) -> bool:
    return run.state not in (RunState.UNDONE, RunState.PURGED)


def _leads_to_gone(connection: Connection, repo_uid: str, run_id: str) -> bool:
    """Whether an edit, where it is as the run left it, hides what nobody can bring back."""
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
    hidden = {one for text in connection.execute(edits).scalars() for one in json.loads(text)}
    for ref in connection.execute(select(run_refs).where(run_refs.c.run_id == run_id)).all():
        if _named(connection, repo_uid, ref.name) is None:
            hidden.add(ref.commit_id)
    return bool(hidden and gone_for_good(connection, repo_uid, hidden))


def stands(connection: Connection, repo_uid: str, ids: list[str]) -> bool:
    """Whether commits are live; then they are held until the transaction ends."""
    try:
        commits.hold(connection, repo_uid, ids)
    except TransactionFailed:
        return False
    return True


def _parents_now(connection: Connection, repo_uid: str, commit_id: str) -> str | None:
    """The parents of a commit as they are written; None if the commit was collected."""
    query = select(commit_rows.c.parents).where(
        commit_rows.c.repo_uid == repo_uid,
        commit_rows.c.id == commit_id,
        commit_rows.c.state != CommitState.COLLECTED,
    )
    return connection.execute(query.with_for_update()).scalar()


def _named(connection: Connection, repo_uid: str, name: str) -> str | None:
    """The commit that a branch or tag of a name points at."""
    for table, column in ((branches, branches.c.head), (tags, tags.c.commit_id)):
        query = select(column).where(table.c.repo_uid == repo_uid, table.c.name == name)
        if (commit := connection.execute(query).scalar()) is not None:
            return str(commit)
    return None
