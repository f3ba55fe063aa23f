"""A run: a change of the history of a store, or a deletion of objects."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from reclaim.api.options import allow_missing
from reclaim.errors import InvalidInput, NotFound
from reclaim.ids import short
from reclaim.run.apply.applied import Applied
from reclaim.run.apply.finished_plan import FinishedPlan
from reclaim.run.purge.purge import Purged, purge
from reclaim.run.undo.undo_run import Undone, needs_engine, undo_run
from reclaim.run_record import Phase, RunRecord
from reclaim.text import size

if TYPE_CHECKING:
    from reclaim.api.store import OpenStore
    from reclaim.stores.base import Store

LATEST = "latest"
SHORTEST = 4
"""Fewest digits of an id to name a run."""
OTHER_STORE = "a run of another store than the catalog's needs --store SCHEME:LOCATION"

_WHOLE = re.compile(r"[0-9a-f]{32}")
_START = re.compile(r"[0-9a-f]+")


class Run:
    """A run of a store, from its record."""

    def __init__(
        self,
        store: OpenStore,
        record: RunRecord,
        applied: Applied | None = None,
        settled: FinishedPlan | None = None,
    ) -> None:
        self._store = store
        self.record = record
        self.applied = applied
        """Result of an apply in this process."""
        self.settled = settled
        """Set if the apply had nothing to do."""

    @classmethod
    def of(
        cls,
        store: OpenStore,
        run_id: str,
        applied: Applied | None = None,
        *,
        settled: FinishedPlan | None = None,
    ) -> Run:
        """Return the run of a recorded id."""
        record = store.store.find_run(run_id)
        if record is None:
            raise NotFound(f"there is no run {run_id} of {store.name}", hint="see `reclaim runs`")
        return cls(store, record, applied, settled)

    def __repr__(self) -> str:
        return (
            f"<Run {short(self.id)} of {self._store.name}: {self.kind}, {self.phase}, "
            f"{self.objects:,} objects, {size(self.bytes)}>"
        )

    @property
    def store(self) -> OpenStore:
        return self._store

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def kind(self) -> str:
        return self.record.kind

    @property
    def phase(self) -> Phase:
        return self.record.phase

    @property
    def started_at(self) -> datetime:
        return self.record.started_at

    @property
    def finished_at(self) -> datetime | None:
        return self.record.finished_at

    @property
    def objects(self) -> int:
        """Objects deleted or moved to quarantine."""
        return self.record.counts.objects

    @property
    def bytes(self) -> int:
        return self.record.counts.bytes

    @property
    def quarantined_until(self) -> datetime | None:
        """End of the quarantine; None without a quarantine."""
        return self.record.quarantine.until if self.record.quarantine else None

    def undo(self) -> Undone:
        """Restore quarantined objects and revert the edit of the history. Safe to run again."""
        opened = self._store
        local = not needs_engine(opened.store, self.record)
        with opened.work.begin(local=local) as (engine, watch):
            done = undo_run(opened.store, engine, self.id, watcher=watch)
        self._refresh()
        return done

    def purge(self, *, unsafe_allow_missing_layers: bool = False) -> Purged | None:
        """Delete quarantined objects for good, before the end of the quarantine."""
        opened = self._store
        allow_missing(opened.store, asked=unsafe_allow_missing_layers)
        with opened.work.begin() as (engine, watch):
            done = purge(opened.store, engine, run_id=self.id, watcher=watch)
        self._refresh()
        return done

    def _refresh(self) -> None:
        self.record = self._store.store.find_run(self.id) or self.record


def is_whole(name: str) -> bool:
    """Return whether a name is a complete id."""
    return _WHOLE.fullmatch(name) is not None


def find_id(stores: Sequence[Store], name: str) -> str:
    """Return the id of a run of some stores by its id, the start of its id, or ``latest``."""
    if is_whole(name):
        return name
    if name != LATEST and not (_START.fullmatch(name) and len(name) >= SHORTEST):
        raise NotFound(
            f"there is no run {name!r}",
            hint=f"give its id, {SHORTEST} or more of its first digits, or `{LATEST}`; "
            f"see `reclaim runs`; {OTHER_STORE}",
        )
    runs = [(store, run) for store in stores for run in store.runs()]
    if name == LATEST:
        if not runs:
            raise NotFound("there is no run yet", hint=OTHER_STORE)
        return max(runs, key=lambda listed: listed[1].started_at)[1].id
    fitting = [(store, run) for store, run in runs if run.id.startswith(name)]
    if not fitting:
        raise NotFound(f"there is no run {name}", hint=f"see `reclaim runs`; {OTHER_STORE}")
    if len(fitting) > 1:
        listed = ", ".join(_described(store, run) for store, run in fitting)
        raise InvalidInput(
            f"several runs start with {name}: {listed}",
            hint="give more of the id",
            runs=[run.id for _, run in fitting],
        )
    return fitting[0][1].id


def _described(store: Store, run: RunRecord) -> str:
    return f"{short(run.id)} ({run.kind} of {store.name}, {run.started_at:%Y-%m-%d %H:%M:%S} UTC)"
