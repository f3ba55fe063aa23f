"""One apply under the lock: how it begins, sweeps, records and stops, whatever its plan takes."""

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
from reclaim.run.record.interrupted import cause_of, told_as_partial
from reclaim.run.record.journal import Journal
from reclaim.run.record.known_lists import known_lists
from reclaim.run.record.record_writer import RecordWriter
from reclaim.run.record.stages import Stages
from reclaim.run.sweep.sweep import sweep
from reclaim.run_record import Phase, RunRecord

RESULT = "result.json"


class Applying(ABC):
    """One apply, under the lock. A kind of plan brings the steps up to the promotion, from which
    on objects are taken, and what its runs leave at their end."""

    def __init__(self, context: ApplyContext) -> None:
        self._context = context
        self._stages = Stages(context.run, context.watcher, noun=context.store.noun)
        self._writer = RecordWriter(context.held, first_record(context))
        # Only lists that the store knows are believed, so they are recorded as they are written.
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
        again = self._way_on()
        with told_as_partial(context.run, context.held.lock, self._has_changed, again=again):
            try:
                return self._apply()
            except BaseException as error:
                self._stop(error)
                raise

    @abstractmethod
    def _apply(self) -> Applied:
        """Every step, in its order."""

    # The end of an apply that does not come to its end

    def _way_on(self) -> str:
        """The hint of an apply that stopped after it had changed something."""
        return f"apply the plan again: {self._context.command}"

    def _has_changed(self) -> bool:
        return self._writer.may_have_promoted

    def _stop(self, error: BaseException) -> None:
        """Note how far it came, as far as that can be noted, and take back what is provisional."""
        with suppress(Exception):
            self._context.held.abandon()
        if isinstance(error, Partial):
            return
        phase = self._take_back()
        with suppress(Exception):
            self._writer.write(phase=phase, lists=self._journal.lists, error=cause_of(error))

    @abstractmethod
    def _take_back(self) -> Phase:
        """Take back what can be taken back beside that; returns the phase of the run then."""

    # Steps

    def _verify(self) -> None:
        """Refuse a plan whose files are not what its summary says, or a clock that cannot be
        believed."""
        context = self._context
        context.check_clock()
        check_files(context.engine, context.storage, context.place, context.planned)

    def _give_up(self, lists: Sequence[str]) -> None:
        """Believe damaged lists no longer; it counts once that is recorded."""
        self._journal.give_up(lists)
        self._writer.replace(lists=self._journal.lists)

    def _intend(self, parts: Sequence[Part]) -> None:
        """Write down what is about to be taken; it counts once that is recorded.

        What is promised from then on is known, wherever this run is cut off.
        """
        self._journal.intend(parts)
        self._writer.replace(intended=self._journal.intended_rows(), lists=self._journal.lists)

    def _deleter(self) -> Deleter:
        context = self._context
        return context.removal.deleter(context.store, context.run, self._journal)

    def _sweep(self, candidates: Sequence[Part], kinds: Collection[str]) -> Outcome:
        """Take the candidates of some kinds, in the order of the store's format."""
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
        aside, left_out = record.promised, record.left_out
        total = self._journal.total()
        return Applied(
            context.run,
            context.place,
            total,
            context.planned.candidates - total.counts.total() - left_out.objects,
            record.counts.condemned,
            record.counts.collected,
            None if aside is None else aside.until,
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
        """Record the result, and remove what was needed on the way; ``Partial`` if some objects
        could not be deleted."""
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
            # Copied to where the next run finds it; it may be large.
            folders.append(context.place.at("index"))
        for folder in folders:
            for stored in list(context.storage.list(folder)):
                context.storage.delete(stored.address)
