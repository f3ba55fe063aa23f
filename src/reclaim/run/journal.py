"""The journal of a plan's applies: what became of each object, in files with a list.

A wave that was cut off leaves no list. What it deleted is deleted again, which does no harm.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

import pyarrow.compute as pc

from reclaim.storage import Storage
from reclaim.tasks.deleting import FAILED
from reclaim.tasks.parts import Part, Place, read_part

LIST = "journal.json"


class Journal:
    """The outcomes that this apply and earlier ones of the same plan have noted."""

    def __init__(self, storage: Storage, applies: Place, own: Place) -> None:
        self._storage = storage
        self._own = own
        self._waves: list[tuple[str, Part]] = [
            (kind, part) for kind, part in _earlier(storage, applies)
        ]
        self._mine: list[tuple[str, Part]] = []

    def parts(self) -> list[Part]:
        """Every file with outcomes."""
        return [part for _, part in [*self._waves, *self._mine]]

    def note(self, kind: str, parts: Sequence[Part]) -> None:
        """Make the outcomes of a wave count."""
        self._mine.extend((kind, part) for part in parts)
        rows = [
            {"kind": kind, "address": part.address, "rows": part.rows, "sha256": part.sha256}
            for kind, part in self._mine
        ]
        self._storage.put(self._own.at(LIST), json.dumps(rows).encode())

    def taken(self, wanted: str) -> frozenset[str]:
        """The objects of a kind that are gone."""
        found: set[str] = set()
        for kind, part in [*self._waves, *self._mine]:
            if kind == wanted:
                rows = read_part(self._storage, part, ["address", "outcome"])
                gone = rows.filter(pc.not_equal(rows.column("outcome"), FAILED))
                found.update(gone.column("address").to_pylist())
        return frozenset(found)


def _earlier(storage: Storage, applies: Place) -> Iterator[tuple[str, Part]]:
    for stored in storage.list(applies.prefix.rstrip("/")):
        if stored.address.endswith("/" + LIST):
            for row in json.loads(storage.get(stored.address)):
                yield row["kind"], Part(row["address"], row["rows"], row["sha256"])
