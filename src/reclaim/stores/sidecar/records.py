"""Records of runs as objects: changes to a store, their times and outcomes."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

from reclaim.errors import Corrupt, NotFound
from reclaim.operators import with_current
from reclaim.run_record import RunRecord, decode, unreadable
from reclaim.storage import Storage
from reclaim.stores.sidecar.files import Unreadable, damaged, read_document, write_document

FILE = "run.json"

log = logging.getLogger(__name__)


class Records:
    """Runs of a store, each in the folder of its plan."""

    def __init__(self, storage: Storage, prefix: str) -> None:
        self._storage = storage
        self._prefix = prefix

    def start(self, run: RunRecord) -> None:
        """Record the start of a run, or its continuation.

        An unreadable record is not overwritten.
        """
        self.find(run.id)
        self._write(run)

    def find(self, run_id: str) -> RunRecord | None:
        try:
            document = read_document(self._storage, self._address(run_id))
            return decode(document | {"id": run_id})
        except NotFound:
            return None
        except (Unreadable, ValueError) as error:
            raise damaged(
                self._storage,
                self._address(run_id),
                f"the record of run {run_id}",
                error,
                hint="restore the file from a backup; or remove the file, and apply the plan of "
                "the run again before anything else: then the run can be undone",
            ) from error

    def all(self) -> list[RunRecord]:
        """All runs, newest first. Unreadable records are included and marked."""
        folders, _ = self._storage.folders(self._prefix.rstrip("/"))
        runs = (self._find_or_mark(folder.rpartition("/")[2]) for folder in folders)
        return sorted((run for run in runs if run), key=lambda run: run.started_at, reverse=True)

    def _find_or_mark(self, run_id: str) -> RunRecord | None:
        try:
            return self.find(run_id)
        except Corrupt as error:
            log.warning("%s; %s", error.message, error.hint)
            when = self._storage.head(self._address(run_id)).last_modified
            return unreadable(run_id, when, error.message, error.hint or "")

    def finish(self, run: RunRecord) -> None:
        if self.find(run.id) is not None:
            self._write(run)

    def _write(self, run: RunRecord) -> None:
        record = replace(run, operators=with_current(run.operators))
        write_document(self._storage, self._address(run.id), json.loads(record.encode()))

    def _address(self, run_id: str) -> str:
        return f"{self._prefix}{run_id}/{FILE}"
