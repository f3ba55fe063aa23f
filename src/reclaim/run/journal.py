"""The journal of a plan's applies: what each was about to take, and what became of it.

Both are files with a list. A wave that was cut off leaves no list of what it did; what it may have
done is among what its apply was about to do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow.compute as pc

from reclaim.engine.tasks.deleting import FAILED, Outcome
from reclaim.engine.tasks.parts import Part, Place, read_part
from reclaim.errors import Corrupt
from reclaim.storage import Storage

OUTCOMES = "journal.json"
INTENTIONS = "intended.json"


class Journal:
    """What this apply and earlier ones of the same plan have noted."""

    def __init__(self, storage: Storage, applies: Place, own: Place) -> None:
        self._storage = storage
        self.own = own
        self._earlier = list(_lists(storage, applies, OUTCOMES))
        self._intended = [part for part, _ in _lists(storage, applies, INTENTIONS)]
        self._outcomes: list[tuple[Part, Outcome]] = []

    @property
    def begun(self) -> bool:
        """Whether an earlier apply was about to take something."""
        return bool(self._intended)

    def intend(self, parts: Sequence[Part]) -> None:
        """Note what is about to be taken, before the first of it is."""
        self._intended += parts
        self._storage.flush(part.address for part in parts)
        self._write(INTENTIONS, [(part, Outcome()) for part in parts])

    def intended_rows(self) -> int:
        """How many objects were about to be taken, by all applies together."""
        return sum(part.rows for part in self._intended)

    def intended(self) -> list[Part]:
        """Every file with objects that were about to be taken."""
        return list(self._intended)

    def parts(self) -> list[Part]:
        """Every file with outcomes."""
        return [part for part, _ in [*self._earlier, *self._outcomes]]

    def note(self, kind: str, parts: Sequence[Part], outcome: Outcome) -> None:
        """Make the outcomes of a wave count."""
        for number, part in enumerate(parts):
            # The list has the counts of a wave once.
            counted = outcome if number == 0 else Outcome()
            self._outcomes.append((replace(part, group=kind), counted))
        self._storage.flush(part.address for part in parts)
        self._write(OUTCOMES, self._outcomes)

    def total(self) -> Outcome:
        """What all applies did together. What failed counts once, as the last one left it."""
        total = Outcome()
        for _, outcome in self._earlier:
            total.add(outcome.without(FAILED))
        for _, outcome in self._outcomes:
            total.add(outcome)
        return total

    def taken(self, kind: str) -> frozenset[str]:
        """The objects of a kind that are gone."""
        found: set[str] = set()
        for part in self.parts():
            if part.group == kind:
                rows = read_part(self._storage, part, ["address", "outcome"])
                gone = rows.filter(pc.not_equal(rows.column("outcome"), FAILED))
                found.update(gone.column("address").to_pylist())
        return frozenset(found)

    def own_parts(self) -> list[Part]:
        """Every file with outcomes of this apply."""
        return [part for part, _ in self._outcomes]

    def failures(self, most: int) -> list[str]:
        """Why this apply could not take the first few of what it could not."""
        failures: list[str] = []
        for part in self.own_parts():
            rows = read_part(self._storage, part, ["outcome", "error"])
            failed = rows.filter(pc.equal(rows.column("outcome"), FAILED)).column("error")
            failures += [error or "" for error in failed.slice(0, most - len(failures)).to_pylist()]
            if len(failures) == most:
                break
        return failures

    def _write(self, name: str, rows: Sequence[tuple[Part, Outcome]]) -> None:
        body = [
            {
                "kind": part.group,
                "address": part.address,
                "rows": part.rows,
                "sha256": part.sha256,
                "outcome": outcome.encode(),
            }
            for part, outcome in rows
        ]
        self._storage.put(self.own.at(name), json.dumps(body).encode())
        self._storage.flush([self.own.at(name)])


def _lists(storage: Storage, applies: Place, name: str) -> Iterator[tuple[Part, Outcome]]:
    for stored in storage.list(applies.prefix.rstrip("/")):
        if stored.address.endswith("/" + name):
            try:
                for row in json.loads(storage.get(stored.address)):
                    part = Part(row["address"], row["rows"], row["sha256"], row["kind"])
                    yield part, Outcome.decode(row.get("outcome", ()))
            except (ValueError, KeyError, TypeError) as error:
                raise Corrupt(
                    f"{stored.address} is not the list that a run wrote",
                    hint="restore it from a backup",
                ) from error
