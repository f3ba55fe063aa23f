"""``reclaim runs``: what was done to repositories."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypedDict, cast

import typer

from reclaim.cli.command import command
from reclaim.cli.describe import history_edit, instant, objects, size
from reclaim.cli.output import Block, Table
from reclaim.cli.session import Session
from reclaim.cli.store_names import STORE
from reclaim.model import (
    CHECKPOINT,
    EDITED_BY_LIBRARY,
    LIFECYCLE,
    LISTS,
    PLAN_DIGEST,
    RELEASED_BY_LIBRARY,
    RunState,
)

if TYPE_CHECKING:
    from reclaim.model import Run
    from reclaim.stores.abilities import OnlineDeletes

FILES = (CHECKPOINT, LISTS, PLAN_DIGEST, RELEASED_BY_LIBRARY)
"""Facts in a record that name files of the run."""
_OFFSET = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?\+00:00")


def register(app: typer.Typer) -> None:
    command(app, "runs", runs)


Quarantined = Literal["moved", "marked"]


class RunDocument(TypedDict):
    """A run, as its record tells."""

    id: str
    repository: str
    kind: str
    """collect, expire, purge or adopt; unreadable if its record is damaged."""
    state: RunState
    started_at: datetime
    summary: Mapping[str, Any]
    """Its record: counts, and facts that later runs need."""
    plan: str | None
    quarantine: Quarantined | None
    until: datetime | None


class OnlineDocument(TypedDict):
    """The objects that a repository deletes without a run."""

    repository: str
    on: bool
    objects: int
    bytes: int
    last_at: datetime | None
    due: int
    oldest: datetime | None


class LateDocument(TypedDict):
    """A repository whose last finished run is too old."""

    repository: str
    message: str
    hint: str


class RunsDocument(TypedDict):
    """Runs of repositories and stores."""

    runs: Sequence[RunDocument]
    online: Sequence[OnlineDocument]
    """What repositories delete online, without a run."""
    late: Sequence[LateDocument]
    """Repositories whose last finished run is too old."""


@dataclass(frozen=True, slots=True)
class Runs:
    """The answer that lists runs, by repository."""

    runs: Sequence[tuple[str, Run]]
    named: bool
    """Whether all are of one repository, which was named."""
    nouns: Mapping[str, str]
    """The word of each repository for its snapshots."""
    online: Sequence[tuple[str, OnlineDeletes]] = ()
    """Deletes of stores without a run, by repository; of those that do so, or did."""
    late: Sequence[tuple[str, str, str]] = ()
    """Repositories whose last finished run is too old: what is late, and what to do."""

    def document(self) -> RunsDocument:
        return {
            "runs": [
                {
                    "id": run.id,
                    "repository": repository,
                    "kind": run.kind,
                    "state": cast(RunState, run.state),
                    "started_at": run.started_at,
                    "summary": _in_utc(dict(run.summary)),
                    "plan": run.place or None,
                    "quarantine": cast(Quarantined, run.quarantine.removal)
                    if run.quarantine
                    else None,
                    "until": run.quarantine.until if run.quarantine else None,
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
                {"repository": repository, "message": said, "hint": hint}
                for repository, said, hint in self.late
            ],
        }

    def view(self) -> Iterable[Block]:
        rows = (
            (
                run.id,
                *([] if self.named else [repository]),
                run.kind,
                run.state,
                instant(run.started_at),
                _what(run, self.nouns[repository]),
            )
            for repository, run in self.runs
        )
        names = [] if self.named else ["repository"]
        yield Table(("run", *names, "kind", "state", "started (UTC)", "what"), rows)
        for repository, deletes in self.online:
            of = "" if self.named else f" of {repository}"
            yield (
                f"Deleted online{of}, because nothing referred to it any more: "
                f"{objects(deletes.objects)} ({size(deletes.bytes)}); {deletes.due} are due."
            )
        for repository, said, hint in self.late:
            yield f"Note: {repository}: {said}; {hint}."


def _in_utc(value: Any) -> Any:
    """A record in which every time ends with Z; those of older versions ended with an offset."""
    if isinstance(value, dict):
        return {name: _in_utc(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_in_utc(item) for item in value]
    if isinstance(value, str) and _OFFSET.fullmatch(value):
        return value.removesuffix("+00:00") + "Z"
    return value


def _what(run: Run, noun: str) -> str:
    from reclaim.run.edit_counts import EditCounts

    done = run.summary
    if run.kind not in ("collect", "purge"):
        return ", ".join(f"{key} {_short(value)}" for key, value in done.items() if value)
    if not done:
        return "not finished: apply it again" if run.state == "started" else ""
    if done.get(EDITED_BY_LIBRARY) and not run.promoted:
        more = " or undo it" if run.quarantine else ""
        return f"the store's library edited the history; not finished: apply it again{more}"
    if not any(value for name, value in done.items() if name not in FILES):
        return "nothing to collect"
    what = f"{objects(done.get('objects', 0))} ({size(done.get('bytes', 0))})"
    said = [f"moved {what} to quarantine" if done.get("quarantine") else f"deleted {what}"]
    others = ("failed", "dropped", "collected")
    said += [f"{name} {done[name]}" for name in others if done.get(name)]
    if edit := history_edit(EditCounts.of_record(done), noun):
        took_back = run.state == "undone" and run.quarantine is None
        said.append(f"{edit}, taken back" if took_back else edit)
    if isinstance(by_rules := done.get(LIFECYCLE), dict):
        said.append(f"by lifecycle rules {', '.join(map(str, by_rules.get('rules', ())))}")
    if globs := done.get("exclude"):
        said.append(f"left out {done.get('excluded', 0)} by --exclude {' '.join(globs)}")
    if run.purging:
        said.append("being purged: purge again to finish it")
    elif run.quarantine is not None and run.quarantine.until is not None:
        said.append(f"kept until {instant(run.quarantine.until)}")
    return ", ".join(said)


def _short(value: Any) -> str:
    return " ".join(value) if isinstance(value, list) else json.dumps(value)


def runs(
    session: Session,
    store: Annotated[
        str | None, typer.Argument(metavar="STORE", help=f"{STORE} Default: all of the catalog.")
    ] = None,
) -> None:
    """List what changed history or deleted bytes, the newest first."""
    from reclaim.run.lateness import find_lateness
    from reclaim.stores.abilities import DeletesOnline

    with session.stores(store) as stores:
        nouns = {opened.name: opened.noun for opened in stores}
        listed = [(opened.name, run) for opened in stores for run in opened.runs()]
        late = [
            (opened.name, *found)
            for opened in stores
            if (found := find_lateness(opened, opened.runs())) is not None
        ]
        online = [
            (opened.name, deletes)
            for opened in stores
            if isinstance(opened, DeletesOnline)
            and ((deletes := opened.online_deletes()).on or deletes.objects)
        ]
    listed.sort(key=lambda row: row[1].started_at, reverse=True)
    session.output.answer(Runs(listed, store is not None, nouns, online, late))
