"""Two engines as one: each step is done by both, and what they find must be the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from reclaim.clock import Clock
from reclaim.engine import pipelines
from reclaim.engine.answers import (
    Candidates,
    ContainerFiles,
    Excluded,
    Needed,
    Objects,
    Surveyed,
    Swept,
)
from reclaim.engine.base import Engine, JobRunner
from reclaim.engine.incremental import (
    Carried,
    CarryRequest,
    Copied,
    CopyRequest,
    Indexed,
    IndexRequest,
)
from reclaim.engine.lifecycle import (
    LifecycleFindings,
    PublishRequest,
    RangeFiles,
    RangesRequest,
    Rejudged,
    RejudgeRequest,
)
from reclaim.engine.requests import (
    ConfirmRequest,
    ExcludeRequest,
    ExpandRequest,
    FindRequest,
    IncompleteRequest,
    NeededRequest,
    RecallRequest,
    SweepRequest,
)
from reclaim.engine.rows import Rows
from reclaim.engine.tasks.index import Span
from reclaim.engine.tasks.keys import KeysOf
from reclaim.engine.tasks.parts import Part, Place, read_part
from reclaim.engine.tasks.shielding import Matches, MatchRequest, MergeRequest, ShieldRequest
from reclaim.engine.uncommitted import DeadEntries, DeadRequest
from reclaim.engine.work.lines import Lines, Work
from reclaim.storage import KeyRange, Storage, hashed_files
from reclaim.stores.format import DecodesSnapshots, Format, SurveysContainers


class NotPaired(Exception):
    """A pipeline was run outside of ``pairing``."""


@contextmanager
def pairing() -> Iterator[None]:
    """Let both engines of a paired one run each pipeline."""
    with ExitStack() as stack:
        for name in pipelines.__all__:
            paired = _paired(name, getattr(pipelines, name))
            stack.enter_context(patch.object(pipelines, name, paired))
        yield


def _paired(name: str, pipeline: Callable[..., Any]) -> Callable[..., Any]:
    def run(engine: Engine, *args: Any) -> Any:
        if isinstance(engine, PairedEngine):
            return getattr(engine, name)(*args)
        return pipeline(engine, *args)

    return run


class PairedEngine:
    """Goes on with what the first engine found, once the second has found the same.

    Objects are taken away by the second alone.
    """

    def __init__(self, first: Engine, second: Engine, storage: Storage) -> None:
        self._first = first
        self._second = second
        self._storage = storage

    @property
    def clock(self) -> Clock:
        return self._first.clock

    @property
    def tasks(self) -> int:
        return self._first.tasks

    @property
    def keys_of(self) -> KeysOf:
        return self._first.keys_of

    def runner_for(self, rows: int) -> JobRunner:
        raise NotPaired

    def can_load(self, rows: int) -> bool:
        raise NotPaired

    def open(self, url: str) -> Storage:
        raise NotPaired

    def spread(self, table: pa.Table) -> Rows:
        raise NotPaired

    def files(self, parts: Sequence[Part]) -> Rows:
        raise NotPaired

    def run(self, step: str, rows: Rows, work: Work, *, shuffled: int = 0) -> Lines:
        raise NotPaired

    def collect(self, step: str, rows: Rows, *, shuffled: int = 0) -> Sequence[Any]:
        raise NotPaired

    def start(self) -> None:
        self._first.start()
        self._second.start()

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

    def survey_containers(
        self, format: SurveysContainers, ranges: Sequence[KeyRange], place: Place
    ) -> Surveyed:
        found = self._first.survey_containers(format, ranges, place)
        other = self._second.survey_containers(format, ranges, _beside(place))
        assert sorted(found.rows.to_pylist(), key=str) == sorted(other.rows.to_pylist(), key=str)
        assert self._rows(found.listed) == self._rows(other.listed)
        return found

    def snapshots(self, format: DecodesSnapshots, addresses: Sequence[str]) -> pa.Table:
        return self._first.snapshots(format, addresses)

    def noncurrent(self, format: Format, folders: Sequence[str]) -> tuple[int, int]:
        return self._first.noncurrent(format, folders)

    def expand(self, request: ExpandRequest) -> ContainerFiles:
        found = pipelines.expand(self._first, request)
        other = pipelines.expand(self._second, replace(request, place=_beside(request.place)))
        for name in ("of_snapshots", "containers", "entries", "dead"):
            assert getattr(found, name) == getattr(other, name), name
        assert self._rows(found.parts) == self._rows(other.parts)
        return found

    def find(self, request: FindRequest) -> Candidates:
        found = pipelines.find(self._first, request)
        place, work = _beside(request.place), _beside(request.work)
        again = replace(request, place=place, work=work)
        if request.search is not None:
            beside = _beside(request.search.carry)
            again = replace(again, search=replace(request.search, carry=beside))
        if (by_rules := request.lifecycle) is not None:
            again = replace(again, lifecycle=replace(by_rules, results=_beside(by_rules.results)))
        other = pipelines.find(self._second, again)
        self._compare(found, other)
        self._compare_notes(found, other)
        for name in ("going", "staying", "strangers"):
            assert getattr(found.verdict, name) == getattr(other.verdict, name), name
        assert (found.objects, found.size) == (other.objects, other.size)
        return found

    def verify(self, files: Sequence[Part], place: Place) -> Any:
        found = pipelines.verify(self._first, files, place)
        assert found == pipelines.verify(self._second, files, place)
        return found

    def intersect(
        self, planned: Sequence[Part], others: Sequence[Part], place: Place
    ) -> Sequence[Part]:
        found = pipelines.intersect(self._first, planned, others, place)
        other = pipelines.intersect(self._second, planned, others, _beside(place))
        assert self._rows(found) == self._rows(other)
        return found

    def confirm(self, request: ConfirmRequest) -> Candidates:
        found = pipelines.confirm(self._first, request)
        place, work = _beside(request.place), _beside(request.work)
        other = pipelines.confirm(self._second, replace(request, place=place, work=work))
        self._compare(found, other)
        return found

    def exclude(self, request: ExcludeRequest) -> Excluded:
        found = pipelines.exclude(self._first, request)
        included, excluded = _beside(request.included), _beside(request.excluded)
        other = pipelines.exclude(
            self._second, replace(request, included=included, excluded=excluded)
        )
        assert found.matches == other.matches
        assert self._rows(found.included) == self._rows(other.included)
        assert self._rows(found.excluded) == self._rows(other.excluded)
        return found

    def sweep(self, request: SweepRequest) -> Swept:
        return pipelines.sweep(self._second, request)

    def ended(self) -> bool:
        return self._second.ended()

    def recall(self, request: RecallRequest) -> Sequence[Part]:
        found = pipelines.recall(self._first, request)
        other = pipelines.recall(self._second, replace(request, place=_beside(request.place)))
        assert self._rows(found) == self._rows(other)
        return found

    def needed(self, request: NeededRequest) -> Needed:
        found = pipelines.needed(self._first, request)
        other = pipelines.needed(self._second, replace(request, place=_beside(request.place)))
        assert set(self._rows(found.parts)) == set(self._rows(other.parts))
        assert found.unread == other.unread
        return found

    def incomplete(self, request: IncompleteRequest) -> frozenset[str]:
        found = pipelines.incomplete(self._first, request)
        assert found == pipelines.incomplete(
            self._second, replace(request, place=_beside(request.place))
        )
        return found

    def index(self, request: IndexRequest) -> Indexed:
        found = pipelines.index(self._first, request)
        other = pipelines.index(self._second, replace(request, place=_beside(request.place)))
        assert found.counts == other.counts
        for one, two in ((found.parts, other.parts), (found.ranges, other.ranges)):
            assert self._rows(one, grouped=False) == self._rows(two, grouped=False)
        for part in found.parts:
            rows = read_part(self._storage, part)
            names = rows.column("partition").to_pylist()
            assert names == sorted(names)
            assert Span.of(part) == Span.of_rows(rows)
        return found

    def dead_entries(self, request: DeadRequest) -> DeadEntries:
        found = pipelines.dead_entries(self._first, request)
        other = pipelines.dead_entries(self._second, replace(request, place=_beside(request.place)))
        assert found.counts == other.counts
        assert self._rows(found.parts) == self._rows(other.parts)
        return found

    def carry(self, request: CarryRequest) -> Carried:
        found = pipelines.carry(self._first, request)
        other = pipelines.carry(self._second, replace(request, place=_beside(request.place)))
        assert found.taken == other.taken
        assert self._rows(found.parts) == self._rows(other.parts)
        return found

    def copy(self, request: CopyRequest) -> Copied:
        found = pipelines.copy(self._first, request)
        other = pipelines.copy(self._second, replace(request, place=_beside(request.place)))
        assert found.bytes == other.bytes
        assert self._rows(found.parts) == self._rows(other.parts)
        return found

    def match(self, request: MatchRequest) -> Matches:
        found = pipelines.match(self._first, request)
        other = pipelines.match(self._second, replace(request, place=_beside(request.place)))
        assert replace(found, parts=()) == replace(other, parts=())
        assert self._rows(found.parts) == self._rows(other.parts)
        return found

    def shield(self, request: ShieldRequest) -> Sequence[Part]:
        found = pipelines.shield(self._first, request)
        other = pipelines.shield(self._second, replace(request, place=_beside(request.place)))
        assert self._rows(found) == self._rows(other)
        return found

    def merge(self, request: MergeRequest) -> Sequence[Part]:
        found = pipelines.merge(self._first, request)
        other = pipelines.merge(self._second, replace(request, place=_beside(request.place)))
        assert self._rows(found) == self._rows(other)
        return found

    def group_ranges(self, request: RangesRequest) -> RangeFiles:
        found = pipelines.group_ranges(self._first, request)
        other = pipelines.group_ranges(self._second, replace(request, place=_beside(request.place)))
        for name in ("metaranges", "ranges", "entries", "bytes"):
            assert getattr(found, name) == getattr(other, name), name
        for one, two in ((found.parts, other.parts), (found.containers, other.containers)):
            assert self._rows(one, grouped=False) == self._rows(two, grouped=False)
        return found

    def rejudge(self, request: RejudgeRequest) -> Rejudged:
        found = pipelines.rejudge(self._first, request)
        other = pipelines.rejudge(self._second, replace(request, place=_beside(request.place)))
        assert self._hashed(found.files) == self._hashed(other.files)
        assert replace(found, files=()) == replace(other, files=())
        return found

    def publish(self, request: PublishRequest) -> None:
        pipelines.publish(self._first, request)

    def _hashed(self, files: Sequence[str]) -> Counter[str]:
        return Counter(
            address
            for file in files
            for address in hashed_files.read(self._storage, file).column("address").to_pylist()
        )

    def _compare_lifecycle(self, ours: LifecycleFindings, theirs: LifecycleFindings) -> None:
        assert (ours.gone, ours.objects) == (theirs.gone, theirs.objects)
        for name in ("rows", "addresses", "held"):
            one, two = (self._rows(getattr(notes, name), grouped=False) for notes in (ours, theirs))
            assert one == two, name

    def _compare_notes(self, found: Candidates, other: Candidates) -> None:
        if found.lifecycle is not None and other.lifecycle is not None:
            self._compare_lifecycle(found.lifecycle, other.lifecycle)
        ours, theirs = found.uncommitted, other.uncommitted
        if ours is None or theirs is None:
            assert ours is theirs
            return
        assert (ours.guards, ours.looked_up) == (theirs.guards, theirs.looked_up)
        assert ours.missing == theirs.missing
        assert ours.committed == theirs.committed
        assert self._addresses(ours.carried) == self._addresses(theirs.carried)

    def _addresses(self, parts: Sequence[Part]) -> set[str]:
        return {
            address
            for part in parts
            for address in read_part(self._storage, part).column("address").to_pylist()
        }

    def _compare(self, found: Candidates, other: Candidates) -> None:
        assert found.read == other.read
        assert self._rows(found.parts) == self._rows(other.parts)

    def _rows(self, parts: Sequence[Part], *, grouped: bool = True) -> Counter[tuple[Any, ...]]:
        return Counter(
            (part.group if grouped else "", *map(_plain, row.values()))
            for part in parts
            for row in read_part(self._storage, part).to_pylist()
        )


def _plain(value: Any) -> Any:
    """A value that can be counted; the order in a list makes no difference."""
    return tuple(sorted(value)) if isinstance(value, list) else value


def _beside(place: Place) -> Place:
    return place.below("second")
