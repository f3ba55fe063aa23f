"""Lists of condemned snapshots: for each run, ids with the rule removing each snapshot.

All lists of a run form a single object, so a snapshot moves between lists in a single write: every
reader finds it on exactly one list.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from reclaim.errors import NotFound
from reclaim.model import SnapshotId
from reclaim.storage import Storage
from reclaim.stores.sidecar.files import (
    PART,
    SUFFIX,
    Unreadable,
    damaged,
    read_document,
    write_document,
)

LARGEST = 1024 * 1024 * 1024
"""A list may contain every snapshot of a store."""


class Condemnation(StrEnum):
    """Finality of a list."""

    PROVISIONAL = "provisional"
    CONDEMNED = "condemned"
    # Their objects are in quarantine.
    QUARANTINED = "quarantined"


Rules = dict[SnapshotId, str]
Lists = Mapping[Condemnation, Rules]


class CondemnedLists:
    """Lists of a store, by run."""

    def __init__(self, storage: Storage, prefix: str) -> None:
        self._storage = storage
        self._prefix = prefix

    def of(self, run_id: str, state: Condemnation) -> Rules:
        return dict(self.of_run(run_id).get(state, {}))

    def of_run(self, run_id: str) -> Lists:
        try:
            return _decode(read_document(self._storage, self._address(run_id), largest=LARGEST))
        except NotFound:
            return {}
        except Unreadable as error:
            raise damaged(
                self._storage,
                self._address(run_id),
                "the list of removed snapshots",
                error,
                hint=f"if run {run_id} is not active (see `reclaim runs`), remove the file, then "
                "apply its plan again to finish it, or undo it",
            ) from error

    def write(self, run_id: str, changed: Lists) -> None:
        """Replace some lists of a run, atomically; its other lists stay unchanged."""
        before = self.of_run(run_id)
        after = {state: rules for state, rules in {**before, **changed}.items() if rules}
        if after:
            write_document(self._storage, self._address(run_id), after)
        elif before:
            self._storage.delete(self._address(run_id))

    def all(self) -> dict[str, Lists]:
        """Lists of all runs with any entries."""
        by_run = {}
        for stored in self._storage.list(self._prefix.rstrip("/")):
            name = stored.address.removeprefix(self._prefix)
            if not name.endswith(SUFFIX) or "/" in name:
                continue
            run_id = name.removesuffix(SUFFIX)
            if lists := self.of_run(run_id):
                by_run[run_id] = lists
        return dict(sorted(by_run.items()))

    def any_provisional(self) -> bool:
        return any(lists.get(Condemnation.PROVISIONAL) for lists in self.all().values())

    def states(self) -> dict[SnapshotId, Condemnation]:
        """Condemned snapshots, provisional or not, which are still at their original addresses."""
        return {
            snapshot: state
            for lists in self.all().values()
            for state in (Condemnation.PROVISIONAL, Condemnation.CONDEMNED)
            for snapshot in lists.get(state, {})
        }

    def taken_by(self, run_id: str) -> Rules:
        """Snapshots condemned or quarantined by a run."""
        return _taken(self.of_run(run_id))

    def taken_by_each(self) -> dict[str, Rules]:
        """Snapshots condemned or quarantined, by run."""
        return {run_id: _taken(lists) for run_id, lists in self.all().items()}

    def set_aside_by(self, snapshot: SnapshotId) -> str | None:
        """Run which has quarantined a snapshot."""
        for run_id, lists in self.all().items():
            if snapshot in lists.get(Condemnation.QUARANTINED, {}):
                return run_id
        return None

    def tidy(self) -> None:
        """Remove unfinished writes of dead runs. Only under the lock."""
        for stored in list(self._storage.list(self._prefix.rstrip("/"))):
            if stored.address.endswith(PART):
                self._storage.delete(stored.address)

    def _address(self, run_id: str) -> str:
        return f"{self._prefix}{run_id}{SUFFIX}"


def _taken(lists: Lists) -> Rules:
    taken = (Condemnation.CONDEMNED, Condemnation.QUARANTINED)
    return {snapshot: rule for state in taken for snapshot, rule in lists.get(state, {}).items()}


def _decode(document: Mapping[str, object]) -> Lists:
    lists = {}
    for state, rules in document.items():
        if state not in list(Condemnation) or not isinstance(rules, dict):
            raise Unreadable(f"{state!r} is not a list of snapshots")
        lists[Condemnation(state)] = {
            SnapshotId(snapshot): str(rule) for snapshot, rule in rules.items()
        }
    return lists
