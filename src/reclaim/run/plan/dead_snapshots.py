"""Dead snapshots: the causes of their death as text, and the containers they name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from reclaim.engine.tasks.reading import (
    LIVE,
    SNAPSHOT_CONTAINERS,
    each_once,
    snapshot_containers,
)
from reclaim.errors import Corrupt
from reclaim.model import SnapshotId
from reclaim.run.plan.decide import Decided
from reclaim.stores.named_containers import NamedContainers
from reclaim.stores.observation import Observation

EXPIRED = "its {noun}s expire under the policy"
UNREACHED = "its {noun}s are unreachable: no branch, tag or lease"
CONDEMNED = "its {noun}s were removed by an earlier run"
CAUSES = ("live", EXPIRED, UNREACHED, CONDEMNED)
_BY_EARLIER_RUN = {"condemned": "removed", "quarantined": "put in quarantine"}


def by_earlier_run(state: str) -> str:
    """Reason text for a snapshot marked by an earlier run."""
    return f"{_BY_EARLIER_RUN.get(state, 'marked')} by an earlier run"


def find_dead(seen: Observation, decided: Decided) -> dict[SnapshotId, str]:
    """Dead snapshots, each with its reason."""
    dead = {
        snapshot: seen.why.get(snapshot) or decided.rule(snapshot)
        for snapshot in seen.ids - decided.live
    }
    for snapshot, state in seen.marked.items():
        if snapshot not in decided.live and snapshot not in dead:
            dead[snapshot] = by_earlier_run(state)
    return dead


def find_dead_ids(seen: Observation, decided: Decided) -> frozenset[SnapshotId]:
    """Ids of all dead snapshots."""
    return (seen.ids | seen.marked.keys()) - decided.live


def causes_of(seen: Observation, noun: str) -> Sequence[str]:
    """Cause texts in order: live first, then dead, then the store's own causes."""
    return (*(cause.format(noun=noun) for cause in CAUSES), *_causes_of_store(seen))


def _causes_of_store(seen: Observation) -> Sequence[str]:
    return sorted(set(seen.why.values()))


def find_containers(seen: Observation, decided: Decided) -> pa.Table:
    """Containers named by snapshots, without duplicates. Live takes precedence over dead."""
    if lost := decided.live - seen.ids:
        raise Corrupt(f"the live snapshot {min(lost)} does not exist")
    causes_in_order = (*CAUSES, *_causes_of_store(seen))
    numbers = {sentence: number for number, sentence in enumerate(causes_in_order)}
    known: dict[SnapshotId, int] = dict.fromkeys(decided.live, LIVE)
    tables = []
    for kind, addresses in seen.containers.items():
        for snapshot in addresses.keys() - known.keys():
            known[snapshot] = numbers[_cause(snapshot, seen, decided)]
        causes = list(map(known.__getitem__, addresses))
        tables.append(snapshot_containers(_column(addresses), kind, causes))
    if all(isinstance(addresses, NamedContainers) for addresses in seen.containers.values()):
        return pa.concat_tables([SNAPSHOT_CONTAINERS.empty_table(), *tables])
    return each_once(tables)


def _column(addresses: Mapping[SnapshotId, str]) -> pa.Array:
    if isinstance(addresses, NamedContainers):
        return addresses.column
    return pa.array(list(addresses.values()), pa.string())


def live_containers(seen: Observation, snapshots: Collection[SnapshotId]) -> pa.Table:
    """Containers named by the given live snapshots, without duplicates."""
    return each_once(
        [
            snapshot_containers(
                [addresses[snapshot] for snapshot in snapshots if snapshot in addresses], kind
            )
            for kind, addresses in seen.containers.items()
        ]
    )


def dead_containers(seen: Observation, snapshots: Collection[SnapshotId]) -> pa.Table:
    """Containers named by the given dead snapshots, without duplicates."""
    tables = []
    for kind, addresses in seen.containers.items():
        named = [addresses[snapshot] for snapshot in snapshots if snapshot in addresses]
        causes = [CAUSES.index(UNREACHED)] * len(named)
        tables.append(snapshot_containers(named, kind, causes))
    return each_once(tables)


def _cause(snapshot: SnapshotId, seen: Observation, decided: Decided) -> str:
    """Cause of a snapshot's death."""
    if snapshot in seen.why:
        return seen.why[snapshot]
    if snapshot in decided.before:
        return EXPIRED
    return UNREACHED if snapshot in seen.ids else CONDEMNED
