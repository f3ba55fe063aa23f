"""Lists of condemned snapshots, one for each run: ids, each with the rule that takes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum

from reclaim.errors import Corrupt, NotFound
from reclaim.model import SnapshotId
from reclaim.storage import Storage

Rules = Mapping[SnapshotId, str]


class Condemnation(StrEnum):
    """How final a list is."""

    PROVISIONAL = "provisional"
    CONDEMNED = "condemned"
    # Their objects were set aside.
    QUARANTINED = "quarantined"


class CondemnedLists:
    """The lists of a store: run and state → ids and rules."""

    def __init__(self, storage: Storage, prefix: str) -> None:
        self._storage = storage
        self._prefix = prefix

    def of(self, run_id: str, state: Condemnation) -> dict[SnapshotId, str]:
        try:
            return _decode(self._storage.get(self._address(run_id, state)))
        except NotFound:
            return {}

    def write(self, run_id: str, state: Condemnation, rules: Rules) -> None:
        """Write a list, or remove it when it is empty."""
        address = self._address(run_id, state)
        if rules:
            self._storage.put(address, json.dumps(dict(rules)).encode())
        else:
            self._storage.delete(address)

    def each(self) -> list[tuple[str, Condemnation]]:
        found = []
        for one in self._storage.list(self._prefix.rstrip("/")):
            run_id, _, state = one.address.removeprefix(self._prefix).partition(".")
            found.append((run_id, Condemnation(state.removesuffix(".json"))))
        return sorted(found)

    def read(self) -> dict[str, dict[SnapshotId, str]]:
        """All that is condemned in any way, by run."""
        found: dict[str, dict[SnapshotId, str]] = {}
        for run_id, state in self.each():
            found.setdefault(run_id, {}).update(self.of(run_id, state))
        return found

    def _address(self, run_id: str, state: Condemnation) -> str:
        return f"{self._prefix}{run_id}.{state}.json"


def _decode(data: bytes) -> dict[SnapshotId, str]:
    try:
        return {SnapshotId(found): str(rule) for found, rule in json.loads(data).items()}
    except (ValueError, AttributeError) as error:
        raise Corrupt("a list of condemned snapshots cannot be read") from error
