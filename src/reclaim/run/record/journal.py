"""The journal of a plan's applies: what each was about to take, and what became of it.

Both are files with a list. A wave that was cut off leaves no list of what it did; what it may have
done is among what its apply was about to do. The lists of earlier applies count only as far as the
run's record knows them; see ``known_lists``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow.compute as pc

from reclaim.engine import pipelines
from reclaim.engine.base import Engine
from reclaim.engine.tasks.deleting import FAILED, Outcome
from reclaim.engine.tasks.parts import Part, Place, read_part
from reclaim.errors import Corrupt, PlanRefused
from reclaim.run.record.known_lists import (
    ABSENT,
    INTENTIONS,
    OUTCOMES,
    Hashes,
    Lists,
    encode,
    hash_of,
    log,
    read_lists,
)
from reclaim.storage import Storage


def _unrecorded(lists: Lists) -> None:
    """The journal of an undo or a purge: nobody reads it after its own run."""


class Journal:
    """The notes of this apply and earlier ones of the same plan.

    ``known`` are the lists in the record of the run; ``record`` writes the lists of now there.
    """

    def __init__(
        self,
        storage: Storage,
        applies: Place,
        own: Place,
        *,
        known: Hashes | None,
        record: Callable[[Lists], None] = _unrecorded,
    ) -> None:
        self._storage = storage
        self._applies = applies
        self.own = own
        self._record = record
        self._lists = read_lists(storage, applies, known)
        self._known = self._lists.known
        self.begun = known is None or bool(known)
        """Whether an earlier apply was about to take something."""
        self._new_intended: list[Part] = []
        self._outcomes: list[tuple[Part, Outcome]] = []

    @property
    def lists(self) -> Lists:
        """The lists that are believed, as the record of the run is to have them."""
        return {name: tuple(hashes) for name, hashes in self._known.items()}

    @property
    def lost(self) -> Sequence[str]:
        """Lists that the record knows and that are not there any more, or are others."""
        return tuple(self._lists.lost)

    @property
    def given_up(self) -> bool:
        """Whether a list was lost or damaged when the plan was applied again."""
        return any(not hashes for hashes in self._known.values())

    def find_damaged(self, engine: Engine, place: Place) -> Sequence[str]:
        """The lists that are lost, or of which a file is not as it was written."""
        damaged = list(self._lists.lost)
        for name, rows in self._lists.rows.items():
            try:
                pipelines.verify(engine, [part for part, _ in rows], place)
            except (PlanRefused, Corrupt) as error:
                log.warning("the list %s is damaged: %s", name, error.message)
                damaged.append(name)
        return damaged

    def give_up(self, names: Sequence[str]) -> None:
        """Believe some lists no longer.

        For another apply of the plan, which takes again what no list has.
        """
        for name in names:
            self._lists.give_up(name)
        self._lists.lost.clear()

    def intend(self, parts: Sequence[Part]) -> None:
        """Note what is about to be taken, before the first of it is, and before it is recorded."""
        self._new_intended += parts
        self._storage.flush(part.address for part in parts)
        body = encode([(part, Outcome()) for part in parts])
        self._write(INTENTIONS, body)
        self._known[self._name(INTENTIONS)] = [hash_of(body)]

    def intended_rows(self) -> int:
        """How many objects were about to be taken, by all applies together."""
        return sum(part.rows for part in self.intended())

    def intended(self) -> list[Part]:
        """Every file with objects that were about to be taken."""
        return [*(part for part, _ in self._lists.of(INTENTIONS)), *self._new_intended]

    def parts(self) -> list[Part]:
        """Every file with outcomes."""
        return [part for part, _ in [*self._lists.of(OUTCOMES), *self._outcomes]]

    def note(self, kind: str, parts: Sequence[Part], outcome: Outcome) -> None:
        """Make the outcomes of a wave count."""
        for number, part in enumerate(parts):
            # The list has the counts of a wave once.
            counted = outcome if number == 0 else Outcome()
            self._outcomes.append((replace(part, group=kind), counted))
        self._storage.flush(part.address for part in parts)
        body, name = encode(self._outcomes), self._name(OUTCOMES)
        before = self._known.get(name, [ABSENT])
        # Recorded first: cut off at any point, the list that is there is one that is known.
        self._known[name] = [*before, hash_of(body)]
        self._record(self.lists)
        self._write(OUTCOMES, body)
        self._known[name] = [hash_of(body)]

    def total(self) -> Outcome:
        """The outcome of all applies together. A failure counts once, as the last one left it."""
        total = Outcome()
        for _, outcome in self._lists.of(OUTCOMES):
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

    def _name(self, name: str) -> str:
        return self.own.at(name).removeprefix(self._applies.prefix)

    def _write(self, name: str, body: bytes) -> None:
        self._storage.put(self.own.at(name), body)
        self._storage.flush([self.own.at(name)])
