"""The request for the roots of a store, made by a plan and its apply."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import pyarrow as pa

from reclaim.engine.base import Engine
from reclaim.engine.tasks.parts import Opener, Part, Place, write_hashed
from reclaim.run.plan.decide import Decided
from reclaim.storage import Storage
from reclaim.stores.base import Store
from reclaim.stores.observation import Observation


class Moment(Enum):
    """When a source of roots is read."""

    BEFORE_DECIDING = "before the run decides which snapshots are live"
    AFTER_MARKING = "after the containers of live snapshots are marked"


@dataclass(frozen=True, slots=True)
class MarkedRoots:
    """Decisions about a history, and the containers of live snapshots."""

    known: Sequence[Part]
    """Containers already read; entries of the live containers are no candidates."""
    decided: Decided | None = None
    """Decisions with a pending history edit."""


@dataclass(frozen=True, slots=True)
class RootRequest:
    """The requesting run, and the folder for files with addresses."""

    store: Store
    engine: Engine
    run: str
    """Requesting run; its own promises do not bind it."""
    place: Place
    """Folder in the storage of the plan."""
    opener: Opener
    left_out: Sequence[str] = ()
    """Addresses excluded from a plan; objects they depend on stay as well."""
    takes_referenced: bool = False
    """Whether the run deletes objects referenced by live snapshots."""
    marked: MarkedRoots | None = None
    """None before the run has decided which snapshots are live."""

    @property
    def moment(self) -> Moment:
        return Moment.BEFORE_DECIDING if self.marked is None else Moment.AFTER_MARKING

    @property
    def own(self) -> Storage:
        """Storage of the plan."""
        return self.opener(self.place.url)

    @property
    def storage(self) -> Storage:
        """Storage of the store."""
        return self.opener(self.store.storage.url)

    def after_marking(self, known: Sequence[Part], decided: Decided | None = None) -> RootRequest:
        """Return the request for the time after the containers are marked."""
        return replace(self, marked=MarkedRoots(known, decided))

    def write(self, name: str, addresses: Iterable[str]) -> Part:
        """Write addresses to a file whose name ends with its hash."""
        rows = pa.table({"address": pa.array(addresses, pa.string())})
        return write_hashed(self.own, self.place.at(name), rows)


HoldRoots = Callable[[Observation, RootRequest], Observation]
"""Adds the roots of a source to an observation."""


def holding(seen: Observation, parts: Sequence[Part]) -> Observation:
    """Add the addresses in files to the held addresses of an observation."""
    if not parts:
        return seen
    return replace(
        seen,
        held=(*seen.held, *(part.address for part in parts)),
        held_count=seen.held_count + sum(part.rows for part in parts),
    )
