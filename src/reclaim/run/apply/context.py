"""The context of an apply: the store under its lock, the plan, and how it is applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reclaim.engine.base import Engine
from reclaim.engine.tasks.parts import Opener, Place
from reclaim.ids import new_uid
from reclaim.run.apply.admission import exclude_options
from reclaim.run.apply.exclusion import Exclusion
from reclaim.run.apply.trust import Basis
from reclaim.run.plan.checks import check_clock
from reclaim.run.plan.plan_document import PlanDocument
from reclaim.run.record.stages import Watcher
from reclaim.run.roots.request import RootRequest
from reclaim.run.roots.roots import hold_roots
from reclaim.run.sweep.removal import Removal
from reclaim.run_record import Phase, RunRecord
from reclaim.storage import Storage
from reclaim.stores.base import Held, Store
from reclaim.stores.observation import Observation, ObserveRequest


@dataclass(frozen=True, slots=True)
class ApplyContext:
    """The subject of one apply; nothing of it changes on the way."""

    store: Store
    held: Held
    """The store under its lock."""
    engine: Engine
    place: Place
    """Where the plan is."""
    own: Place
    """The folder of this apply, in the place of the plan."""
    planned: PlanDocument
    """The plan as somebody has seen it."""
    basis: Basis
    """The decisions by which objects are taken, and those objects."""
    exclusion: Exclusion | None
    removal: Removal
    watcher: Watcher
    opener: Opener
    earlier: RunRecord | None
    """The record that earlier applies of the plan have left."""

    @property
    def run(self) -> str:
        return self.planned.run

    @property
    def storage(self) -> Storage:
        """The storage of the plan."""
        return self.opener(self.place.url)

    @property
    def work(self) -> Place:
        """The folder for files that nobody needs after this apply."""
        return self.own.below("work")

    @property
    def begun(self) -> bool:
        """Whether an earlier apply may have taken something, even if this one does not get so
        far."""
        return self.earlier is not None and self.earlier.phase != Phase.STOPPED

    @property
    def globs(self) -> Sequence[str]:
        """The globs of paths that a person leaves out."""
        return () if self.exclusion is None else self.exclusion.globs

    @property
    def command(self) -> str:
        """The command that goes on with this run."""
        words = ("reclaim apply", str(self.place), exclude_options(self.globs))
        return " ".join(filter(None, words))

    def check_clock(self) -> None:
        """Refuse a clock that cannot be believed.

        The plan may lie elsewhere, so it is the store's own storage that is asked.
        """
        place = Place(*self.store.place(self.run)).below("work")
        check_clock(self.store, self.store.storage, place)

    @property
    def roots(self) -> RootRequest:
        """The request for the roots of the store."""
        return RootRequest(
            self.store,
            self.engine,
            self.run,
            self.work,
            self.opener,
            left_out=self.exclusion.needing if self.exclusion else (),
            takes_referenced=self.planned.lifecycle is not None,
        )

    def observe(self) -> Observation:
        """The roots as they are now, if the lock is still held."""
        return hold_roots(self.observe_store(), self.roots)

    def observe_store(self) -> Observation:
        """The roots that the store itself reports, if the lock is still held."""
        self.held.lock.check()
        return self.store.observe(
            ObserveRequest(
                self.storage,
                self.work.at(f"{new_uid()}/"),
                self.engine,
                self.basis.margin,
                settled=True,
            )
        )
