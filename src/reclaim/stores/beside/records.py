"""Records of runs as objects: what was done to a store, when, and with what outcome."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from reclaim.errors import NotFound
from reclaim.model import Run, RunState
from reclaim.storage import Storage

FILE = "run.json"


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
            return _decode(run_id, self._storage.get(self._address(run_id)))
        except NotFound:
            return None

    def all(self) -> list[Run]:
        """The newest first."""
        folders, _ = self._storage.folders(self._prefix.rstrip("/"))
        found = (self.find(folder.rpartition("/")[2]) for folder in folders)
        return sorted((run for run in found if run), key=lambda run: run.started_at, reverse=True)

    def finish(self, run_id: str, state: RunState, summary: Mapping[str, Any]) -> None:
        run = self.find(run_id)
        if run is not None:
            self._write(replace(run, state=state, summary=summary))

    def _write(self, run: Run) -> None:
        told = {
            "kind": run.kind,
            "state": run.state,
            "started_at": run.started_at.isoformat(),
            "summary": dict(run.summary),
            "place": run.place,
        }
        self._storage.put(self._address(run.id), json.dumps(told).encode())

    def _address(self, run_id: str) -> str:
        return f"{self._prefix}{run_id}/{FILE}"


def _decode(run_id: str, data: bytes) -> Run:
    told = json.loads(data)
    started_at = datetime.fromisoformat(told["started_at"])
    return Run(run_id, told["kind"], told["state"], started_at, told["summary"], told["place"])
