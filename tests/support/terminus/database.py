"""Databases as a server keeps them: a label, a meta graph, a commit graph, data."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from reclaim.model import SnapshotId
from tests.support.terminus.store import StoreWriter


class TerminusDatabase:
    """One database with one branch.

    The label points at the meta graph, whose layers name those of the commit graph, whose layers
    name those of the data.
    """

    def __init__(self, store: StoreWriter, name: str) -> None:
        self.store = store
        self.name = name
        self.data: list[SnapshotId] = []
        self.commits: list[SnapshotId] = []
        self.meta: list[SnapshotId] = []
        self._version = 0
        self._label(None)

    def commit(self, values: Sequence[str] = ()) -> SnapshotId:
        """A transaction: one layer on each graph, then the label."""
        data, commit, meta = self._transaction(values)
        self.data.append(data)
        self.commits.append(commit)
        self.meta.append(meta)
        self._label(meta)
        return data

    def fail(self, values: Sequence[str] = (), *, late: bool = False) -> tuple[SnapshotId, ...]:
        """A transaction that fails when it is checked or, ``late``, when it moves the label."""
        if late:
            return self._transaction(values)
        return (self.store.layer(_top(self.data), values=values),)

    def roll_up(self) -> SnapshotId:
        """Roll the data up. What was rolled up from the same layer before is garbage then."""
        return self.store.rollup(self.data[-1], values=["rolled up"])

    def roll_up_commits(self) -> SnapshotId:
        return self.store.rollup(self.commits[-1], names=self.data)

    def squash(self) -> SnapshotId:
        """Put one layer in the place of the whole meta graph."""
        meta = self.store.layer(names=self.commits)
        self.meta = [meta]
        self._label(meta)
        return meta

    def delete(self) -> None:
        """Only the label goes."""
        self.store.unlabel(self.name)

    def _transaction(self, values: Sequence[str]) -> tuple[SnapshotId, SnapshotId, SnapshotId]:
        data = self.store.layer(_top(self.data), values=values)
        commit = self.store.layer(_top(self.commits), names=[data])
        meta = self.store.layer(_top(self.meta), names=[commit])
        return data, commit, meta

    def _label(self, layer: SnapshotId | None) -> None:
        self.store.label(self.name, layer, version=self._version)
        self._version += 1


def populate(store: StoreWriter, layers: int, random: Random) -> list[TerminusDatabase]:
    """Databases with about so many layers, and every kind of garbage. Gives those that live."""
    databases: list[TerminusDatabase] = []
    written = made = 0
    while written < layers:
        database = TerminusDatabase(store, f"admin|db{made}")
        made += 1
        for number in range(random.randint(1, 40)):
            database.commit([f"value {number} {at}" for at in range(random.randint(0, 20))])
            written += 3
            chance = random.random()
            if chance < 0.1:
                written += len(database.fail([f"bad {number}"], late=chance < 0.03))
            elif chance < 0.2:
                database.roll_up()
                database.roll_up_commits()
                written += 2
                if chance < 0.15:
                    database.roll_up()
                    written += 1
            elif chance < 0.22:
                database.squash()
                written += 1
        if random.random() < 0.25:
            database.delete()
        else:
            databases.append(database)
    return databases


def _top(layers: Sequence[SnapshotId]) -> SnapshotId | None:
    return layers[-1] if layers else None
