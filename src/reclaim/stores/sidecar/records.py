"""Records of runs as objects: what was done to a store, when, and with what outcome."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from reclaim.errors import Corrupt, NotFound
from reclaim.model import OPERATORS, Operator, Run, RunState
from reclaim.operators import with_current
from reclaim.storage import Storage
from reclaim.stores.sidecar.files import (
    Unreadable,
    damaged,
    read_document,
    text_in,
    time_in,
    write_document,
)

UNREADABLE = RunState.UNREADABLE
"""The state of a run whose record cannot be read; what it has set aside stays aside."""
FILE = "run.json"


log = logging.getLogger(__name__)


class Records:
    """The runs of a store, each in the folder of its plan."""

    def __init__(self, storage: Storage, prefix: str) -> None:
        self._storage = storage
        self._prefix = prefix

    def start(self, run: Run) -> None:
        """Record that a run has started; one that was started before goes on."""
        before = self.find(run.id)
        self._write(
            run if before is None else replace(before, state=run.state, summary=run.summary)
        )

    def find(self, run_id: str) -> Run | None:
        try:
            return _decode(run_id, read_document(self._storage, self._address(run_id)))
        except NotFound:
            return None
        except Unreadable as error:
            raise damaged(
                self._storage,
                self._address(run_id),
                f"the record of run {run_id}",
                error,
                hint="restore the file from a backup; or remove the file, and apply the plan of "
                "the run again before anything else: then the run can be undone",
            ) from error

    def all(self) -> list[Run]:
        """The newest first. One whose record cannot be read is among them, and says so."""
        folders, _ = self._storage.folders(self._prefix.rstrip("/"))
        found = (self._look(folder.rpartition("/")[2]) for folder in folders)
        return sorted((run for run in found if run), key=lambda run: run.started_at, reverse=True)

    def _look(self, run_id: str) -> Run | None:
        try:
            return self.find(run_id)
        except Corrupt as error:
            log.warning("%s; %s", error.message, error.hint)
            when = self._storage.head(self._address(run_id)).last_modified
            summary = {"error": error.message, "hint": error.hint}
            return Run(run_id, UNREADABLE, UNREADABLE, when, summary)

    def finish(self, run_id: str, state: RunState, summary: Mapping[str, Any]) -> None:
        run = self.find(run_id)
        if run is not None:
            self._write(replace(run, state=state, summary=summary))

    def _write(self, run: Run) -> None:
        operators = with_current(run.operators)
        told = {
            "kind": run.kind,
            "state": run.state,
            "started_at": run.started_at.isoformat(),
            "summary": dict(run.summary),
            "place": run.place,
            OPERATORS: [operator.record() for operator in operators],
        }
        write_document(self._storage, self._address(run.id), told)

    def _address(self, run_id: str) -> str:
        return f"{self._prefix}{run_id}/{FILE}"


def _decode(run_id: str, document: Mapping[str, Any]) -> Run:
    summary = document.get("summary")
    if not isinstance(summary, dict):
        raise Unreadable("summary is not an object")
    kind, state, place = (text_in(document, name) for name in ("kind", "state", "place"))
    started_at = time_in(document, "started_at")
    try:
        operators = Operator.all_of(document.get(OPERATORS, ()))
        return Run(run_id, kind, state, started_at, summary, place, operators)
    except ValueError as error:
        raise Unreadable(str(error)) from error
