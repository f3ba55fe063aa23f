"""Why snapshots are dead, in words; and what of the storage each of them names."""

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
    """The reason of a snapshot that an earlier run has marked."""
    return f"{_BY_EARLIER_RUN.get(state, 'marked')} by an earlier run"


def find_dead(seen: Observation, decided: Decided) -> dict[SnapshotId, str]:
    """Every snapshot that is not live, and why."""
    dead = {one: seen.why.get(one) or decided.rule(one) for one in seen.ids - decided.live}
    for found, state in seen.marked.items():
        if found not in decided.live and found not in dead:
            dead[found] = by_earlier_run(state)
    return dead


def find_dead_ids(seen: Observation, decided: Decided) -> frozenset[SnapshotId]:
    """Every snapshot that is not live."""
    return (seen.ids | seen.marked.keys()) - decided.live


def causes_of(seen: Observation, noun: str) -> Sequence[str]:
    """The sentences for what is live (the first one) or dead, ours and the store's own."""
    return (*(cause.format(noun=noun) for cause in CAUSES), *_causes_of_store(seen))


def _causes_of_store(seen: Observation) -> Sequence[str]:
    return sorted(set(seen.why.values()))


def find_containers(seen: Observation, decided: Decided) -> pa.Table:
    """The containers that snapshots name themselves, each once; live ones win."""
    if lost := decided.live - seen.ids:
        raise Corrupt(f"the snapshot {min(lost)} is live and not there")
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
    """The containers that some live snapshots name, each once."""
    return each_once(
        [
            snapshot_containers([addresses[one] for one in snapshots if one in addresses], kind)
            for kind, addresses in seen.containers.items()
        ]
    )


def dead_containers(seen: Observation, snapshots: Collection[SnapshotId]) -> pa.Table:
    """The containers that some dead snapshots name, each once."""
    tables = []
    for kind, addresses in seen.containers.items():
        named = [addresses[one] for one in snapshots if one in addresses]
        causes = [CAUSES.index(UNREACHED)] * len(named)
        tables.append(snapshot_containers(named, kind, causes))
    return each_once(tables)


def _cause(found: SnapshotId, seen: Observation, decided: Decided) -> str:
    """The cause of a snapshot's death."""
    if found in seen.why:
        return seen.why[found]
    if found in decided.before:
        return EXPIRED
    return UNREACHED if found in seen.ids else CONDEMNED
