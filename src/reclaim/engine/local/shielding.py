"""The steps that keep what a store protects, on the local engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from reclaim.engine.tasks import shielding
from reclaim.engine.tasks.judging import PATHS
from reclaim.engine.tasks.parts import Opener, Part, Place, read_part
from reclaim.engine.tasks.shielding import (
    SHIELDS,
    Matches,
    MatchRequest,
    MergeRequest,
    ShieldRequest,
)
from reclaim.storage import Storage, hashed_files


class ShieldingSteps:
    """The part of the local engine for globs that a store protects."""

    _open: Opener
    _step: Callable[[str], None]

    def match(self, request: MatchRequest) -> Matches:
        self._step("match")
        format, place = request.format, request.place
        storage, own = format.view(self._open(format.root)), self._open(place.url)
        counts = shielding.MatchCounts()
        tables = [
            table
            for part in request.containers
            for table in shielding.match_dead(
                format, storage, read_part(own, part), request.globs, counts
            )
        ]
        for part in request.listed:
            rows = read_part(own, part)
            counts.containers += shielding.count_listed(rows)
            tables.append(shielding.match_paths(rows, request.globs))
        written = self._write(place, "part", PATHS, tables)
        return Matches(written, counts.containers, counts.unread)

    def shield(self, request: ShieldRequest) -> Sequence[Part]:
        self._step("shield")
        own, store = self._open(request.place.url), self._open(request.url)
        tables = [read_part(own, part) for part in request.matches]
        tables += [read_part(store, part) for part in request.remembered]
        tables += [hashed_files.read(own, file) for file in request.files]
        found = [shielding.shields_of(table, request.globs) for table in tables]
        return self._write(request.place, "part", SHIELDS, found)

    def merge(self, request: MergeRequest) -> Sequence[Part]:
        self._step("merge")
        own = self._open(request.place.url)
        pairs = {
            (row["address"], row["path"])
            for part in request.parts
            for row in shielding.match_paths(read_part(own, part), request.globs).to_pylist()
        }
        rows = [dict(zip(PATHS.names, pair, strict=True)) for pair in sorted(pairs)]
        return self._write(request.place, "part", PATHS, [pa.Table.from_pylist(rows, PATHS)])

    def _write(
        self, place: Place, stem: str, schema: pa.Schema, tables: Iterable[pa.Table]
    ) -> Sequence[Part]:
        raise NotImplementedError


def shielded(rows: pa.Table, parts: Sequence[Part], storage: Storage) -> pa.Array:
    """The glob that shields each object, if one does."""
    globs: dict[str, int] = {}
    for part in parts:
        for row in read_part(storage, part).to_pylist():
            address = row["address"].lower()
            globs[address] = min(globs.get(address, row["glob"]), row["glob"])
    names = rows.column("address").to_pylist()
    return pa.array([globs.get(name.lower()) for name in names], pa.int32())
