"""Finish lifecycle runs interrupted after their promotion.

Readers no longer see the promoted data, and no other run can claim it. So the next run finishes the
interrupted run: if the rules are unchanged since its plan, and within the limits of the new run.
Otherwise a person decides, and the new run does not start.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass

from reclaim.engine.base import Engine
from reclaim.engine.tasks.deleting import FAILED
from reclaim.engine.tasks.parts import Opener, Place, open_storage
from reclaim.errors import Corrupt, NotFound, Partial, PlanRefused, Refused, TooMuch, UnknownVersion
from reclaim.policy.lifecycle import decode_lifecycle, lifecycle_document
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.apply.limits import NO_LIMITS, Limits
from reclaim.run.apply.preconditions import exclude_options
from reclaim.run.lifecycle.earlier_runs import EarlierRuns
from reclaim.run.plan import plan_file
from reclaim.run.plan.checks import check_files
from reclaim.run.plan.plan_document import PlanDocument
from reclaim.run.record.journal import Journal
from reclaim.run.record.known_lists import known_lists
from reclaim.run.record.stages import Watcher
from reclaim.run.roots.interrupted_runs import find_interrupted
from reclaim.run.sweep.removal import DELETE, OPTIONS, Removal, removal_of
from reclaim.run_record import Action, RunRecord
from reclaim.stores.abilities import TakesReferenced
from reclaim.stores.base import Store

log = logging.getLogger(__name__)


def find_unfinished(store: Store) -> Iterator[RunRecord]:
    """Interrupted runs that may be finished, oldest first.

    Excludes runs whose undo or purge has begun: finish these instead.
    """
    for run in find_interrupted(store):
        if run.allows(Action.APPLY):
            yield run


def finish_unfinished(
    store: Store,
    engine: Engine,
    *,
    limits: Limits = NO_LIMITS,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> EarlierRuns:
    """Finish all such runs with their original options; return their results.

    A run is skipped and logged if its plan, or a file of it, is missing or damaged: only ``undo``
    ends such a run. A run with failed deletes is left for the next run. A run with other rules than
    the current ones, or beyond the ``limits``, is refused.
    """
    done = EarlierRuns()
    with done.add_to_errors():
        for run in list(find_unfinished(store)):
            _finish(store, engine, run, done, limits=limits, watcher=watcher, opener=opener)
    return done


def _finish(
    store: Store,
    engine: Engine,
    run: RunRecord,
    done: EarlierRuns,
    *,
    limits: Limits,
    watcher: Watcher | None,
    opener: Opener,
) -> None:
    removal: Removal = removal_of(run) or DELETE
    globs = run.left_out.globs
    try:
        place, planned = plan_file.find(opener(run.place), run.place)
        check_files(engine, opener(place.url), place, planned)
    except (NotFound, PlanRefused, UnknownVersion, Corrupt) as error:
        log.warning(
            "lifecycle run %s cannot be finished: %s; undo it: reclaim undo %s",
            run.id,
            error.message,
            run.id,
        )
        return
    _Unfinished(store, run, place, planned).check(limits, opener)
    try:
        applied = apply_plan(
            store,
            engine,
            place,
            planned=planned,
            removal=removal,
            exclude=globs,
            watcher=watcher,
            opener=opener,
        )
    except Partial as error:
        if not error.details.get("failed"):
            raise
        log.warning(
            "lifecycle run %s is not finished: %s; release its remaining objects: reclaim undo %s",
            run.id,
            error.message,
            run.id,
        )
        done.add_partial(run.id, error)
    else:
        done.add(applied)


@dataclass(frozen=True, slots=True)
class _Unfinished:
    """Interrupted run, with its plan."""

    store: Store
    run: RunRecord
    place: Place
    planned: PlanDocument

    def check(self, limits: Limits, opener: Opener) -> None:
        """Refuse to finish the run if its rules changed, or beyond the limits."""
        if not self._has_rules_of_now():
            raise Refused(
                f"lifecycle run {self.run.id} was interrupted after its promotion, and the "
                f"lifecycle rules of {self.store.name} have changed since its plan",
                hint=f"nothing was changed; {self._options_hint()}",
                run=self.run.id,
            )
        objects, size = self._count_left(opener)
        if (limits.objects is not None and objects > limits.objects) or (
            limits.size is not None and size > limits.size
        ):
            raise TooMuch(
                f"lifecycle run {self.run.id} was interrupted and must be finished first, but it "
                f"may delete {objects} objects and {size} bytes: more than --max-objects or "
                "--max-bytes allows",
                hint=f"nothing was changed; {self._options_hint()}",
                run=self.run.id,
                candidates=objects,
                bytes=size,
            )

    def _has_rules_of_now(self) -> bool:
        section = self.planned.lifecycle
        if section is None or not isinstance(self.store, TakesReferenced):
            return False
        document = self.store.stored_lifecycle()
        if document is None:
            return False
        stored = decode_lifecycle(document, repository=self.store.name)
        return lifecycle_document(stored.policy) == section.policy

    def _count_left(self, opener: Opener) -> tuple[int, int]:
        """Maximum number of objects and bytes not deleted yet. Objects of an interrupted wave count
        as not deleted."""
        assert isinstance(self.store, TakesReferenced)
        applies = self.place.below("apply")
        known = known_lists(self.run)
        taken = Journal(opener(self.place.url), applies, applies, known=known).total()
        done = taken.without(FAILED)
        objects = self.store.count_expired(self.run.id) - done.counts.total()
        return max(objects, 0), max(self.planned.candidate_bytes - done.sizes.total(), 0)

    def _options_hint(self) -> str:
        removal = removal_of(self.run)
        option = OPTIONS[removal.name] if removal is not None else ""
        command = (
            "reclaim apply",
            str(self.place),
            option,
            exclude_options(self.run.left_out.globs),
        )
        return (
            f"finish it: {' '.join(filter(None, command))}; or release its remaining objects: "
            f"reclaim undo {self.run.id}"
        )
