"""Apply: condemn, confirm, sweep, record. Always from the start, however often it is called.

*Condemn* marks every snapshot that is not live now, until one read of the roots shows that all of
them are marked: from that read on nobody can build on anything dead. That read is the *confirm*:
whatever it reaches and the plan did not know, by id, leaves the plan. Only then are the marks made
terminal and the first byte deleted. Contents never change, so a plan may be days old.
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
from reclaim.run.apply.admission import check_begun, check_plan
from reclaim.run.apply.applied import Applied
from reclaim.run.apply.applying import Applying
from reclaim.run.apply.collecting import collect
from reclaim.run.apply.condemning import condemn, find_left_whole
from reclaim.run.apply.confirming import confirm
from reclaim.run.apply.context import ApplyContext
from reclaim.run.apply.editing import Editing
from reclaim.run.apply.exclusion import exclude as leave_out
from reclaim.run.apply.finished_plan import applied_by
from reclaim.run.apply.history_applying import HistoryApplying
from reclaim.run.apply.left_out import list_left_out
from reclaim.run.apply.limits import NO_LIMITS, Limits
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
    """Apply a plan, or the rest of it; ``removal`` is how objects are taken away.

    ``planned`` is the plan as somebody has seen it, who need not have given its ``digest``. What
    the globs ``exclude`` stays, and a plan beyond the ``limits`` is refused.
    """
    storage = opener(place.url)
    planned = planned or plan_file.read(storage, place)
    globs = check_globs(exclude)
    if planned.history_only is not None:
        # It takes no objects, in any way, and leaves none out.
        removal, globs = DELETE, ()
    check_plan(planned, store)
    limits.check(planned, hint="nothing was changed; review the plan, or allow more")
    removal.check(store, planned)
    trusted = is_trusted(store, planned, digest)
    check_lifecycle(store, planned, trusted=trusted)
    check_begun(store.find_run(planned.run), removal, place, planned, globs, trusted=trusted)
    # Each apply has its own folder: one that died may have left files without a list.
    own = place.below("apply").below(new_uid())
    watching = watcher or Silent()
    # Before the lock is taken: a plan needs none, and may take long.
    basis = find_basis(
        store, engine, place, planned, own=own, digest=digest, watcher=watching, opener=opener
    )
    if planned.history_only is None:
        # A lock is not held while Spark starts.
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
            # Another edit in its name would hide from an undo what this one was.
            return applied_by(earlier, store, place)
        return HistoryApplying(context).run()


class CollectionApplying(Applying):
    """One apply of a plan of what nothing reaches."""

    def __init__(self, context: ApplyContext) -> None:
        super().__init__(context)
        self._editing = Editing(context, self._writer)

    def _apply(self) -> Applied:
        decided, left_whole = self._check()
        self._expire(decided)
        seen, now = self._condemn(decided)
        seen, candidates = self._confirm(decided, seen, now)
        # Up to here nothing is deleted; from here on nothing but these candidates is.
        self._promote(seen, candidates, left_whole)
        outcome = self._sweep(candidates, self._context.basis.kinds)
        self._collect(outcome, decided, seen, now)
        return self._finish(decided)

    def _has_changed(self) -> bool:
        return super()._has_changed() or self._editing.has_edited()

    def _take_back(self) -> Phase:
        partial = self._record.phase is not Phase.STARTED or self._context.begun
        return self._editing.take_back(Phase.PARTIAL if partial else Phase.STOPPED)

    # The steps

    def _check(self) -> tuple[PlannedSnapshots, Sequence[SnapshotId]]:
        """The decisions of the plan about snapshots, and those snapshots of other runs that this
        one takes over; refused unless the files are what the summary says."""
        context = self._context
        with self._stages.stage("check"):
            self._verify()
            document = context.basis.document
            decided = plan_snapshots.read(context.storage, document.snapshots.part)
            self._give_up_damaged()
            context.held.begin()
            self._writer.start()
            # Before the roots are read: it lists the store, which may take longer than what was
            # read may be old. Under the lock nobody else takes anything of them.
            left_whole = find_left_whole(context)
            if isinstance(context.held, HeldBackups):
                context.held.free_kinds(context.basis.kinds)
        return decided, left_whole

    def _give_up_damaged(self) -> None:
        """Give up damaged lists, unless they alone tell what an earlier apply took.

        By the plan itself it is found again, but not by one that was made anew: that has only what
        is there, and not what is under delete markers.
        """
        context = self._context
        damaged = self._journal.find_damaged(context.engine, context.place)
        if damaged and context.basis.compared and context.removal.name == MARKED:
            raise PlanRefused(
                f"the record of run {context.run} at {context.place} is damaged, and the store has "
                "no record of the plan any more, by which its delete markers could be found",
                hint="give the digest that `reclaim plan` printed (--digest SHA256), or restore "
                "the lists from a backup",
            )
        self._give_up(damaged)

    def _expire(self, decided: PlannedSnapshots) -> None:
        """Take out of the history what expires."""
        with self._stages.stage("expire") as expiring:
            expiring.facts["edited"] = self._editing.edit(decided).reparented

    def _condemn(self, decided: PlannedSnapshots) -> tuple[Observation, Decided]:
        """Mark all that is dead; returns the read that showed it marked, and what is live by it."""
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
        """The candidates that nothing reaches now, and the observation with all that is needed."""
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
        """Make the marks terminal, after all that is about to go is written down."""
        context, held = self._context, self._context.held
        with self._stages.stage("promote"):
            # A clock that jumped since has made young what is old, or leases look lapsed.
            context.check_clock()
            check_budget(context.store, held.lock, seen.read_at, so_far="nothing was deleted")
            self._intend(candidates)
            self._remember_protected(seen)
            before = self._record.counts
            self._writer.write_promoting()
            condemned = before.condemned + self._promote_marks()
            self._writer.write(phase=Phase.PROMOTED, counts=replace(before, condemned=condemned))
            if left_whole and isinstance(held, HeldQuarantine):
                # Before the first of their objects goes: from then on they are not whole at home.
                held.take_over(left_whole)

    def _promote_marks(self) -> int:
        """Make the marks terminal. An error need not mean that they are not; see ``_take_back``."""
        try:
            return self._context.held.promote()
        except LockLost:
            self._writer.not_promoted()
            raise

    def _remember_protected(self, seen: Observation) -> None:
        """Remember what is protected by containers that are about to go."""
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
        """Let go of the dead snapshots of which nothing is left, unless some objects stayed."""
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
        """Leave a checkpoint for the next run, if this is a run that leaves one.

        Whatever stops that: the next run starts from the older one.
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
