"""The steps of lifecycle runs on the local engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.answers import Candidates
from reclaim.engine.lifecycle import (
    EarlierRun,
    LifecycleFindings,
    LifecycleSearch,
    PublishRequest,
    RangeFiles,
    RangesRequest,
    Rejudged,
    RejudgeRequest,
)
from reclaim.engine.local.sampled import count_sampled, own_objects, sample_of
from reclaim.engine.local.shielding import shielded
from reclaim.engine.local.uncommitted import not_among
from reclaim.engine.requests import FindRequest
from reclaim.engine.tasks import lifecycle, lifecycle_plan, lifecycle_ranges
from reclaim.engine.tasks.index import (
    CountedReads,
    IndexCounts,
    Span,
    overlapping,
    read_index,
    read_ranges,
)
from reclaim.engine.tasks.judging import CANDIDATES
from reclaim.engine.tasks.lifecycle import ADDRESSES, HELD, RANGES, ROWS
from reclaim.engine.tasks.lifecycle_ranges import RangeBits
from reclaim.engine.tasks.looking_up import guards_of, look_up
from reclaim.engine.tasks.parts import ADDRESSES as NAMES
from reclaim.engine.tasks.parts import Opener, Part, Place, read_part, write_hashed
from reclaim.engine.tasks.rule_changes import FOUND, RuleChanges, find_changed_parts, select_rows
from reclaim.policy.lifecycle.classes import BranchClasses
from reclaim.storage import LISTED, Storage
from reclaim.stores.format import CONTAINERS, Format

Reads = tuple[CountedReads, CountedReads]
"""The storages with the parts of the index: of earlier runs, and of this one."""


class LifecycleSteps:
    """The part of the local engine for lifecycle runs."""

    _open: Opener
    _step: Callable[[str], None]

    def lifecycle_ranges(self, request: RangesRequest) -> RangeFiles:
        self._step("ranges")
        format, place = request.format, request.place
        own = self._open(place.url)
        reads = CountedReads(format.view(self._open(format.root)))
        tables = list(lifecycle_ranges.expand_metaranges(format, reads, request.metaranges))
        read = len(tables)
        for part in request.known:
            assert request.renumbering is not None
            tables.append(request.renumbering.apply(read_part(own, part)))
        ranges = lifecycle_ranges.merge_ranges(tables)
        live = lifecycle_ranges.as_containers(ranges)
        named = lifecycle_ranges.named_metaranges(request.metaranges)
        return RangeFiles(
            self._write(place, "ranges", RANGES, [ranges]),
            self._write(place.below("containers"), "part", CONTAINERS, [named, live]),
            metaranges=read,
            ranges=live.num_rows,
            entries=pc.sum(live.column("entries")).as_py() or 0,
            bytes=reads.size,
        )

    def _find_by_rules(self, request: FindRequest, search: LifecycleSearch) -> Candidates:
        """Find what lifecycle rules match wherever something refers to it."""
        own = self._open(request.place.url)
        reads = CountedReads(self._open(search.url)), CountedReads(own)
        notes = LifecycleFindings()
        found = Candidates(lifecycle=notes)
        ranges = self._tables(own, search.ranges, RANGES)
        entries = pa.concat_tables(self._find_matched(request.format, search, ranges, own, reads))
        rows = self._rows_of(entries, search, RangeBits.of(ranges), reads)
        notes.index_bytes = sum(source.size for source in reads)
        decision = lifecycle.decide(search.classes, search.names, rows)
        self._plan_by_rules(request, search, decision, found, own)
        return found

    def _find_matched(
        self, format: Format, search: LifecycleSearch, ranges: pa.Table, own: Storage, reads: Reads
    ) -> Iterator[pa.Table]:
        """The entries that may be judged in another way than by the last run, as ``FOUND``."""
        self._step("changed")
        yield FOUND.empty_table()
        earlier = search.earlier or EarlierRun((), (), (), BranchClasses((), ()))
        now, then = RangeBits.of(ranges), RangeBits.of(self._tables(own, earlier.ranges, RANGES))
        changes = RuleChanges(search.classes, now, earlier.classes, then)
        old = [*find_changed_parts(changes, ranges, earlier.judged), *search.unjudged]
        for storage, parts in zip(reads, (old, search.fresh), strict=True):
            for part in parts:
                self._step("read")
                yield changes.find(read_index(storage, part))
        store, _ = reads
        for part in earlier.carried:
            names = read_part(store, part, ["address"])
            guards = guards_of(format, names)
            yield pa.table([guards, names.column("address")], schema=FOUND)

    def _rows_of(
        self, found: pa.Table, search: LifecycleSearch, ranges: RangeBits, reads: Reads
    ) -> pa.Table:
        """Every path of the addresses that are decided on."""
        names = set(found.column("address").to_pylist())
        partitions = set(found.column("partition").to_pylist())
        tables = [ROWS.empty_table()]
        for storage, parts in zip(reads, (search.index, search.fresh), strict=True):
            for part in overlapping(parts, partitions):
                self._step("look up")
                rows = read_part(storage, part)
                assert Span.of_rows(rows) == Span.of(part)
                named = [address in names for address in rows.column("address").to_pylist()]
                tables.append(select_rows(ranges, rows.filter(pa.array(named, pa.bool_()))))
        return pa.concat_tables(tables)

    def _plan_by_rules(
        self,
        request: FindRequest,
        search: LifecycleSearch,
        decision: lifecycle.AddressDecision,
        found: Candidates,
        own: Storage,
    ) -> None:
        """The candidates among what goes: what is there, held by nothing, and may be taken."""
        self._step("find")
        notes = found.lifecycle
        assert notes is not None
        format = request.format
        staged = self._held(request.held, own, found)
        going = lifecycle_plan.owned(format, decision.going)
        free = not_among(going, staged)
        names = going.column("address")
        if search.earlier is None:
            containers = self._tables(own, request.containers.parts, CONTAINERS)
            live = containers.column("address").to_pylist()
            found.sample = sample_of(live, own_objects(format))
        if request.objects.parts:
            listed = self._tables(own, request.objects.parts, LISTED)
            notes.objects = lifecycle_plan.count_data(format, listed)
            found.objects, found.size = listed.num_rows, pc.sum(listed.column("size")).as_py() or 0
            found.sampled = count_sampled(listed, found.sample)
            there = listed.filter(pc.is_in(listed.column("address"), names.combine_chunks()))
        else:
            there = look_up(format.view(self._open(format.root)), names)
            found.objects = there.num_rows
            found.size = pc.sum(there.column("size")).as_py() or 0
        notes.gone = going.num_rows - there.num_rows
        is_there = pc.is_in(names, there.column("address").combine_chunks())
        waiting = lifecycle_plan.as_held(
            going.filter(pc.and_(is_there, pc.invert(free))), lifecycle_plan.STAGED
        )
        unclaimed = there.filter(not_among(there, staged))
        candidates, addresses, stays, found.verdict = lifecycle_plan.judge(
            format,
            search.classes,
            request.rules,
            going,
            unclaimed,
            shielded(unclaimed, request.rules.shields, own),
        )
        found.parts = self._write(request.place, "part", CANDIDATES, [candidates])
        place = search.found
        notes.rows = self._write(place, "rows", ROWS, [decision.rows])
        notes.addresses = self._write(place, "addresses", ADDRESSES, [addresses])
        notes.held = self._write(place, "held", HELD, [decision.held, waiting, stays])

    def rejudge(self, request: RejudgeRequest) -> Rejudged:
        self._step("rejudge")
        format, place = request.format, request.place
        own = self._open(place.url)
        reads = CountedReads(format.view(self._open(format.root)))
        tables = list(lifecycle_ranges.expand_metaranges(format, reads, request.metaranges))
        fresh = lifecycle_ranges.newly_reached(
            lifecycle_ranges.merge_ranges(tables), self._tables(own, request.ranges, RANGES)
        )
        planned = self._tables(own, request.rows, ROWS)
        names = set(planned.column("address").to_pylist())
        counts, rows = IndexCounts(), [planned]
        now = RangeBits.of(fresh)
        for _, entries in read_ranges(format, reads, fresh, counts):
            named = [address in names for address in entries.column("address").to_pylist()]
            rows.append(select_rows(now, entries.filter(pa.array(named, pa.bool_()))))
        whole = pa.concat_tables(rows)
        leaving = lifecycle.find_unmatched(request.classes, whole, request.protect)
        table = pa.table({"address": leaving}, schema=NAMES)
        files = [write_hashed(own, place.at("leaving"), table).address] if len(leaving) else []
        return Rejudged(
            files, len(leaving), len(tables), fresh.num_rows, counts.containers, counts.entries
        )

    def publish(self, request: PublishRequest) -> None:
        self._step("publish")
        addresses = self._tables(self._open(request.url), request.addresses, ADDRESSES)
        rows = lifecycle_plan.published(request.run, addresses)
        self._write(request.place, request.run, lifecycle_plan.PUBLISHED, [rows])

    def _tables(self, storage: Storage, parts: Sequence[Part], schema: pa.Schema) -> pa.Table:
        self._admit(sum(part.rows for part in parts))
        tables = [read_part(storage, part) for part in parts]
        return pa.concat_tables([schema.empty_table(), *tables])

    def _held(self, files: Sequence[str], own: Storage, found: Candidates) -> set[str]:
        raise NotImplementedError

    def _admit(self, objects: int) -> None:
        raise NotImplementedError

    def _write(
        self, place: Place, stem: str, schema: pa.Schema, tables: Iterable[pa.Table]
    ) -> Sequence[Part]:
        raise NotImplementedError
