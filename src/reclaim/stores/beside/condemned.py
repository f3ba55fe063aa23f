"""Lists of condemned snapshots: for each run ids, each with the rule that takes it.

All lists of a run are one object, so that a snapshot goes from one list to the next in one write:
whoever reads sees it on one of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum

from reclaim.errors import Corrupt, NotFound
from reclaim.model import SnapshotId
from reclaim.storage import Storage


class Condemnation(StrEnum):
    """How final a list is."""

    PROVISIONAL = "provisional"
    CONDEMNED = "condemned"
    # Their objects were set aside.
    QUARANTINED = "quarantined"


Rules = dict[SnapshotId, str]
Lists = Mapping[Condemnation, Rules]


class CondemnedLists:
    """The lists of a store, by run."""

    def __init__(self, storage: Storage, prefix: str) -> None:
        self._storage = storage
        self._prefix = prefix

    def of(self, run_id: str, state: Condemnation) -> Rules:
        return dict(self.of_run(run_id).get(state, {}))

    def of_run(self, run_id: str) -> Lists:
        try:
            return _decode(self._storage.get(self._address(run_id)))
        except NotFound:
            return {}

    def write(self, run_id: str, changed: Lists) -> None:
        """Put lists in the place of a run's, all at once; the others stay as they are."""
        before = self.of_run(run_id)
        after = {state: rules for state, rules in {**before, **changed}.items() if rules}
        if after:
            self._storage.put(self._address(run_id), json.dumps(after).encode())
        elif before:
            self._storage.delete(self._address(run_id))

    def all(self) -> dict[str, Lists]:
        """The lists of every run that has any."""
        found = {}
        for one in self._storage.list(self._prefix.rstrip("/")):
            run_id = one.address.removeprefix(self._prefix).removesuffix(".json")
            if lists := self.of_run(run_id):
                found[run_id] = lists
        return dict(sorted(found.items()))

    def _address(self, run_id: str) -> str:
        return f"{self._prefix}{run_id}.json"


def _decode(data: bytes) -> Lists:
    try:
        return {
            Condemnation(state): {SnapshotId(found): str(rule) for found, rule in rules.items()}
            for state, rules in json.loads(data).items()
        }
    except (ValueError, AttributeError) as error:
        raise Corrupt("a list of condemned snapshots cannot be read") from error
