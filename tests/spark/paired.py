"""Two engines as one: each step is done by both, and what they find must be the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa

from reclaim.engine.base import Containers, Engine, Found, Objects, Swept
from reclaim.engine.tasks.deleting import Deleter
from reclaim.engine.tasks.judging import Rules
from reclaim.engine.tasks.parts import Part, Place, read_part
from reclaim.engine.tasks.quarantine import Aside
from reclaim.storage import KeyRange, Storage
from reclaim.stores.base import DecodesSnapshots, Format


class PairedEngine:
    """Goes on with what the first engine found, once the second has found the same.

    Objects are taken away by the second alone.
    """

    def __init__(self, first: Engine, second: Engine, storage: Storage) -> None:
        self._first = first
        self._second = second
        self._storage = storage

    def list(self, format: Format, ranges: Sequence[KeyRange], place: Place) -> Objects:
        found = self._first.list(format, ranges, place)
        other = self._second.list(format, ranges, _beside(place))
        # The second also sees what the first has written.
        listed, listed_then = (self._rows(objects.parts) for objects in (found, other))
        assert listed <= listed_then
        assert all("/runs/" in row[1] for row in listed_then - listed)
        return found

    def survey(self, format: DecodesSnapshots, ranges: Sequence[KeyRange]) -> pa.Table:
        return self._first.survey(format, ranges)

    def snapshots(self, format: DecodesSnapshots, addresses: Sequence[str]) -> pa.Table:
        return self._first.snapshots(format, addresses)

    def noncurrent(self, format: Format, folders: Sequence[str]) -> tuple[int, int]:
        return self._first.noncurrent(format, folders)

    def expand(
        self, format: Format, containers: pa.Table, place: Place, *, known: Sequence[Part] = ()
    ) -> Containers:
        found = self._first.expand(format, containers, place, known=known)
        other = self._second.expand(format, containers, _beside(place), known=known)
        for name in ("of_snapshots", "containers", "entries", "dead"):
            assert getattr(found, name) == getattr(other, name), name
        assert self._rows(found.parts) == self._rows(other.parts)
        return found

    def find(
        self,
        format: Format,
        objects: Objects,
        containers: Containers,
        held: Sequence[str],
        rules: Rules,
        place: Place,
        work: Place,
    ) -> Found:
        asked = (format, objects, containers, held, rules)
        found = self._first.find(*asked, place, work)
        other = self._second.find(*asked, _beside(place), _beside(work))
        self._compare(found, other)
        for name in ("going", "staying", "strangers"):
            assert getattr(found.verdict, name) == getattr(other.verdict, name), name
        assert (found.objects, found.size) == (other.objects, other.size)
        return found

    def verify(self, parts: Sequence[Part], place: Place) -> Any:
        found = self._first.verify(parts, place)
        assert found == self._second.verify(parts, place)
        return found

    def intersect(
        self, candidates: Sequence[Part], others: Sequence[Part], place: Place
    ) -> Sequence[Part]:
        found = self._first.intersect(candidates, others, place)
        other = self._second.intersect(candidates, others, _beside(place))
        assert self._rows(found) == self._rows(other)
        return found

    def confirm(
        self,
        format: Format,
        candidates: Sequence[Part],
        revived: Containers,
        held: Sequence[str],
        closed: frozenset[str],
        done: Sequence[Part],
        place: Place,
        work: Place,
    ) -> Found:
        asked = (format, candidates, revived, held, closed, done)
        found = self._first.confirm(*asked, place, work)
        other = self._second.confirm(*asked, _beside(place), _beside(work))
        self._compare(found, other)
        return found

    def sweep(
        self,
        format: Format,
        candidates: Sequence[Part],
        kind: str,
        done: Sequence[Part],
        deleter: Deleter,
        time: timedelta,
        place: Place,
    ) -> Swept:
        return self._second.sweep(format, candidates, kind, done, deleter, time, place)

    def ended(self) -> bool:
        return self._second.ended()

    def recall(
        self,
        intended: Sequence[Part],
        journal: Sequence[Part],
        source: Place,
        aside: Aside | None,
        place: Place,
    ) -> Sequence[Part]:
        found = self._first.recall(intended, journal, source, aside, place)
        other = self._second.recall(intended, journal, source, aside, _beside(place))
        assert self._rows(found) == self._rows(other)
        return found

    def needed(self, format: Format, containers: pa.Table, place: Place) -> Sequence[Part]:
        found = self._first.needed(format, containers, place)
        other = self._second.needed(format, containers, _beside(place))
        assert set(self._rows(found)) == set(self._rows(other))
        return found

    def incomplete(
        self,
        format: Format,
        containers: pa.Table,
        objects: Objects,
        place: Place,
        *,
        without: Collection[str] = (),
    ) -> frozenset[str]:
        found = self._first.incomplete(format, containers, objects, place, without=without)
        other = self._second.incomplete(
            format, containers, objects, _beside(place), without=without
        )
        assert found == other
        return found

    def _compare(self, found: Found, other: Found) -> None:
        assert found.read == other.read
        assert self._rows(found.parts) == self._rows(other.parts)

    def _rows(self, parts: Sequence[Part]) -> Counter[tuple[Any, ...]]:
        return Counter(
            (part.group, *row.values())
            for part in parts
            for row in read_part(self._storage, part).to_pylist()
        )


def _beside(place: Place) -> Place:
    return place.below("second")
