"""The steps of lifecycle runs on the local engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.answers import Candidates
from reclaim.engine.lifecycle import (
    EarlierRun,
    LifecycleCarryRequest,
    LifecycleFindings,
    LifecycleIndex,
    LifecycleIndexRequest,
    LifecycleRead,
    LifecycleSearch,
    PublishRequest,
    RangeFiles,
    RangesRequest,
    Rejudged,
    RejudgeRequest,
)
from reclaim.engine.local.sampled import count_sampled, own_objects, sample_of
from reclaim.engine.local.shielding import shielded
from reclaim.engine.local.uncommitted import ADDRESSES as NAMES
from reclaim.engine.local.uncommitted import not_among
from reclaim.engine.requests import FindRequest
from reclaim.engine.tasks import lifecycle, lifecycle_index, lifecycle_plan, lifecycle_ranges
from reclaim.engine.tasks.deleting import FAILED
from reclaim.engine.tasks.indexing import CountedReads
from reclaim.engine.tasks.judging import CANDIDATES
from reclaim.engine.tasks.lifecycle import ADDRESSES, HELD, RANGES, ROWS
from reclaim.engine.tasks.lifecycle_index import FOUND, RuleChanges, Span
from reclaim.engine.tasks.lifecycle_ranges import RangeBits
from reclaim.engine.tasks.looking_up import guards_of, look_up
from reclaim.engine.tasks.parts import Opener, Part, Place, read_part, write_hashed
from reclaim.storage import LISTED, Storage
from reclaim.stores.format import CONTAINERS, Format


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
            rows = read_part(own, part)
            tables.append(lifecycle_ranges.known_ranges(rows, request.renumbering))
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
        notes = LifecycleFindings()
        found = Candidates(lifecycle=notes)
        found_rows, index = self._find_matched(request.format, search, own, notes)
        notes.index = index
        rows = self._rows_of(found_rows, index, search, own, notes)
        decision = lifecycle.decide(search.classes, search.names, rows)
        self._plan_by_rules(request, search, decision, found, own)
        return found

    def _find_matched(
        self, format: Format, search: LifecycleSearch, own: Storage, notes: LifecycleFindings
    ) -> tuple[pa.Table, Sequence[Part]]:
        """The entries to be decided on, as ``FOUND``; and the index of what was read for it."""
        ranges = self._tables(own, search.ranges, RANGES)
        unread = lifecycle_ranges.reached(ranges)
        found = [FOUND.empty_table()]
        if (earlier := search.earlier) is not None:
            known = self._tables(own, earlier.ranges, RANGES)
            unread = unread.filter(not_among(unread, set(known.column("address").to_pylist())))
            found += self._find_changed(search, earlier, ranges, known, format, notes)
        indexed = search.indexed or LifecycleIndex()
        have = set(self._tables(own, indexed.ranges, RANGES).column("address").to_pylist())
        unread = unread.filter(not_among(unread, have))
        now = RangeBits.of(ranges)
        for part in indexed.parts:
            rows = lifecycle_index.find_rows_matched(
                search.classes, now, lifecycle_index.read_index(own, part)
            )
            found.append(rows)
        reads = CountedReads(format.view(self._open(format.root)))
        tables: list[pa.Table] = []
        for bits, rows in lifecycle_index.read_ranges(format, reads, unread, notes.read):
            self._step("read")
            found.append(lifecycle_index.find_matched(search.classes, bits, rows))
            tables.append(rows)
            self._admit(notes.read.entries)
        parts = lifecycle_index.write_index(own, search.index.at("part"), tables, search.edges)
        return pa.concat_tables(found), [*indexed.parts, *parts]

    def lifecycle_index(self, request: LifecycleIndexRequest) -> LifecycleIndex:
        self._step("index")
        format, place = request.format, request.place
        own, counts = self._open(place.url), LifecycleRead()
        containers = self._tables(own, request.containers, CONTAINERS)
        ranges = lifecycle_ranges.as_ranges(containers)
        reads = CountedReads(format.view(self._open(format.root)))
        read = lifecycle_index.read_ranges(format, reads, ranges, counts)
        tables: list[pa.Table] = []
        for _, rows in read:
            tables.append(rows)
            self._admit(counts.entries)
        parts = lifecycle_index.write_index(own, place.at("part"), tables, request.edges)
        return LifecycleIndex(parts, self._write(place, "ranges", RANGES, [ranges]), counts)

    def _find_changed(
        self,
        search: LifecycleSearch,
        earlier: EarlierRun,
        ranges: pa.Table,
        known: pa.Table,
        format: Format,
        notes: LifecycleFindings,
    ) -> Iterable[pa.Table]:
        """The entries that may be judged in another way than by the last run."""
        self._step("changed")
        store = CountedReads(self._open(earlier.url))
        now, then = RangeBits.of(ranges), RangeBits.of(known)
        changes = RuleChanges(search.classes, now, earlier.classes, then)
        for part in lifecycle_index.find_changed_parts(changes, ranges, earlier.index):
            yield changes.find(lifecycle_index.read_index(store, part))
        for part in earlier.carried:
            names = read_part(store, part, ["address"])
            guards = guards_of(format, names)
            yield pa.table([guards, names.column("address")], schema=FOUND)
        notes.index_bytes += store.size

    def _rows_of(
        self,
        found: pa.Table,
        index: Sequence[Part],
        search: LifecycleSearch,
        own: Storage,
        notes: LifecycleFindings,
    ) -> pa.Table:
        """Every path of the addresses that are decided on."""
        names = set(found.column("address").to_pylist())
        partitions = set(found.column("partition").to_pylist())
        ranges = RangeBits.of(self._tables(own, search.ranges, RANGES))
        sources: list[tuple[CountedReads, Part]] = [(CountedReads(own), part) for part in index]
        store = CountedReads(self._open(search.earlier.url)) if search.earlier else None
        if store is not None and search.earlier is not None:
            overlapping = lifecycle_index.overlapping(search.earlier.index, partitions)
            sources += [(store, part) for part in overlapping]
        tables = [ROWS.empty_table()]
        for storage, part in sources:
            self._step("look up")
            rows = read_part(storage, part)
            assert Span.of_rows(rows) == Span.of(part)
            named = [address in names for address in rows.column("address").to_pylist()]
            tables.append(
                lifecycle_index.select_rows(ranges, rows.filter(pa.array(named, pa.bool_())))
            )
        notes.index_bytes += store.size if store is not None else 0
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
        counts, rows = LifecycleRead(), [planned]
        now = RangeBits.of(fresh)
        for _, entries in lifecycle_index.read_ranges(format, reads, fresh, counts):
            named = [address in names for address in entries.column("address").to_pylist()]
            rows.append(
                lifecycle_index.select_rows(now, entries.filter(pa.array(named, pa.bool_())))
            )
        whole = pa.concat_tables(rows)
        leaving = lifecycle.find_unmatched(request.classes, whole, request.protect)
        table = pa.table({"address": leaving}, schema=NAMES)
        files = [write_hashed(own, place.at("leaving"), table).address] if len(leaving) else []
        return Rejudged(
            files, len(leaving), len(tables), fresh.num_rows, counts.ranges, counts.entries
        )

    def carry_matched(self, request: LifecycleCarryRequest) -> Sequence[Part]:
        self._step("carry")
        source = self._open(request.source.url)
        taken = {
            row["address"]
            for part in request.journal
            for row in read_part(source, part).to_pylist()
            if row["outcome"] != FAILED
        }
        left = {
            address
            for part in (*request.held, *request.planned)
            for address in read_part(source, part, ["address"]).column("address").to_pylist()
        }
        names = pa.array(sorted(left - taken), pa.string())
        table = pa.table({"address": names}, schema=NAMES)
        return self._write(request.place, "part", NAMES, [table])

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
