"""Steps shared by all kinds of applies: begin, sweep, record and stop."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from contextlib import suppress

from reclaim.engine.tasks.deleting import FAILED, Deleter, Outcome
from reclaim.engine.tasks.parts import Part
from reclaim.engine.tasks.quarantine import QUARANTINED
from reclaim.engine.tasks.tally import OBJECTS
from reclaim.errors import Partial
from reclaim.run.apply.applied import Applied
from reclaim.run.apply.context import ApplyContext
from reclaim.run.apply.first_record import first_record
from reclaim.run.plan.checks import check_files
from reclaim.run.record.interrupted import cause_of, report_as_partial
from reclaim.run.record.journal import Journal
from reclaim.run.record.known_lists import known_lists
from reclaim.run.record.record_writer import RecordWriter
from reclaim.run.record.stages import Stages
from reclaim.run.sweep.sweep import sweep
from reclaim.run_record import Phase, RunRecord

RESULT = "result.json"


class Applying(ABC):
    """Apply under the lock. Subclasses add the steps before the promotion, which starts the
    deletion of objects, and the results left at the end."""

    def __init__(self, context: ApplyContext) -> None:
        self._context = context
        self._stages = Stages(context.run, context.watcher, noun=context.store.noun)
        self._writer = RecordWriter(context.held, first_record(context))
        # Only lists known to the store are trusted, so each is recorded when it is written.
        self._journal = Journal(
            context.storage,
            context.place.below("apply"),
            context.own,
            known=known_lists(context.earlier),
            record=lambda lists: self._writer.write(lists=lists),
        )
        self._writer.replace(lists=self._journal.lists)

    @property
    def _record(self) -> RunRecord:
        return self._writer.record

    def run(self) -> Applied:
        context = self._context
        again = self._retry_hint()
        with report_as_partial(context.run, context.held.lock, self._has_changed, again=again):
            try:
                return self._apply()
            except BaseException as error:
                self._stop(error)
                raise

    @abstractmethod
    def _apply(self) -> Applied:
        """Run all steps in order."""

    # Interrupted applies

    def _retry_hint(self) -> str:
        """Hint for an apply that stopped after a change."""
        return f"apply the plan again: {self._context.command}"

    def _has_changed(self) -> bool:
        return self._writer.may_have_promoted

    def _stop(self, error: BaseException) -> None:
        """Record the progress as far as possible, and roll back provisional changes."""
        with suppress(Exception):
            self._context.held.abandon()
        if isinstance(error, Partial):
            return
        phase = self._roll_back()
        with suppress(Exception):
            self._writer.write(phase=phase, lists=self._journal.lists, error=cause_of(error))

    @abstractmethod
    def _roll_back(self) -> Phase:
        """Roll back changes of the subclass; return the phase of the run after that."""

    # Steps

    def _verify(self) -> None:
        """Refuse a plan whose files differ from its summary, and an untrustworthy clock."""
        context = self._context
        context.check_clock()
        check_files(context.engine, context.storage, context.place, context.planned)

    def _give_up(self, lists: Sequence[str]) -> None:
        """Stop using damaged lists. Takes effect when recorded."""
        self._journal.give_up(lists)
        self._writer.replace(lists=self._journal.lists)

    def _intend(self, parts: Sequence[Part]) -> None:
        """Record the objects about to go. Takes effect when recorded.

        From then on the promised objects are known, wherever this run is interrupted.
        """
        self._journal.intend(parts)
        self._writer.replace(intended=self._journal.intended_rows(), lists=self._journal.lists)

    def _deleter(self) -> Deleter:
        context = self._context
        return context.removal.deleter(context.store, context.run, self._journal)

    def _sweep(self, candidates: Sequence[Part], kinds: Collection[str]) -> Outcome:
        """Delete the candidates of some kinds, in the order of the store's format."""
        context, outcome, deleter = self._context, Outcome(), self._deleter()
        format = context.store.format
        for kind in format.order:
            if outcome.counts[FAILED] and format.sequential:
                break
            if kind not in kinds:
                continue
            of_kind = sum(part.rows for part in candidates if part.group == kind)
            with self._stages.stage(f"sweep-{kind}", unit=OBJECTS, total=of_kind) as sweeping:
                swept = sweep(
                    context.store,
                    context.engine,
                    context.held.lock,
                    deleter,
                    candidates=candidates,
                    kind=kind,
                    journal=self._journal,
                    place=context.own,
                    storage=context.storage,
                )
                sweeping.facts |= {
                    "objects": sum(swept.counts.values()),
                    "bytes": sum(swept.sizes.values()),
                }
                outcome.add(swept)
        return outcome

    # The end

    def _result(self) -> Applied:
        context, record = self._context, self._record
        quarantine, left_out = record.promised, record.left_out
        total = self._journal.total()
        return Applied(
            context.run,
            context.place,
            total,
            context.planned.candidates - total.counts.total() - left_out.objects,
            record.counts.condemned,
            record.counts.collected,
            None if quarantine is None else quarantine.until,
            context.store.noun,
            context.removal.requests(context.store, total.only(QUARANTINED)[0]),
            context.basis.compared,
            record.edit.unplanned,
            record.edit.spared,
            record.edit.counts,
            left_out,
            by_lifecycle_rules=context.planned.lifecycle is not None,
        )

    def _write_result(self, applied: Applied) -> None:
        body = json.dumps({"state": applied.phase} | applied.summary()).encode()
        self._context.storage.put(self._context.own.at(RESULT), body)

    def _end(self, applied: Applied) -> Applied:
        """Record the result, and delete temporary files. Raise ``Partial`` if some objects could
        not be deleted."""
        self._writer.write(
            phase=applied.phase,
            counts=applied.counts,
            compared=applied.compared,
            lists=self._journal.lists,
            finished_at=self._context.store.clock.now(),
        )
        self._remove_work()
        if applied.failed:
            raise Partial(
                f"{applied.failed} objects could not be deleted; the journal at "
                f"{self._context.own} says why",
                hint=f"apply the plan again: {self._context.command}",
                **applied.summary(),
            )
        return applied

    def _remove_work(self) -> None:
        context = self._context
        folders = [context.own.at("work")]
        if self._record.checkpoint:
            # The next run has its own copy, and the folder may be large.
            folders.append(context.place.at("index"))
        for folder in folders:
            for stored in list(context.storage.list(folder)):
                context.storage.delete(stored.address)
