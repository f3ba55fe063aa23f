"""The local engine: the tasks of a run in this process, one after the other, without Java.

It keeps addresses in memory, so it refuses a store with more than a million objects. Its plans are
the same as those of the engine on Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.clock import Clock, SystemClock
from reclaim.engine.answers import (
    Candidates,
    ContainerFiles,
    Excluded,
    Needed,
    Objects,
    Surveyed,
    Swept,
    named_containers,
)
from reclaim.engine.local.incremental import IncrementalSteps
from reclaim.engine.local.lifecycle import LifecycleSteps
from reclaim.engine.local.sampled import count_sampled, own_objects, sample_of
from reclaim.engine.local.shielding import ShieldingSteps, shielded
from reclaim.engine.local.uncommitted import UncommittedSteps, explained, not_among, rank
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
from reclaim.engine.tasks import excluding, inventory, judging, promised, reading, recall, sampling
from reclaim.engine.tasks.deleting import FAILED, GOING, JOURNAL, delete, is_strict
from reclaim.engine.tasks.judging import CANDIDATES
from reclaim.engine.tasks.parts import (
    Opener,
    Part,
    Place,
    open_storage,
    read_part,
    write_hashed,
    write_part,
)
from reclaim.engine.tasks.reading import LIVE
from reclaim.engine.tasks.recall import RANKED
from reclaim.errors import Refused
from reclaim.ids import new_uid
from reclaim.storage import LISTED, KeyRange, Storage, buckets, hashed_files
from reclaim.storage.pace import Pace
from reclaim.stores.format import (
    CONTAINERS,
    NO_READ,
    OWNED,
    SNAPSHOTS,
    DecodesSnapshots,
    Format,
    SurveysContainers,
)

MOST_OBJECTS = 1_000_000
"""The objects that the local engine works with; they take some hundred megabytes of memory."""
SURVEY_TASKS = 4
"""The tasks that the ranges of a survey are spread over."""


class LocalEngine(IncrementalSteps, UncommittedSteps, LifecycleSteps, ShieldingSteps):
    """Runs the tasks of a run in this process."""

    def __init__(
        self,
        opener: Opener = open_storage,
        *,
        clock: Clock | None = None,
        step: Callable[[str], None] = lambda _name: None,
        most_objects: int = MOST_OBJECTS,
    ) -> None:
        """``step`` is called with the name of each task before the task runs."""
        self._open = opener
        self._clock = clock or SystemClock()
        self._step = step
        self._most = most_objects

    def start(self) -> None:
        pass

    def list(self, format: Format, ranges: Sequence[KeyRange], place: Place) -> Objects:
        storage = format.view(self._open(format.root))
        batches: list[pa.Table] = []
        count = 0
        for keys in ranges:
            self._step(f"list {keys.prefix}")
            for batch in storage.batches(keys.prefix, after=keys.after, until=keys.until):
                batches.append(pa.Table.from_batches([batch]))
                count += batch.num_rows
                self._admit(count)
        return Objects(place.url, self._write(place, "part", LISTED, batches))

    def survey(self, format: DecodesSnapshots, ranges: Sequence[KeyRange]) -> pa.Table:
        storage = format.view(self._open(format.root))
        tables = [SNAPSHOTS.empty_table()]
        for first in range(SURVEY_TASKS):
            if task := ranges[first::SURVEY_TASKS]:
                self._step(f"survey {task[0].prefix}")
                tables.append(format.survey(storage, task))
        return pa.concat_tables(tables)

    def survey_containers(
        self, format: SurveysContainers, ranges: Sequence[KeyRange], place: Place
    ) -> Surveyed:
        storage = format.view(self._open(format.root))
        rows, listed = [SNAPSHOTS.empty_table()], []
        for first in range(SURVEY_TASKS):
            if task := ranges[first::SURVEY_TASKS]:
                self._step(f"survey {task[0].prefix}")
                for found, owned in format.survey_containers(storage, task):
                    rows.append(found)
                    listed.append(owned)
        return Surveyed(pa.concat_tables(rows), self._write(place, "part", OWNED, listed))

    def snapshots(self, format: DecodesSnapshots, addresses: Sequence[str]) -> pa.Table:
        self._step("snapshots")
        return format.snapshots(format.view(self._open(format.root)), addresses)

    def noncurrent(self, format: Format, folders: Sequence[str]) -> tuple[int, int]:
        return buckets.noncurrent(format.root, folders)

    def expand(self, request: ExpandRequest) -> ContainerFiles:
        format, place = request.format, request.place
        if named := named_containers(format, request.containers, place, self._open(place.url)):
            return named
        storage = format.view(self._open(format.root))
        there = self._live(request.known, self._open(place.url))
        best: dict[str, dict[str, object]] = {}
        read = 0
        for table in self._expanded(request, storage):
            self._step("expand")
            for row in table.to_pylist():
                before = best.get(row["address"])
                if before is None or row["cause"] < before["cause"]:
                    best[row["address"]] = row
            read += sum(
                row["cause"] == LIVE and row["detail"] == NO_READ for row in table.to_pylist()
            )
        rows = [row for address, row in sorted(best.items()) if address not in there]
        found = pa.Table.from_pylist(rows, schema=CONTAINERS)
        live = found.filter(pc.equal(found.column("cause"), LIVE))
        return ContainerFiles(
            self._write(place, "part", CONTAINERS, [found]),
            of_snapshots=read,
            containers=live.num_rows,
            entries=pc.sum(live.column("entries")).as_py() or 0,
            dead=found.num_rows - live.num_rows,
        )

    def _expanded(self, request: ExpandRequest, storage: Storage) -> Iterator[pa.Table]:
        containers = request.containers
        if request.surveyed is not None:
            containers, known = request.surveyed.part(request.format, containers)
            own = self._open(request.place.url)
            causes = known.select(["address", "cause"]).rename_columns(["owner", "cause"])
            for part in request.surveyed.listed:
                rows = read_part(own, part).drop_columns(["cause"])
                yield rows.join(causes, "owner", join_type="inner").select(CONTAINERS.names)
        yield from reading.expand(request.format, storage, containers)

    def find(self, request: FindRequest) -> Candidates:
        if request.search is not None:
            return self._search(request, request.search)
        if request.lifecycle is not None:
            return self._find_by_rules(request, request.lifecycle)
        format, objects, place = request.format, request.objects, request.place
        found = Candidates()
        live, dead = self._needed(format, request.containers, request.held, place, found)
        kept: list[pa.Table] = []
        paths = request.rules.load_paths(self._open(place.url))
        for rows in self._objects(format, objects):
            self._step("find")
            found.objects += rows.num_rows
            self._admit(found.objects)
            found.size += pc.sum(rows.column("size")).as_py() or 0
            found.sampled += count_sampled(rows, found.sample)
            survivors = rows.filter(not_among(rows, live))
            shields = shielded(survivors, request.rules.shields, self._open(place.url))
            candidates, verdict = judging.judge(
                format, explained(survivors, dead), request.rules, paths, shields
            )
            found.verdict.add(verdict)
            kept.append(candidates)
        found.parts = self._write(place, "part", CANDIDATES, kept)
        return found

    def verify(self, files: Sequence[Part], place: Place) -> Mapping[str, tuple[int, int]]:
        counts: dict[str, tuple[int, int]] = {}
        self._admit_parts(files)
        for part in files:
            rows = read_part(self._open(place.url), part)
            counts = judging.add_kinds(counts, judging.count_kinds(rows))
        return counts

    def intersect(
        self, planned: Sequence[Part], others: Sequence[Part], place: Place
    ) -> Sequence[Part]:
        storage = self._open(place.url)
        listed = {
            address
            for part in others
            for address in read_part(storage, part, ["address"]).column("address").to_pylist()
        }
        both = []
        for part in planned:
            self._step("intersect")
            rows = read_part(storage, part)
            in_both = [address in listed for address in rows.column("address").to_pylist()]
            both.append(rows.filter(pa.array(in_both, pa.bool_())))
        return self._write_kinds(place, both)

    def exclude(self, request: ExcludeRequest) -> Excluded:
        storage = self._open(request.included.url)
        included, excluded = [], []
        matches = [0] * len(request.globs)
        paths: dict[str, str] = {}
        for part in request.earlier:
            found = excluding.find_paths(read_part(storage, part), request.globs)
            paths |= dict(zip(*(column.to_pylist() for column in found.columns), strict=True))
        for part in request.candidates:
            self._step("exclude")
            rows = read_part(storage, part)
            known = [paths.get(address) for address in rows.column("address").to_pylist()]
            rows = rows.append_column(excluding.KNOWN_PATH, pa.array(known, pa.string()))
            others, matching, counts = excluding.split(rows, request.globs)
            included.append(others)
            excluded.append(matching)
            matches = [sum(pair) for pair in zip(matches, counts, strict=True)]
        return Excluded(
            self._write_kinds(request.included, included),
            self._write_kinds(request.excluded, excluded),
            matches,
        )

    def confirm(self, request: ConfirmRequest) -> Candidates:
        place = request.place
        found = Candidates()
        live, _ = self._needed(request.format, request.revived, request.held, place, found)
        storage = self._open(place.url)
        for part in request.done:
            rows = read_part(storage, part, ["address", "outcome"])
            done = rows.filter(pc.not_equal(rows.column("outcome"), FAILED))
            live |= set(reading.folded(done.column("address")).to_pylist())
        kept = []
        for part in request.candidates:
            self._step("confirm")
            rows = read_part(storage, part)
            kept.append(
                rows.filter(
                    pa.array(
                        [
                            row["address"].lower() not in live
                            and (not row["guard"] or row["guard"] in request.closed)
                            for row in rows.select(["address", "guard"]).to_pylist()
                        ],
                        pa.bool_(),
                    )
                )
            )
        found.parts = self._write_kinds(place, kept)
        return found

    def sweep(self, request: SweepRequest) -> Swept:
        format, place, kind = request.format, request.place, request.kind
        storage, own = format.view(self._open(format.root)), self._open(place.url)
        deadline = self._clock.now() + request.time
        done: set[str] = set()
        for part in request.done:
            done |= set(read_part(own, part, ["address"]).column("address").to_pylist())
        swept, pace = Swept(), Pace()
        strict = is_strict(format, request.deleter)
        tables = []
        todo = 0
        for part in request.candidates:
            if part.group != kind:
                continue
            rows = read_part(own, part)
            rows = rows.filter(
                pa.array([a not in done for a in rows.column("address").to_pylist()], pa.bool_())
            )
            todo += rows.num_rows
            if strict and swept.outcome.counts[FAILED]:
                continue
            self._step(f"sweep {kind}")
            for journal in delete(
                format,
                storage,
                rows,
                deleter=request.deleter,
                in_time=lambda: self._clock.now() < deadline,
                pace=pace,
            ):
                tables.append(journal)
                swept.outcome.count(journal)
        swept.parts = self._write(place, f"{kind}-{new_uid()}", JOURNAL, tables)
        swept.finished = sum(table.num_rows for table in tables) == todo
        return swept

    def recall(self, request: RecallRequest) -> Sequence[Part]:
        self._step("recall")
        self._admit_parts(request.intended)
        self._admit_parts(request.journal)
        storage = self._open(request.source.url)
        best: dict[str, dict[str, Any]] = {}
        listed: set[str] = set()
        paths: dict[str, str] = {}
        ranks = (
            (request.intended, recall.intended),
            (request.journal, recall.journaled),
            (request.notes, recall.noted),
        )
        for parts, ranked in ranks:
            for part in parts:
                for row in ranked(read_part(storage, part)).to_pylist():
                    before = best.setdefault(row["address"], row)
                    if row["rank"] < before["rank"]:
                        best[row["address"]] = row
                    if row["path"] is not None:
                        paths[row["address"]] = max(row["path"], paths.get(row["address"], ""))
                    if row["listed"]:
                        listed.add(row["address"])
        taken = [
            row | {"path": paths.get(address)} for address, row in best.items() if address in listed
        ]
        rows = pa.Table.from_pylist(taken, schema=RANKED).select(GOING.names)
        moved = recall.where(rows, request.aside)
        return self._write(request.place, "recalled", GOING, [moved])

    def ended(self) -> bool:
        # Its tasks run in the call itself.
        return True

    def needed(self, request: NeededRequest) -> Needed:
        format, place = request.format, request.place
        if not request.containers.num_rows:
            return Needed()
        self._step("needed")
        storage, own = format.view(self._open(format.root)), self._open(place.url)
        known = self._live(request.known, own)
        each: dict[str, dict[str, Any]] = {}
        for table in promised.list_containers(format, storage, request.containers):
            for row in table.to_pylist():
                aside = row.pop("aside")
                if row["address"] not in known:
                    best = each.setdefault(row["address"], row | {"asides": []})
                    best["detail"] = min(best["detail"], row["detail"])
                    best["asides"].append(aside)
        rows = pa.Table.from_pylist(list(each.values()), schema=promised.EACH_CONTAINER)
        unread = promised.Unread()
        found = pa.concat_tables(promised.needed(format, storage, rows, unread))
        parts = [write_hashed(own, place.at("needed"), found)] if found.num_rows else ()
        return Needed(parts, promised.Unread.of([unread.report()]))

    def _live(self, parts: Sequence[Part], storage: Storage) -> set[str]:
        """The live containers in files."""
        live: set[str] = set()
        for part in parts:
            rows = read_part(storage, part)
            live |= set(
                rows.filter(pc.equal(rows.column("cause"), LIVE)).column("address").to_pylist()
            )
        return live

    def incomplete(self, request: IncompleteRequest) -> frozenset[str]:
        format = request.format
        storage = format.view(self._open(format.root))
        there = {
            address
            for rows in self._objects(format, request.objects)
            for address in reading.folded(rows.column("address")).to_pylist()
        }
        for part in request.not_back:
            journal = read_part(self._open(request.place.url), part)
            there -= set(reading.folded(recall.not_back(journal, request.aside)).to_pylist())
        for part in request.expired:
            rows = read_part(self._open(request.place.url), part, ["address"])
            there |= set(reading.folded(rows.column("address")).to_pylist())
        found = set()
        for table in reading.owned(format, storage, request.containers):
            self._step("verify")
            for row in range(table.num_rows):
                container = table.slice(row, 1)
                for needed in reading.needs(format, storage, container.select(CONTAINERS.names)):
                    if not there.issuperset(needed.column("address").to_pylist()):
                        found.add(container.column("owner")[0].as_py())
        return frozenset(found)

    def _needed(
        self,
        format: Format,
        containers: ContainerFiles,
        held: Sequence[str],
        place: Place,
        found: Candidates,
    ) -> tuple[set[str], dict[str, tuple[str | None, str | None, int]]]:
        """The live addresses in small letters, and for dead ones (path, kind, cause)."""
        storage, own = format.view(self._open(format.root)), self._open(place.url)
        live: set[str] = set()
        listed: list[str] = []
        dead: dict[str, tuple[str | None, str | None, int]] = {}
        for part in containers.parts:
            self._step("read")
            rows = read_part(own, part)
            guessed = sampling.find_guessed(format, rows).to_pylist()
            for table in reading.read(format, storage, rows, paths=True):
                for row in table.to_pylist():
                    if row["cause"] == LIVE:
                        live.add(row["address"].lower())
                        if row["kind"] not in guessed:
                            listed.append(row["address"])
                        found.read.containers += row["kind"] is not None
                        found.read.entries += row["entries"] or 0
                    else:
                        told = row["path"], row["kind"], row["cause"]
                        before = dead.get(row["address"], told)
                        dead[row["address"]] = min(before, told, key=rank)
                self._admit(len(live))
                self._admit(len(dead))
        found.sample = sample_of(listed, own_objects(format))
        for file in held:
            addresses = hashed_files.read(own, file, ["address"]).column("address").to_pylist()
            found.read.held += len(addresses)
            live.update(address.lower() for address in addresses)
            self._admit(len(live))
        return live, dead

    def _objects(self, format: Format, objects: Objects) -> Iterable[pa.Table]:
        storage = self._open(objects.url)
        for part in objects.parts:
            if objects.verified:
                yield read_part(storage, part)
            else:
                yield inventory.read_inventory(storage, part, objects, format)

    def _write_kinds(self, place: Place, tables: Iterable[pa.Table]) -> Sequence[Part]:
        """Write candidates down, each kind in a file of its own."""
        whole = pa.concat_tables([CANDIDATES.empty_table(), *tables])
        return [
            replace(part, group=kind)
            for kind in whole.column("kind").unique().to_pylist()
            for part in self._write(
                place, kind, CANDIDATES, [whole.filter(pc.equal(whole.column("kind"), kind))]
            )
        ]

    def _write(
        self, place: Place, stem: str, schema: pa.Schema, tables: Iterable[pa.Table]
    ) -> Sequence[Part]:
        whole = pa.concat_tables([schema.empty_table(), *tables])
        if not whole.num_rows:
            return []
        self._admit(whole.num_rows)
        return [write_part(self._open(place.url), place.at(f"{stem}.parquet"), whole)]

    def _admit_parts(self, parts: Sequence[Part]) -> None:
        self._admit(sum(part.rows for part in parts))

    def _admit(self, objects: int) -> None:
        """Refuse more objects, or entries of containers, than fit into memory."""
        if objects > self._most:
            raise Refused(
                f"the store has more than {self._most:,} objects or entries, too many for the "
                "local engine",
                hint="repeat the command with --engine spark",
            )
