"""Finishing lifecycle runs that have promoted what they take, and were cut off before it was taken.

For readers it is gone already, and no other run can claim it. So whoever runs next finishes it: if
the rules are still those that it was planned by, and within the limits of the new run. Otherwise a
person decides, and the new run does not begin.
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
from reclaim.run.apply.admission import exclude_options
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.apply.limits import NO_LIMITS, Limits
from reclaim.run.lifecycle.done_before import DoneBefore
from reclaim.run.plan import plan_file
from reclaim.run.plan.checks import check_files
from reclaim.run.plan.plan_document import PlanDocument
from reclaim.run.record.journal import Journal
from reclaim.run.record.known_lists import known_lists
from reclaim.run.record.stages import Watcher
from reclaim.run.roots.cut_off import find_cut_off
from reclaim.run.sweep.removal import DELETE, OPTIONS, Removal, removal_of
from reclaim.run_record import Action, RunRecord
from reclaim.stores.abilities import TakesReferenced
from reclaim.stores.base import Store

log = logging.getLogger(__name__)


def find_unfinished(store: Store) -> Iterator[RunRecord]:
    """The runs that were cut off and that somebody may finish, the oldest first.

    Not one that was begun to be undone or purged: that is to be finished.
    """
    for run in find_cut_off(store):
        if run.allows(Action.APPLY):
            yield run


def finish_unfinished(
    store: Store,
    engine: Engine,
    *,
    limits: Limits = NO_LIMITS,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> DoneBefore:
    """Finish every such run in the way that it was begun; returns what was done.

    A run whose plan, or a file of it, is gone or damaged is left and logged: only ``undo`` ends
    such a run. So is a run of which some objects cannot be taken, which waits for the next one. A
    run by other rules than those of now, or beyond the ``limits``, is refused.
    """
    done = DoneBefore()
    with done.telling():
        for run in list(find_unfinished(store)):
            _finish(store, engine, run, done, limits=limits, watcher=watcher, opener=opener)
    return done


def _finish(
    store: Store,
    engine: Engine,
    run: RunRecord,
    done: DoneBefore,
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
            "lifecycle run %s is not finished: %s; release what it has not taken: reclaim undo %s",
            run.id,
            error.message,
            run.id,
        )
        done.add_partial(run.id, error)
    else:
        done.add(applied)


@dataclass(frozen=True, slots=True)
class _Unfinished:
    """A run that was cut off, with its plan."""

    store: Store
    run: RunRecord
    place: Place
    planned: PlanDocument

    def check(self, limits: Limits, opener: Opener) -> None:
        """Refuse to finish it unless nobody could be surprised by that."""
        if not self._has_rules_of_now():
            raise Refused(
                f"lifecycle run {self.run.id} was cut off when it had begun to take objects, and "
                f"the lifecycle rules of {self.store.name} are other ones than it was planned by",
                hint=f"nothing was changed; {self._ways_out()}",
                run=self.run.id,
            )
        objects, size = self._count_left(opener)
        if (limits.objects is not None and objects > limits.objects) or (
            limits.size is not None and size > limits.size
        ):
            raise TooMuch(
                f"lifecycle run {self.run.id} was cut off and has to be finished first, and it may "
                f"take {objects} objects and {size} bytes: more than --max-objects or --max-bytes "
                "allows",
                hint=f"nothing was changed; {self._ways_out()}",
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
        """At most so many objects and bytes has it not taken yet: what a wave did that was cut off
        is not counted as taken."""
        assert isinstance(self.store, TakesReferenced)
        applies = self.place.below("apply")
        known = known_lists(self.run)
        taken = Journal(opener(self.place.url), applies, applies, known=known).total()
        done = taken.without(FAILED)
        objects = self.store.count_expired(self.run.id) - done.counts.total()
        return max(objects, 0), max(self.planned.candidate_bytes - done.sizes.total(), 0)

    def _ways_out(self) -> str:
        removal = removal_of(self.run)
        how = OPTIONS[removal.name] if removal is not None else ""
        command = ("reclaim apply", str(self.place), how, exclude_options(self.run.left_out.globs))
        return (
            f"finish it: {' '.join(filter(None, command))}; or release what it has not taken: "
            f"reclaim undo {self.run.id}"
        )
