"""Condemning layers: lists beside the store that say what may not be referred to any more.

A server does not read them; holders of leases do. A list is written only under the lock, so that
a run that lost it cannot touch the marks of the one that took it over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

from reclaim.errors import Refused
from reclaim.model import SnapshotId
from reclaim.stores.base import HeldLock
from reclaim.stores.sidecar.condemned import Condemnation, CondemnedLists, Rules

PROVISIONAL, CONDEMNED = Condemnation.PROVISIONAL, Condemnation.CONDEMNED
QUARANTINED = Condemnation.QUARANTINED


class Condemning:
    """The lists of a store, as its runs change them."""

    def __init__(self, lists: CondemnedLists) -> None:
        self._lists = lists
        self._lock: HeldLock | None = None
        self._run: str | None = None

    @contextmanager
    def under(self, lock: HeldLock, run_id: str) -> Iterator[None]:
        """Work for a run while its lock is held."""
        self._lock, self._run = lock, run_id
        try:
            yield
        finally:
            self._lock, self._run = None, None

    def check(self) -> None:
        """Fail when the lock was taken and is lost; without one there is nothing to check."""
        if self._lock is not None:
            self._lock.check()

    def _working(self) -> str:
        if self._run is None:
            raise Refused("no run holds the lock of the store")
        self.check()
        return self._run

    def begin(self) -> None:
        """Take off the marks of runs that died. Whoever has the lock is the only one alive."""
        self._working()
        self._lists.tidy()
        for run_id in self._lists.all():
            self._lists.write(run_id, {PROVISIONAL: {}})

    def abandon(self) -> None:
        self._lists.write(self._working(), {PROVISIONAL: {}})

    def marked(self) -> bool:
        """Whether any layer is marked provisionally."""
        return any(lists.get(PROVISIONAL) for lists in self._lists.all().values())

    def states(self) -> dict[SnapshotId, Condemnation]:
        """What is marked or condemned, and still in its place."""
        return {
            found: state
            for lists in self._lists.all().values()
            for state in (PROVISIONAL, CONDEMNED)
            for found in lists.get(state, {})
        }

    def mark(self, rules: Mapping[SnapshotId, str]) -> None:
        run = self._working()
        self._lists.write(run, {PROVISIONAL: self._lists.of(run, PROVISIONAL) | dict(rules)})

    def release(self, ids: Collection[SnapshotId], reached: Callable[[SnapshotId], bool]) -> None:
        """Take marks off; what is condemned as well, if something reaches it nevertheless."""
        self._working()
        freed = set(ids)
        for run_id, lists in self._lists.all().items():
            marked, condemned = lists.get(PROVISIONAL, {}), lists.get(CONDEMNED, {})
            self._lists.write(
                run_id,
                {
                    PROVISIONAL: _without(marked, freed),
                    CONDEMNED: _without(condemned, {one for one in freed if reached(one)}),
                },
            )

    def promote(self) -> int:
        run = self._working()
        marked = self._lists.of(run, PROVISIONAL)
        condemned = self._lists.of(run, CONDEMNED) | marked
        self._lists.write(run, {PROVISIONAL: {}, CONDEMNED: condemned})
        return len(marked)

    def collect(self, ids: Collection[SnapshotId], *, but_of: Collection[str] = ()) -> int:
        """Take condemned layers off the lists, but for some runs': their objects are gone."""
        self._working()
        return len(self._take(ids, but_of=but_of))

    def set_aside(self, ids: Collection[SnapshotId], *, but_of: Collection[str] = ()) -> int:
        """Note of condemned layers, whichever run condemned them, that this one has them aside.

        But not of those of runs that have not finished setting them aside themselves.
        """
        run = self._working()
        mine = self._lists.of_run(run)
        condemned = mine.get(CONDEMNED, {})
        taken = {found: condemned[found] for found in ids if found in condemned}
        others = self._condemned_by_others(ids, excluding={run, *but_of})
        self._lists.write(
            run,
            {
                CONDEMNED: _without(condemned, taken),
                QUARANTINED: mine.get(QUARANTINED, {}) | others | taken,
            },
        )
        # Listed here before it is off the other list: it is never on none.
        self._take(others, but_of=but_of)
        return len(taken.keys() | others.keys())

    def _condemned_by_others(
        self, ids: Collection[SnapshotId], *, excluding: Collection[str]
    ) -> Rules:
        wanted = set(ids)
        return {
            found: rule
            for run_id, lists in self._lists.all().items()
            if run_id not in excluding
            for found, rule in lists.get(CONDEMNED, {}).items()
            if found in wanted
        }

    def _take(self, ids: Collection[SnapshotId], *, but_of: Collection[str] = ()) -> Rules:
        wanted = set(ids)
        taken: Rules = {}
        for run_id, lists in self._lists.all().items():
            if run_id in but_of:
                continue
            listed = lists.get(CONDEMNED, {})
            if gone := {found: rule for found, rule in listed.items() if found in wanted}:
                taken |= gone
                self._lists.write(run_id, {CONDEMNED: _without(listed, gone)})
        return taken

    def of(self, run_id: str) -> Rules:
        """The layers that a run condemned or set aside."""
        lists = self._lists.of_run(run_id)
        return {**lists.get(CONDEMNED, {}), **lists.get(QUARANTINED, {})}

    def bring_back(self, run_id: str, ids: Collection[SnapshotId]) -> None:
        """Take layers of a run off its lists, and off any other that condemned them meanwhile."""
        self._working()
        lists = self._lists.of_run(run_id)
        states = (CONDEMNED, QUARANTINED)
        self._lists.write(run_id, {one: _without(lists.get(one, {}), set(ids)) for one in states})
        self._take(ids)

    def forget(self, run_id: str) -> int:
        """Let a run's lists go."""
        self._working()
        count = len(self.of(run_id))
        self._lists.write(run_id, {CONDEMNED: {}, QUARANTINED: {}})
        return count

    def aside_of(self, layer: SnapshotId) -> str | None:
        """The run that has set a layer aside."""
        for run_id, lists in self._lists.all().items():
            if layer in lists.get(QUARANTINED, {}):
                return run_id
        return None


def _without(rules: Rules, ids: Collection[SnapshotId]) -> Rules:
    return {found: rule for found, rule in rules.items() if found not in ids}
