"""The steps of runs on uncommitted data, on the local engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from reclaim.engine.answers import Candidates
from reclaim.engine.local.sampled import count_sampled, sample_of
from reclaim.engine.local.shielding import shielded
from reclaim.engine.requests import FindRequest
from reclaim.engine.tasks import judging, looking_up
from reclaim.engine.tasks.index import CountedReads
from reclaim.engine.tasks.judging import CANDIDATES, SURVIVORS
from reclaim.engine.tasks.parts import Opener, Part, Place, read_part
from reclaim.engine.tasks.reading import LIVE
from reclaim.engine.tasks.sampling import listed_part
from reclaim.engine.uncommitted import (
    UncommittedFindings,
    UncommittedSearch,
)
from reclaim.storage import LISTED, Storage, hashed_files

Dead = Mapping[str, tuple[str | None, str | None, int]]
"""Addresses that dead containers list: path, kind and cause."""


class UncommittedSteps:
    """The part of the local engine for runs on uncommitted data."""

    _open: Opener
    _step: Callable[[str], None]

    def _search(self, request: FindRequest, search: UncommittedSearch) -> Candidates:
        """Find candidates by the index, and note what the next run needs."""
        format, place = request.format, request.place
        own = self._open(place.url)
        found = Candidates(uncommitted=UncommittedFindings())
        notes = found.uncommitted
        assert notes is not None
        committed = self._committed(request, search, found)
        notes.committed = len(committed) if search.below else 0
        held = self._held(request.held, own, found)
        dead = self._explanations(search.dead, own)
        carried = [LISTED.empty_table()]
        kept: list[pa.Table] = []
        paths = request.rules.load_paths(own)
        tables = [
            read_part(self._open(request.objects.url), part) for part in request.objects.parts
        ]
        for rows in tables:
            found.objects += rows.num_rows
            self._admit(found.objects)
            found.size += pc.sum(rows.column("size")).as_py() or 0
            found.sampled += count_sampled(rows, found.sample)
            looking_up.add_guards(notes.guards, looking_up.count_guards(format, rows))
        if search.unlisted:
            rows, waiting = self._looked_up(request, search, committed, held, notes)
            notes.looked_up = rows.num_rows
            found.objects += rows.num_rows
            found.size += pc.sum(rows.column("size")).as_py() or 0
            carried.append(waiting)
            tables.append(rows)
        for rows in tables:
            self._step("find")
            unlisted = rows.filter(not_among(rows, committed))
            carried.append(unlisted)
            survivors = explained(unlisted.filter(not_among(unlisted, held)), dead)
            shields = shielded(survivors, request.rules.shields, own)
            candidates, verdict = judging.judge(format, survivors, request.rules, paths, shields)
            found.verdict.add(verdict)
            kept.append(candidates)
        found.parts = self._write(place, "part", CANDIDATES, kept)
        notes.carried = self._write(search.carry, "part", LISTED, carried)
        return found

    def _committed(
        self, request: FindRequest, search: UncommittedSearch, found: Candidates
    ) -> set[str]:
        """The live containers and what the index says that they list, in small letters."""
        own = self._open(request.place.url)
        store = CountedReads(self._open(search.url))
        live: set[str] = set()
        for part in request.containers.parts:
            rows = read_part(own, part)
            rows = rows.filter(pc.equal(rows.column("cause"), LIVE))
            found.read.containers += rows.num_rows
            live |= set(rows.column("address").to_pylist())
        named = set(live)
        for storage, parts in ((store, search.index), (own, search.fresh)):
            for part in parts:
                self._step("read")
                rows = read_part(storage, part, ["address", "range"])
                listed = zip(
                    rows.column("address").to_pylist(),
                    rows.column("range").to_pylist(),
                    strict=True,
                )
                named |= {address for address, range_ in listed if range_ in live}
                self._admit(len(named))
        assert found.uncommitted is not None
        found.uncommitted.bytes += store.size
        found.sample = sample_of(
            named, partial(listed_part, request.format, search.below, search.unlisted)
        )
        return {address.lower() for address in named}

    def _held(self, files: Sequence[str], own: Storage, found: Candidates) -> set[str]:
        held: set[str] = set()
        for file in files:
            addresses = hashed_files.read(own, file, ["address"]).column("address").to_pylist()
            found.read.held += len(addresses)
            held.update(address.lower() for address in addresses)
        return held

    def _explanations(self, parts: Sequence[Part], own: Storage) -> Dead:
        dead: dict[str, tuple[str | None, str | None, int]] = {}
        for part in parts:
            for row in read_part(own, part).to_pylist():
                told = row["path"], row["kind"], row["cause"]
                before = dead.get(row["address"], told)
                dead[row["address"]] = min(before, told, key=rank)
        return dead

    def _looked_up(
        self,
        request: FindRequest,
        search: UncommittedSearch,
        committed: set[str],
        held: set[str],
        notes: UncommittedFindings,
    ) -> tuple[pa.Table, pa.Table]:
        """Objects in partitions that were not listed and that nothing refers to; and what is held
        there."""
        format = request.format
        own = self._open(request.place.url)
        store = CountedReads(self._open(search.url))
        named = {
            address
            for storage, parts in ((store, search.carried), (own, search.dead))
            for part in parts
            for address in read_part(storage, part, ["address"]).column("address").to_pylist()
        }
        notes.bytes += store.size
        rows = pa.table({"address": pa.array(sorted(named), pa.string())})
        rows = looking_up.in_guards(format, looking_up.below(search.below, rows), search.unlisted)
        rows = rows.filter(not_among(rows, committed))
        free = not_among(rows, held)
        self._step("look up")
        storage = format.view(self._open(format.root))
        found = looking_up.look_up(storage, rows.filter(free).column("address"))
        notes.missing = looking_up.count_missing(format, rows.filter(free), found)
        return found, looking_up.as_listed(rows.filter(pc.invert(free)).column("address"))

    def _admit(self, objects: int) -> None:
        raise NotImplementedError

    def _write(
        self, place: Place, stem: str, schema: pa.Schema, tables: Iterable[pa.Table]
    ) -> Sequence[Part]:
        raise NotImplementedError


def not_among(rows: pa.Table, addresses: set[str]) -> pa.Array:
    """Whether each row's address, in small letters, is not among some."""
    names = rows.column("address").to_pylist()
    return pa.array([name.lower() not in addresses for name in names], pa.bool_())


def explained(rows: pa.Table, dead: Dead) -> pa.Table:
    """Objects that nothing live reaches, with where a dead container listed them."""
    names = rows.column("address").to_pylist()
    causes = [dead.get(address, (None, None, None)) for address in names]
    columns = [
        *rows.select(LISTED.names).columns,
        *(pa.array([c[at] for c in causes], SURVIVORS.field(3 + at).type) for at in range(3)),
    ]
    return pa.table(columns, schema=SURVIVORS)


def rank(dead: tuple[str | None, str | None, int]) -> tuple[Any, ...]:
    """The least cause comes first, then the first path; one without a path before all."""
    path, kind, cause = dead
    return cause, path is not None, path or "", kind is not None, kind or ""
