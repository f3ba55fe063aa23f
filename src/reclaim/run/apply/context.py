"""The context of an apply: the locked store, the plan, and the options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reclaim.engine.base import Engine
from reclaim.engine.tasks.parts import Opener, Place
from reclaim.ids import new_uid
from reclaim.run.apply.exclusion import Exclusion
from reclaim.run.apply.preconditions import exclude_options
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
    """Inputs of an apply. Immutable."""

    store: Store
    held: Held
    """The store, locked."""
    engine: Engine
    place: Place
    """Folder of the plan."""
    own: Place
    """Folder of this apply, below the plan."""
    planned: PlanDocument
    """The plan as reviewed."""
    basis: Basis
    """Decisions to apply, with the candidates."""
    exclusion: Exclusion | None
    removal: Removal
    watcher: Watcher
    opener: Opener
    earlier: RunRecord | None
    """Record left by earlier applies of the plan."""

    @property
    def run(self) -> str:
        return self.planned.run

    @property
    def storage(self) -> Storage:
        """Storage of the plan."""
        return self.opener(self.place.url)

    @property
    def work(self) -> Place:
        """Folder for temporary files of this apply."""
        return self.own.below("work")

    @property
    def begun(self) -> bool:
        """Whether an earlier apply may have deleted objects, even if this apply stops before
        that."""
        return self.earlier is not None and self.earlier.phase != Phase.STOPPED

    @property
    def globs(self) -> Sequence[str]:
        """Globs of excluded paths."""
        return () if self.exclusion is None else self.exclusion.globs

    @property
    def command(self) -> str:
        """Command to continue this run."""
        words = ("reclaim apply", str(self.place), exclude_options(self.globs))
        return " ".join(filter(None, words))

    def check_clock(self) -> None:
        """Refuse an untrustworthy clock.

        The clock is compared with the store's own storage, because the plan may be stored
        elsewhere.
        """
        place = Place(*self.store.place(self.run)).below("work")
        check_clock(self.store, self.store.storage, place)

    @property
    def roots(self) -> RootRequest:
        """Request for the roots of the store."""
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
        """Read all roots, if the lock is still held."""
        return hold_roots(self.observe_store(), self.roots)

    def observe_store(self) -> Observation:
        """Read the roots reported by the store itself, if the lock is still held."""
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
