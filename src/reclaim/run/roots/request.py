"""The request for the roots of a store, as a plan and its apply make it."""

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
    """When a source of roots is asked."""

    BEFORE_DECIDING = "before the run decides which snapshots are live"
    AFTER_MARKING = "after the containers of live snapshots are marked"


@dataclass(frozen=True, slots=True)
class MarkedRoots:
    """The decisions about a history, and the containers of live snapshots."""

    known: Sequence[Part]
    """Containers that were read: what the live ones among them list is no candidate."""
    decided: Decided | None = None
    """The decisions, where the history is yet to be edited by them."""


@dataclass(frozen=True, slots=True)
class RootRequest:
    """The run that asks, and the place for files with addresses."""

    store: Store
    engine: Engine
    run: str
    """The run that asks: its own promises do not bind it."""
    place: Place
    """A folder in the storage of the plan."""
    opener: Opener
    left_out: Sequence[str] = ()
    """Addresses that a person leaves out of a plan: their needs stay as well."""
    takes_referenced: bool = False
    """Whether the run takes objects that live snapshots refer to."""
    marked: MarkedRoots | None = None
    """None before the run has decided which snapshots are live."""

    @property
    def moment(self) -> Moment:
        return Moment.BEFORE_DECIDING if self.marked is None else Moment.AFTER_MARKING

    @property
    def own(self) -> Storage:
        """The storage of the plan."""
        return self.opener(self.place.url)

    @property
    def storage(self) -> Storage:
        """The storage of the store."""
        return self.opener(self.store.storage.url)

    def after_marking(self, known: Sequence[Part], decided: Decided | None = None) -> RootRequest:
        """The same request, after the containers are marked."""
        return replace(self, marked=MarkedRoots(known, decided))

    def write(self, name: str, addresses: Iterable[str]) -> Part:
        """Write addresses down, in a file whose name ends with its hash."""
        rows = pa.table({"address": pa.array(addresses, pa.string())})
        return write_hashed(self.own, self.place.at(name), rows)


HoldRoots = Callable[[Observation, RootRequest], Observation]
"""Adds the roots of one source to an observation."""


def holding(seen: Observation, parts: Sequence[Part]) -> Observation:
    """An observation that also holds the addresses in some files."""
    if not parts:
        return seen
    return replace(
        seen,
        held=(*seen.held, *(part.address for part in parts)),
        held_count=seen.held_count + sum(part.rows for part in parts),
    )
