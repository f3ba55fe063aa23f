"""``reclaim runs``: runs of repositories and stores."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, cast

import typer

from reclaim.cli.command import command
from reclaim.cli.options.store_names import STORE
from reclaim.cli.session import Session
from reclaim.cli.views.describe import history_edit, instant, objects
from reclaim.cli.views.output import Block, Table
from reclaim.ids import short
from reclaim.run_record import COLLECT, EARLY, EXPIRE, PURGE, Phase, RunRecord
from reclaim.text import size

if TYPE_CHECKING:
    from reclaim.lock import LockState
    from reclaim.stores.abilities import OnlineDeletes


def register(app: typer.Typer) -> None:
    command(app, "runs", runs)


Quarantined = Literal["moved", "marked"]


class OperatorDocument(TypedDict):
    """Operator of a run, and the command; URLs have no passwords and tokens."""

    user: str
    host: str
    command: str


class RunDocument(TypedDict):
    """A recorded run."""

    id: str
    repository: str
    kind: str
    """collect, expire, purge or adopt; unreadable if its record is damaged."""
    state: Phase
    started_at: datetime
    summary: Mapping[str, Any]
    """Counts, and facts for later runs."""
    plan: str | None
    quarantine: Quarantined | None
    until: datetime | None
    operators: Sequence[OperatorDocument]
    """Operators of the run, in order."""
    locked_until: datetime | None
    """End of the lock held by the run, unless renewed."""


class OnlineDocument(TypedDict):
    """Objects of a repository deleted without a run."""

    repository: str
    on: bool
    objects: int
    bytes: int
    last_at: datetime | None
    due: int
    oldest: datetime | None


class LateDocument(TypedDict):
    """A repository with an overdue run."""

    repository: str
    message: str
    hint: str


class RunsDocument(TypedDict):
    """Runs of repositories and stores."""

    runs: Sequence[RunDocument]
    online: Sequence[OnlineDocument]
    """Online deletes of repositories, without a run."""
    late: Sequence[LateDocument]
    """Repositories with an overdue run."""


@dataclass(frozen=True, slots=True)
class Runs:
    """Answer that lists runs, by repository."""

    runs: Sequence[tuple[str, RunRecord]]
    named: bool
    """Whether all runs are of a named repository."""
    nouns: Mapping[str, str]
    """Noun for the snapshots of each repository."""
    locks: Mapping[str, LockState]
    """Locks of repositories, except free locks."""
    online: Sequence[tuple[str, OnlineDeletes]] = ()
    """Online deletes by repository, present and past."""
    late: Sequence[tuple[str, str, str]] = ()
    """Repositories with an overdue run: name, message and hint."""

    def document(self) -> RunsDocument:
        return {
            "runs": [
                {
                    "id": run.id,
                    "repository": repository,
                    "kind": run.kind,
                    "state": run.phase,
                    "started_at": run.started_at,
                    "summary": run.summary(),
                    "operators": [
                        cast(OperatorDocument, operator.document()) for operator in run.operators
                    ],
                    "plan": run.place or None,
                    "quarantine": cast(Quarantined, run.quarantine.removal)
                    if run.quarantine
                    else None,
                    "until": run.quarantine.until if run.quarantine else None,
                    "locked_until": lock.free_at
                    if (lock := self._lock_of(repository, run)) is not None
                    else None,
                }
                for repository, run in self.runs
            ],
            "online": [
                {
                    "repository": repository,
                    "on": deletes.on,
                    "objects": deletes.objects,
                    "bytes": deletes.bytes,
                    "last_at": deletes.last_at,
                    "due": deletes.due,
                    "oldest": deletes.oldest,
                }
                for repository, deletes in self.online
            ],
            "late": [
                {"repository": repository, "message": message, "hint": hint}
                for repository, message, hint in self.late
            ],
        }

    def _lock_of(self, repository: str, run: RunRecord) -> LockState | None:
        """Return the lock of a run, or None."""
        lock = self.locks.get(repository)
        return lock if lock is not None and lock.run == run.id else None

    def view(self) -> Iterable[Block]:
        rows = (
            (
                short(run.id),
                *([] if self.named else [repository]),
                run.kind,
                run.phase,
                instant(run.started_at),
                _described(run, self.nouns[repository], self._lock_of(repository, run)),
            )
            for repository, run in self.runs
        )
        names = [] if self.named else ["repository"]
        columns = ("run", *names, "kind", "state", "started (UTC)", "result")
        yield Table(columns, rows, last_below=True)
        for repository, deletes in self.online:
            of = "" if self.named else f" of {repository}"
            yield (
                f"Deleted online{of}, because of no references: "
                f"{objects(deletes.objects)} ({size(deletes.bytes)}); {deletes.due} are due."
            )
        for repository, message, hint in self.late:
            yield f"Note: {repository}: {message}; {hint}."


def _is_empty(run: RunRecord) -> bool:
    """Whether a run deleted nothing and edited no history."""
    without_plan = replace(run, lists=None, plan="", checkpoint=None)
    return without_plan == RunRecord(run.id, run.kind, run.phase, run.started_at, run.place)


def _described(run: RunRecord, noun: str, lock: LockState | None) -> str:
    return ", ".join(filter(None, (_what(run, noun), _unfinished(run, lock))))


def _what(run: RunRecord, noun: str) -> str:

    if run.kind == EXPIRE:
        return _edited(run, noun) or "the history stays as it is"
    if run.kind not in (COLLECT, PURGE):
        return ", ".join(f"{key} {_short(value)}" for key, value in run.summary().items() if value)
    if run.edit.by_library and not run.promoted:
        more = " or undo it" if run.quarantine else ""
        return f"the store's library edited the history; not finished: apply it again{more}"
    counts = run.counts
    if (
        run.phase in EARLY
        and run.phase is not Phase.STOPPED
        and not (counts.objects or counts.bytes)
    ):
        return ""
    if _is_empty(run):
        return "nothing to collect"
    amount = f"{objects(counts.objects)} ({size(counts.bytes)})"
    parts = [f"moved {amount} to quarantine" if run.promised else f"deleted {amount}"]
    others = {"failed": counts.failed, "dropped": counts.dropped, "collected": counts.collected}
    parts += [f"{name} {count}" for name, count in others.items() if count]
    if edit := _edited(run, noun):
        parts.append(edit)
    if run.lifecycle is not None:
        parts.append(f"by lifecycle rules {', '.join(run.lifecycle.rules)}")
    if globs := run.left_out.globs:
        parts.append(f"left out {run.left_out.objects} by --exclude {' '.join(globs)}")
    if run.purging:
        parts.append("being purged: purge again to finish it")
    elif run.quarantine is not None and run.quarantine.until is not None:
        parts.append(f"kept until {instant(run.quarantine.until)}")
    return ", ".join(parts)


def _edited(run: RunRecord, noun: str) -> str:
    edit = history_edit(run.edit.counts, noun)
    took_back = run.phase is Phase.UNDONE and run.quarantine is None
    return f"{edit}, undone" if edit and took_back else edit


def _unfinished(run: RunRecord, lock: LockState | None) -> str:
    """Describe the remaining work of a run, and its lock."""
    if lock is not None and (why := lock.why_not_released()):
        return f"holds the lock until {instant(lock.free_at)}: {why}"
    if lock is None and (not run.unfinished or run.purging or run.kind not in (COLLECT, PURGE)):
        return ""
    if lock is None and run.edit.by_library and not run.promoted:
        # Described with the edit of the library.
        return ""
    if run.kind == PURGE:
        # The next purge is a new run.
        again = "purge again" if run.phase is Phase.STARTED else ""
    else:
        again = "undo it again" if run.undoing else "apply it again"
    if lock is not None:
        free = f"or wait until {instant(lock.free_at)}"
        return f"died: release its lock (reclaim lock release) {free}; then {again}"
    return f"not finished: {again}" if again else ""


def _short(value: Any) -> str:
    return " ".join(value) if isinstance(value, list) else json.dumps(value)


def runs(
    session: Session,
    store: Annotated[
        str | None, typer.Argument(metavar="STORE", help=f"{STORE} Default: all of the catalog.")
    ] = None,
) -> None:
    """List runs that changed history or deleted bytes, newest first."""
    from reclaim.run.doctor.last_run import find_overdue
    from reclaim.stores.abilities import DeletesOnline

    with session.stores(store) as stores:
        nouns = {opened.name: opened.noun for opened in stores}
        locks = {opened.name: lock for opened in stores if (lock := opened.lock_state())}
        listed = [(opened.name, run) for opened in stores for run in opened.runs()]
        late = [
            (opened.name, *message_and_hint)
            for opened in stores
            if (message_and_hint := find_overdue(opened, opened.runs())) is not None
        ]
        online = [
            (opened.name, deletes)
            for opened in stores
            if isinstance(opened, DeletesOnline)
            and ((deletes := opened.online_deletes()).on or deletes.objects)
        ]
    listed.sort(key=lambda row: row[1].started_at, reverse=True)
    session.output.answer(Runs(listed, store is not None, nouns, locks, online, late))
