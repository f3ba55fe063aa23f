"""The journal of a plan's applies: the objects each apply was about to take, and the outcomes.

Both are files with a list. An interrupted wave leaves no list of outcomes; its objects are among
those its apply was about to take. Lists of earlier applies are used only if the run record has
their hashes; see ``known_lists``.
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
    """Used for the journal of an undo or a purge, which nobody reads after its own run."""


class Journal:
    """Lists of this apply and of earlier applies of the same plan.

    ``known`` has the lists in the run record; ``record`` saves the current lists there.
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
        """Whether an earlier apply was about to take objects."""
        self._new_intended: list[Part] = []
        self._outcomes: list[tuple[Part, Outcome]] = []

    @property
    def lists(self) -> Lists:
        """Trusted lists, as saved in the run record."""
        return {name: tuple(hashes) for name, hashes in self._known.items()}

    @property
    def lost(self) -> Sequence[str]:
        """Lists in the record that are missing or modified."""
        return tuple(self._lists.lost)

    @property
    def given_up(self) -> bool:
        """Whether a list was lost or damaged when the plan was applied again."""
        return any(not hashes for hashes in self._known.values())

    def find_damaged(self, engine: Engine, place: Place) -> Sequence[str]:
        """Names of lists that are lost, or have modified files."""
        damaged = list(self._lists.lost)
        for name, rows in self._lists.rows.items():
            try:
                pipelines.verify(engine, [part for part, _ in rows], place)
            except (PlanRefused, Corrupt) as error:
                log.warning("the list %s is damaged: %s", name, error.message)
                damaged.append(name)
        return damaged

    def give_up(self, names: Sequence[str]) -> None:
        """Stop trusting some lists.

        For another apply of the plan, which takes unlisted objects again.
        """
        for name in names:
            self._lists.give_up(name)
        self._lists.lost.clear()

    def intend(self, parts: Sequence[Part]) -> None:
        """Write the list of objects about to be taken, before the first is taken, and before the
        list is recorded."""
        self._new_intended += parts
        self._storage.flush(part.address for part in parts)
        body = encode([(part, Outcome()) for part in parts])
        self._write(INTENTIONS, body)
        self._known[self._name(INTENTIONS)] = [hash_of(body)]

    def intended_rows(self) -> int:
        """Number of objects all applies were about to take."""
        return sum(part.rows for part in self.intended())

    def intended(self) -> list[Part]:
        """Files listing objects about to be taken."""
        return [*(part for part, _ in self._lists.of(INTENTIONS)), *self._new_intended]

    def parts(self) -> list[Part]:
        """Files with outcomes."""
        return [part for part, _ in [*self._lists.of(OUTCOMES), *self._outcomes]]

    def note(self, kind: str, parts: Sequence[Part], outcome: Outcome) -> None:
        """Add the outcomes of a wave."""
        for number, part in enumerate(parts):
            # The counts of a wave are stored with its first file only.
            counted = outcome if number == 0 else Outcome()
            self._outcomes.append((replace(part, group=kind), counted))
        self._storage.flush(part.address for part in parts)
        body, name = encode(self._outcomes), self._name(OUTCOMES)
        before = self._known.get(name, [ABSENT])
        # Recorded first: after an interruption at any point, the existing list is a known list.
        self._known[name] = [*before, hash_of(body)]
        self._record(self.lists)
        self._write(OUTCOMES, body)
        self._known[name] = [hash_of(body)]

    def total(self) -> Outcome:
        """Total outcome of all applies. A failure counts once, as of the last apply."""
        total = Outcome()
        for _, outcome in self._lists.of(OUTCOMES):
            total.add(outcome.without(FAILED))
        for _, outcome in self._outcomes:
            total.add(outcome)
        return total

    def taken(self, kind: str) -> frozenset[str]:
        """Addresses of deleted objects of a kind."""
        addresses: set[str] = set()
        for part in self.parts():
            if part.group == kind:
                rows = read_part(self._storage, part, ["address", "outcome"])
                gone = rows.filter(pc.not_equal(rows.column("outcome"), FAILED))
                addresses.update(gone.column("address").to_pylist())
        return frozenset(addresses)

    def own_parts(self) -> list[Part]:
        """Files with outcomes of this apply."""
        return [part for part, _ in self._outcomes]

    def failures(self, limit: int) -> list[str]:
        """Errors of the first few failures in this apply."""
        failures: list[str] = []
        for part in self.own_parts():
            rows = read_part(self._storage, part, ["outcome", "error"])
            failed = rows.filter(pc.equal(rows.column("outcome"), FAILED)).column("error")
            failures += [
                error or "" for error in failed.slice(0, limit - len(failures)).to_pylist()
            ]
            if len(failures) == limit:
                break
        return failures

    def _name(self, name: str) -> str:
        return self.own.at(name).removeprefix(self._applies.prefix)

    def _write(self, name: str, body: bytes) -> None:
        self._storage.put(self.own.at(name), body)
        self._storage.flush([self.own.at(name)])
