"""Applying a plan of lifecycle rules: delete bytes referenced by live commits.

Steps: claim, close, confirm, promote, sweep, record; ``catalog.collection.claimed_addresses``
explains the order. Nothing is deleted before the promotion, and a run stopped before it is rolled
back. The sweep deletes the promoted addresses, read from the store and not from the plan. So an
interrupted apply is finished by another apply with the same addresses.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from reclaim.engine import pipelines
from reclaim.engine.answers import NO_CONTAINERS
from reclaim.engine.requests import ConfirmRequest
from reclaim.engine.tasks.deleting import Deleter
from reclaim.engine.tasks.parts import Part
from reclaim.engine.tasks.tally import OBJECTS
from reclaim.errors import PlanRefused, ReclaimError, Refused
from reclaim.run.apply.applied import Applied
from reclaim.run.apply.applying import Applying
from reclaim.run.apply.context import ApplyContext
from reclaim.run.apply.exclusion_list import list_left_out
from reclaim.run.apply.preconditions import exclude_options
from reclaim.run.lifecycle.forgetting import forget_unreferenced
from reclaim.run.lifecycle.promotion import Promotion, count_rows
from reclaim.run.lifecycle.saving import leave_results
from reclaim.run.lifecycle.statistics import write_statistics
from reclaim.run.plan.plan_document import PlanDocument
from reclaim.run.sweep.removal import until_undone
from reclaim.run_record import Phase, RecordedLifecycle
from reclaim.stores.abilities import HeldClaims
from reclaim.stores.base import Store

log = logging.getLogger(__name__)


def check_lifecycle(store: Store, planned: PlanDocument, *, trusted: bool) -> None:
    """Refuse a plan of lifecycle rules unsupported by this store, and an untrusted plan."""
    if planned.lifecycle is None:
        return
    if not issubclass(store.handle, HeldClaims) or store.deleted:
        raise Refused(
            f"{store.kind} stores have no lifecycle rules"
            if not store.deleted
            else f"{store.name} was deleted; no rule is needed to collect it",
            hint="collect it with `reclaim gc`",
        )
    if not trusted:
        # A new plan could identify unreferenced objects, but not the intention to delete others.
        raise PlanRefused(
            "the plan deletes data referenced by commits, but the store has no record of the plan",
            hint="give the digest printed when it was made (--digest SHA256), or make a new plan",
        )


class LifecycleApplying(Applying):
    """Apply of a plan of lifecycle rules."""

    def __init__(self, context: ApplyContext) -> None:
        assert isinstance(context.held, HeldClaims)
        section = context.planned.lifecycle
        assert section is not None
        super().__init__(context)
        self._claims: HeldClaims = context.held
        earlier = self._record.lifecycle or RecordedLifecycle()
        self._writer.replace(
            lifecycle=replace(
                earlier,
                today=section.today.isoformat(),
                rules=tuple(sorted({rule.rule_id for rule in section.rules})),
                mode=section.mode,
                held=section.held_count,
            )
        )
        self._promotion = Promotion(context, self._writer)

    def run(self) -> Applied:
        if self._claims.has_promoted():
            self._check_same_exclusion()
        return super().run()

    def _apply(self) -> Applied:
        promoted = self._check()
        self._writer.replace(left_out=list_left_out(self._context))
        # Nothing is deleted before the promotion, and only promoted objects after it.
        going = self._resume() if promoted else self._claim_and_promote()
        self._sweep(going, {part.group for part in going if part.rows})
        with self._stages.stage("record"):
            return self._finish()

    def _retry_hint(self) -> str:
        return f"{super()._retry_hint()}; or undo the run: reclaim undo {self._context.run}"

    def _roll_back(self) -> Phase:
        writer = self._writer
        with suppress(Exception):
            # If the store cannot answer, an attempted promotion counts as done.
            writer.may_have_promoted = self._claims.has_promoted()
        return Phase.PARTIAL if writer.may_have_promoted else Phase.STOPPED

    # Before anything is claimed

    def _check(self) -> bool:
        """Return whether an earlier apply has promoted its claims. Refuse a plan whose files differ
        from its summary."""
        context = self._context
        with self._stages.stage("check"):
            self._verify()
            damaged = self._journal.find_damaged(context.engine, context.place)
            self._give_up(damaged)
            context.held.begin()
            promoted = self._writer.may_have_promoted = self._claims.has_promoted()
            self._writer.replace(phase=Phase.PROMOTED if promoted else Phase.STARTED)
            self._writer.start()
        return promoted

    def _check_same_exclusion(self) -> None:
        """Refuse to continue with other exclusions: claimed objects are already deleted for
        readers, and unclaimed objects can only be claimed by another plan."""
        earlier = self._context.earlier
        before = set(earlier.left_out.globs) if earlier else set()
        if before == set(self._context.globs):
            return
        options = exclude_options(sorted(before)) or "no --exclude"
        raise PlanRefused(
            f"this plan was already promoted with {options}; its exclusions cannot change",
            hint=f"repeat it with {options}, or make a new plan",
        )

    def _claim_and_promote(self) -> Sequence[Part]:
        """Claim candidates, and promote the claims of unneeded objects; return these objects."""
        stage, promotion = self._stages.stage, self._promotion
        with stage("claim") as claiming:
            rules = promotion.stored_rules()
            candidates = promotion.find_unneeded(self._journal.parts())
            self._intend(candidates)
            self._writer.write()
            claiming.facts["claimed"] = promotion.claim(candidates)
        with stage("confirm", unit=OBJECTS, total=count_rows(candidates)) as confirming:
            confirming.facts["rounds"] = promotion.confirm_until_promoted(rules)
        self._writer.write(phase=Phase.PROMOTED)
        return promotion.claimed(candidates)

    # Once it is promoted

    def _resume(self) -> Sequence[Part]:
        """Return the objects promoted by an interrupted apply and not yet deleted."""
        with self._stages.stage("resume") as resuming:
            closed = self._promotion.check_not_protected().closed
            claimed = self._promotion.claimed(self._context.basis.candidates)
            going = self._without_done(claimed, closed)
            self._intend(going)
            self._writer.write()
            resuming.facts["left"] = count_rows(going)
        return going

    def _without_done(self, going: Sequence[Part], closed: frozenset[str]) -> Sequence[Part]:
        """Remove objects already taken by an earlier apply of this plan."""
        context = self._context
        return pipelines.confirm(
            context.engine,
            ConfirmRequest(
                context.store.format,
                going,
                NO_CONTAINERS,
                (),
                closed,
                self._journal.parts(),
                context.own.below("objects"),
                context.work,
            ),
        ).parts

    def _deleter(self) -> Deleter:
        return until_undone(super()._deleter(), self._context.store, self._context.run)

    def _finish(self) -> Applied:
        context, applied = self._context, self._result()
        self._write_result(applied)
        try:
            write_statistics(context.store, context.planned, applied)
        except ReclaimError as error:
            log.warning("the statistics of run %s were not written: %s", context.run, error)
        lifecycle = self._record.lifecycle
        assert lifecycle is not None
        if not applied.failed and self._record.checkpoint is None:
            dates, checkpoint = leave_results(
                context.store,
                context.engine,
                context.planned,
                context.place,
                journal=self._journal.parts(),
                opener=context.opener,
            )
            self._writer.replace(
                checkpoint=checkpoint,
                lifecycle=replace(lifecycle, dates=dates, forgotten=self._forget()),
            )
        return self._end(applied)

    def _forget(self) -> int:
        """Delete records of expired addresses no commit refers to, if this run can identify them;
        return their number."""
        context, seen = self._context, self._promotion.seen
        if seen is None:
            return 0
        try:
            return forget_unreferenced(
                context.store,
                self._claims,
                context.engine,
                context.planned,
                seen,
                own=context.work.below("forgetting"),
                opener=context.opener,
            )
        except ReclaimError as error:
            log.warning("records of unreferenced expired addresses were not deleted: %s", error)
            return 0
