"""Apply: condemn, confirm, sweep, record. Every apply repeats all steps from the start.

*Condemn* marks every snapshot that is not live, until a single read of the roots shows all of them
marked. From this read on nobody can build on a dead snapshot. The same read is the *confirm*: any
id it reaches that was unknown to the plan leaves the plan. Only then are the marks made terminal
and the first byte deleted. Contents never change, so a plan may be days old.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from reclaim.engine.base import Engine
from reclaim.engine.tasks.deleting import FAILED, Outcome
from reclaim.engine.tasks.parts import Opener, Part, Place, open_storage
from reclaim.engine.tasks.tally import OBJECTS
from reclaim.errors import LockLost, PlanRefused, ReclaimError
from reclaim.globs import check_globs
from reclaim.ids import new_uid
from reclaim.model import SnapshotId
from reclaim.run.apply.applied import Applied
from reclaim.run.apply.applying import Applying
from reclaim.run.apply.collecting import collect
from reclaim.run.apply.condemning import condemn, find_left_whole
from reclaim.run.apply.confirming import confirm
from reclaim.run.apply.context import ApplyContext
from reclaim.run.apply.editing import Editing
from reclaim.run.apply.exclusion import exclude as leave_out
from reclaim.run.apply.exclusion_list import list_left_out
from reclaim.run.apply.finished_plan import applied_by
from reclaim.run.apply.history_applying import HistoryApplying
from reclaim.run.apply.limits import NO_LIMITS, Limits
from reclaim.run.apply.preconditions import check_begun, check_plan
from reclaim.run.apply.trust import find_basis, is_trusted
from reclaim.run.lifecycle.applying import LifecycleApplying, check_lifecycle
from reclaim.run.plan import plan_file, plan_snapshots
from reclaim.run.plan.checks import check_budget, check_protected
from reclaim.run.plan.decide import Decided
from reclaim.run.plan.plan_document import PlanDocument
from reclaim.run.plan.plan_snapshots import PlannedSnapshots
from reclaim.run.record.stages import Silent, Watcher
from reclaim.run.roots.protection import remember
from reclaim.run.sweep.removal import DELETE, MARKED, Removal
from reclaim.run.uncommitted.saving import save_uncommitted
from reclaim.run_record import Phase
from reclaim.stores.abilities import HeldBackups, HeldQuarantine
from reclaim.stores.base import Store
from reclaim.stores.observation import Observation

log = logging.getLogger(__name__)


def apply_plan(
    store: Store,
    engine: Engine,
    place: Place,
    *,
    planned: PlanDocument | None = None,
    digest: str | None = None,
    removal: Removal = DELETE,
    exclude: Sequence[str] = (),
    limits: Limits = NO_LIMITS,
    watcher: Watcher | None = None,
    opener: Opener = open_storage,
) -> Applied:
    """Apply a plan, or the rest of it. ``removal`` says how objects are removed.

    ``planned`` is the reviewed plan, for callers without its ``digest``. Objects matching the globs
    in ``exclude`` are kept. A plan beyond the ``limits`` is refused.
    """
    storage = opener(place.url)
    planned = planned or plan_file.read(storage, place)
    globs = check_globs(exclude)
    if planned.history_only is not None:
        # It deletes no objects, so there are none to exclude.
        removal, globs = DELETE, ()
    check_plan(planned, store)
    limits.check(planned, hint="nothing was changed; review the plan, or allow more")
    removal.check(store, planned)
    trusted = is_trusted(store, planned, digest)
    check_lifecycle(store, planned, trusted=trusted)
    check_begun(store.find_run(planned.run), removal, place, planned, globs, trusted=trusted)
    # Each apply has its own folder: a killed apply may have left files without a list.
    own = place.below("apply").below(new_uid())
    watching = watcher or Silent()
    # Before the lock is taken: planning needs no lock, and may take long.
    basis = find_basis(
        store, engine, place, planned, own=own, digest=digest, watcher=watching, opener=opener
    )
    if planned.history_only is None:
        # Spark starts before the lock is taken.
        engine.start()
    exclusion = None
    if globs:
        exclusion = leave_out(
            store,
            engine,
            basis.candidates,
            globs,
            own=own,
            opener=opener,
            paths=planned.all_paths,
        )
        basis = replace(basis, candidates=exclusion.included)
    with store.lock(planned.run) as held:
        earlier = store.find_run(planned.run)
        check_begun(earlier, removal, place, planned, globs, trusted=trusted)
        context = ApplyContext(
            store,
            held,
            engine,
            place,
            own,
            planned,
            basis,
            exclusion,
            removal,
            watching,
            opener,
            earlier,
        )
        if planned.history_only is None:
            applying = CollectionApplying if planned.lifecycle is None else LifecycleApplying
            return applying(context).run()
        if earlier is not None and earlier.phase is Phase.DONE:
            # A second edit under the same run id would hide the first edit from an undo.
            return applied_by(earlier, store, place)
        return HistoryApplying(context).run()


class CollectionApplying(Applying):
    """Apply of a plan to delete unreferenced objects."""

    def __init__(self, context: ApplyContext) -> None:
        super().__init__(context)
        self._editing = Editing(context, self._writer)

    def _apply(self) -> Applied:
        decided, left_whole = self._check()
        self._expire(decided)
        seen, now = self._condemn(decided)
        seen, candidates = self._confirm(decided, seen, now)
        # Nothing is deleted before this line, and only these candidates after it.
        self._promote(seen, candidates, left_whole)
        outcome = self._sweep(candidates, self._context.basis.kinds)
        self._collect(outcome, decided, seen, now)
        return self._finish(decided)

    def _has_changed(self) -> bool:
        return super()._has_changed() or self._editing.has_edited()

    def _roll_back(self) -> Phase:
        partial = self._record.phase is not Phase.STARTED or self._context.begun
        return self._editing.roll_back(Phase.PARTIAL if partial else Phase.STOPPED)

    # The steps

    def _check(self) -> tuple[PlannedSnapshots, Sequence[SnapshotId]]:
        """Return the plan's decisions about snapshots, and snapshots of other runs to take over.
        Refuse a plan whose files differ from its summary."""
        context = self._context
        with self._stages.stage("check"):
            self._verify()
            document = context.basis.document
            decided = plan_snapshots.read(context.storage, document.snapshots.part)
            self._give_up_damaged()
            context.held.begin()
            self._writer.start()
            # Before the roots are read: listing the store may take longer than the read stays
            # valid. Under the lock nobody else deletes objects of these snapshots.
            left_whole = find_left_whole(context)
            if isinstance(context.held, HeldBackups):
                context.held.free_kinds(context.basis.kinds)
        return decided, left_whole

    def _give_up_damaged(self) -> None:
        """Give up damaged lists, unless only they record the objects an earlier apply took.

        The plan itself lists these objects again. A plan made anew does not: it lists existing
        objects, without those under delete markers.
        """
        context = self._context
        damaged = self._journal.find_damaged(context.engine, context.place)
        if damaged and context.basis.compared and context.removal.name == MARKED:
            raise PlanRefused(
                f"the record of run {context.run} at {context.place} is damaged, and the store no "
                "longer has a record of the plan, which is needed to find its delete markers",
                hint="give the digest that `reclaim plan` printed (--digest SHA256), or restore "
                "the lists from a backup",
            )
        self._give_up(damaged)

    def _expire(self, decided: PlannedSnapshots) -> None:
        """Remove expired snapshots from the history."""
        with self._stages.stage("expire") as expiring:
            expiring.facts["edited"] = self._editing.edit(decided).reparented

    def _condemn(self, decided: PlannedSnapshots) -> tuple[Observation, Decided]:
        """Mark all dead snapshots. Return the read that showed them marked, and its decisions."""
        context = self._context
        with self._stages.stage("condemn") as condemning:
            seen, now = condemn(context, self._editing, decided)
            condemning.facts["live"] = len(now.live)
            check_protected(context.store, context.planned, seen)
            self._editing.compare(decided, now)
            done = self._journal.parts()
            self._writer.replace(left_out=list_left_out(context, done=done, closed=seen.closed))
        return seen, now

    def _confirm(
        self, decided: PlannedSnapshots, seen: Observation, now: Decided
    ) -> tuple[Observation, Sequence[Part]]:
        """Return the candidates that are still unreferenced, and the observation with all roots."""
        context = self._context
        going = sum(part.rows for part in context.basis.candidates)
        with self._stages.stage("confirm", unit=OBJECTS, total=going) as confirming:
            seen, candidates = confirm(context, decided, seen, now, done=self._journal.parts())
            confirmed = sum(part.rows for part in candidates)
            planned = context.planned.candidates - self._record.left_out.objects
            confirming.facts["dropped"] = planned - confirmed
        return seen, candidates

    def _promote(
        self, seen: Observation, candidates: Sequence[Part], left_whole: Sequence[SnapshotId]
    ) -> None:
        """Record all objects about to go, then make the marks terminal."""
        context, held = self._context, self._context.held
        with self._stages.stage("promote"):
            # After a jump of the clock, young objects look old and valid leases look expired.
            context.check_clock()
            check_budget(context.store, held.lock, seen.read_at, so_far="nothing was deleted")
            self._intend(candidates)
            self._remember_protected(seen)
            before = self._record.counts
            self._writer.write_promoting()
            condemned = before.condemned + self._promote_marks()
            self._writer.write(phase=Phase.PROMOTED, counts=replace(before, condemned=condemned))
            if left_whole and isinstance(held, HeldQuarantine):
                # Before their first object is moved: from then on they are incomplete.
                held.take_over(left_whole)

    def _promote_marks(self) -> int:
        """Make the marks terminal. An error does not prove they are not; see ``_roll_back``."""
        try:
            return self._context.held.promote()
        except LockLost:
            self._writer.not_promoted()
            raise

    def _remember_protected(self, seen: Observation) -> None:
        """Store the objects protected by containers that are about to go."""
        context = self._context
        memory = remember(
            context.store,
            context.engine,
            context.basis.document,
            context.place,
            seen,
            opener=context.opener,
        )
        if memory is not None:
            self._writer.replace(protected=memory)

    def _collect(
        self, outcome: Outcome, decided: PlannedSnapshots, seen: Observation, now: Decided
    ) -> None:
        """Delete metadata of dead snapshots without objects, unless some deletes failed."""
        with self._stages.stage("record") as recording:
            collected = 0
            if not outcome.counts[FAILED]:
                collected = collect(self._context, self._journal, decided, seen, now)
            counts = self._record.counts
            self._writer.replace(counts=replace(counts, collected=counts.collected + collected))
            recording.facts["snapshots"] = collected

    def _finish(self, decided: PlannedSnapshots) -> Applied:
        applied = self._result()
        if not applied.failed:
            self._save_checkpoint(decided)
        self._write_result(applied)
        return self._end(applied)

    def _save_checkpoint(self, decided: PlannedSnapshots) -> None:
        """Leave a checkpoint for the next run, if this kind of run leaves checkpoints.

        Errors are logged only: the next run starts from the older checkpoint.
        """
        context, planned = self._context, self._context.planned
        if planned.uncommitted is None or context.basis.compared or self._record.checkpoint:
            return
        with self._stages.stage("checkpoint"):
            try:
                saved = save_uncommitted(
                    context.store,
                    context.engine,
                    planned,
                    context.place,
                    live=decided.live,
                    journal=self._journal.parts(),
                    opener=context.opener,
                )
            except ReclaimError as error:
                log.warning("run %s leaves no checkpoint: %s", context.run, error)
                return
        if saved is not None:
            self._writer.replace(checkpoint=saved)
