"""Applying a plan of lifecycle rules: it takes bytes that live commits refer to.

In the order that ``catalog.collection.claimed_addresses`` argues for: claim, close, confirm,
promote, sweep, record. Nothing is deleted before the promotion, and until then an end of any kind
takes everything back. What is swept is what was promoted, read from the store and not from the
plan; so an apply that was cut off is finished by another one, which finds the same addresses.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from contextlib import suppress

from reclaim.engine.base import ConfirmRequest, Engine
from reclaim.engine.tasks.parts import Opener, Part, Place
from reclaim.engine.tasks.quarantine import QUARANTINED
from reclaim.engine.tasks.tally import OBJECTS
from reclaim.errors import (
    Partial,
    PlanRefused,
    ReclaimError,
    Refused,
)
from reclaim.model import (
    INTENDED,
    LIFECYCLE,
    LIFECYCLE_CHECKPOINT,
    LIFECYCLE_DATES,
    LISTS,
    PLAN_DIGEST,
    PROMOTED,
    VOUCHED,
    Quarantine,
    Run,
    RunState,
)
from reclaim.run import plan_snapshots
from reclaim.run.admission import COLLECT, exclude_options
from reclaim.run.applied import Applied
from reclaim.run.checks import check_clock, check_counted
from reclaim.run.ends import cause_of, told_as_partial
from reclaim.run.exclusion import EXCLUDE, NOTHING_LEFT_OUT, Exclusion, LeftOut, write_files
from reclaim.run.exclusion import FOLDER as EXCLUDED_FOLDER
from reclaim.run.first_facts import first_facts
from reclaim.run.journal import Journal
from reclaim.run.known_lists import known_lists
from reclaim.run.lifecycle.forgetting import forget_unreferenced
from reclaim.run.lifecycle.promotion import NO_CONTAINERS, Promotion, count_rows
from reclaim.run.lifecycle.saving import leave_results
from reclaim.run.lifecycle.statistics import write_statistics
from reclaim.run.plan_file import PlanDocument
from reclaim.run.removal import Removal, until_undone
from reclaim.run.stages import Stages, Watcher
from reclaim.run.sweep import sweep
from reclaim.run.trust import Basis
from reclaim.stores.abilities import TakesReferenced
from reclaim.stores.base import Held, Store

log = logging.getLogger(__name__)

RESULT = "result.json"


def check_lifecycle(store: Store, planned: PlanDocument, *, trusted: bool) -> None:
    """Refuse a plan of lifecycle rules that this store cannot apply, or that nobody vouches for."""
    if planned.lifecycle is None:
        return
    if not issubclass(store.handle, TakesReferenced) or store.deleted:
        raise Refused(
            f"{store.kind} stores have no lifecycle rules"
            if not store.deleted
            else f"{store.name} was deleted; no rule is needed to collect it",
            hint="collect it with `reclaim gc`",
        )
    if not trusted:
        # Another plan can tell what nothing refers to, but not what somebody wanted to be gone.
        raise PlanRefused(
            "the plan takes data that commits refer to, and the store has no record of it",
            hint="give the digest that was printed when it was made (--digest SHA256), or plan it "
            "again",
        )


class LifecycleApplying:
    """One apply of such a plan, under the lock."""

    def __init__(
        self,
        store: Store,
        held: Held,
        engine: Engine,
        place: Place,
        own: Place,
        planned: PlanDocument,
        basis: Basis,
        exclusion: Exclusion | None,
        removal: Removal,
        watcher: Watcher,
        opener: Opener,
        earlier: Run | None,
    ) -> None:
        assert isinstance(held, TakesReferenced)
        assert planned.lifecycle is not None
        self._store = store
        self._held: Held = held
        self._claims: TakesReferenced = held
        self._engine = engine
        self._place = place
        self._own = own
        self._planned = planned
        self._section = planned.lifecycle
        self._basis = basis
        self._exclusion = exclusion
        self._left_out = NOTHING_LEFT_OUT
        self._removal = removal
        self._opener = opener
        self._storage = opener(place.url)
        self._run = planned.run
        self._stages = Stages(planned.run, watcher)
        self._earlier = earlier
        self._journal = Journal(
            self._storage,
            place.below("apply"),
            own,
            known=known_lists(earlier),
            record=self._record,
        )
        begun = earlier is not None and earlier.state != RunState.STOPPED
        self._facts = first_facts(removal, store, earlier, begun=begun)
        self._facts |= {PLAN_DIGEST: planned.digest, LISTS: self._journal.known, VOUCHED: True}
        self._facts[LIFECYCLE] = {
            "today": self._section.today.isoformat(),
            "rules": sorted({rule.rule_id for rule in self._section.rules}),
            "mode": self._section.mode,
            "held": self._section.held_count,
        }
        if begun and earlier is not None:
            # What is taken now as well, the next run does not find any more.
            left = (LIFECYCLE_CHECKPOINT, LIFECYCLE_DATES)
            self._facts |= {name: earlier.summary[name] for name in left if name in earlier.summary}
        if exclusion is not None:
            self._facts[EXCLUDE] = list(exclusion.globs)
        self._promotion = Promotion(store, held, engine, place, own, planned, basis, opener)

    def run(self) -> Applied:
        if self._claims.has_promoted():
            self._check_same_exclusion()
        again = f"apply the plan again: {self._command()}"
        with told_as_partial(
            self._run, self._held.lock, lambda: self._promotion.tried, again=again
        ):
            try:
                return self._apply()
            except BaseException as error:
                self._stop(error)
                raise

    def _command(self) -> str:
        globs = () if self._exclusion is None else self._exclusion.globs
        return " ".join(filter(None, ("reclaim apply", str(self._place), exclude_options(globs))))

    def _stop(self, error: BaseException) -> None:
        """Take back all that is not promoted, and note how far it came."""
        with suppress(Exception):
            self._held.abandon()
        if isinstance(error, Partial):
            return
        with suppress(Exception):
            # Where that cannot be asked, it counts as promoted if it was tried.
            self._promotion.tried = self._claims.has_promoted()
        state = RunState.PARTIAL if self._promotion.tried else RunState.STOPPED
        if self._promotion.tried:
            self._facts[PROMOTED] = True
        with suppress(Exception):
            self._held.finish(self._run, state, {"error": cause_of(error)} | self._facts)

    def _record(self) -> None:
        self._held.finish(self._run, RunState.STARTED, self._facts)

    def _apply(self) -> Applied:
        stage = self._stages.stage
        with stage("check"):
            self._check()
            self._held.begin()
            promoted = self._promotion.tried = self._claims.has_promoted()
            if promoted:
                self._facts[PROMOTED] = True
            self._held.start(
                Run(
                    self._run,
                    COLLECT,
                    RunState.STARTED,
                    self._planned.started_at,
                    self._facts,
                    str(self._place),
                )
            )
        self._left_out = self._find_left_out()
        self._facts |= self._left_out.record()
        deleter = self._removal.deleter(self._store, self._run, self._journal)
        if promoted:
            with stage("resume") as resuming:
                closed = self._promotion.check_still_wanted().closed
                claimed = self._promotion.claimed(self._basis.candidates)
                going = self._without_done(claimed, closed)
                self._intend(going)
                resuming.facts["left"] = count_rows(going)
        else:
            going = self._claim_and_promote()
        deleter = until_undone(deleter, self._store, self._run)
        for kind in self._store.format.order:
            of_kind = sum(part.rows for part in going if part.group == kind)
            if not of_kind:
                continue
            with stage(f"sweep-{kind}", unit=OBJECTS, total=of_kind) as sweeping:
                swept = sweep(
                    self._store,
                    self._engine,
                    self._held.lock,
                    deleter,
                    candidates=going,
                    kind=kind,
                    journal=self._journal,
                    place=self._own,
                    storage=self._storage,
                )
                sweeping.facts |= {
                    "objects": sum(swept.counts.values()),
                    "bytes": sum(swept.sizes.values()),
                }
        with stage("record"):
            return self._finish()

    # Before anything is claimed

    def _check(self) -> None:
        """Refuse a plan whose files are not what it says, or a clock that cannot be believed."""
        planned = self._planned
        # The plan may lie elsewhere, so it is the store's own storage that is asked.
        own = Place(*self._store.place(self._run)).below("work")
        check_clock(self._store, self._store.storage, own)
        files = [file.part for file in (*planned.files, *planned.containers)]
        counted = self._engine.verify(files, self._place)
        check_counted(planned, counted, plan_snapshots.read(self._storage, planned.snapshots.part))
        self._journal.give_up(self._journal.find_damaged(self._engine, self._place))

    def _check_same_exclusion(self) -> None:
        """Refuse to go on with other exclusions: what was claimed is gone for readers already, and
        what was not can only be claimed by another plan."""
        before = set(self._earlier.summary.get(EXCLUDE) or ()) if self._earlier else set()
        now = set(() if self._exclusion is None else self._exclusion.globs)
        if before == now:
            return
        options = exclude_options(sorted(before)) or "no --exclude"
        raise PlanRefused(
            f"this plan was applied with {options}, and what it takes is decided",
            hint=f"repeat it with {options}; for anything else make a new plan",
        )

    def _claim_and_promote(self) -> Sequence[Part]:
        """The candidates that are this run's to take, for good, when nothing else needs them."""
        stage, promotion = self._stages.stage, self._promotion
        with stage("claim") as claiming:
            rules = promotion.stored_rules()
            candidates = promotion.find_unneeded(self._journal.parts())
            # What is promised from here on is known, wherever this run is cut off.
            self._intend(candidates)
            claiming.facts["claimed"] = promotion.claim(candidates)
        with stage("confirm", unit=OBJECTS, total=count_rows(candidates)) as confirming:
            confirming.facts["rounds"] = promotion.confirm_until_promoted(rules)
        self._facts[PROMOTED] = True
        self._record()
        return promotion.claimed(candidates)

    # Once it is promoted

    def _without_done(self, going: Sequence[Part], closed: frozenset[str]) -> Sequence[Part]:
        """Without what an earlier apply of this plan has taken."""
        return self._engine.confirm(
            ConfirmRequest(
                self._store.format,
                going,
                NO_CONTAINERS,
                (),
                closed,
                self._journal.parts(),
                self._own.below("objects"),
                self._own.below("work"),
            )
        ).parts

    def _intend(self, parts: Sequence[Part]) -> None:
        self._journal.intend(parts)
        self._facts[INTENDED] = self._journal.intended_rows()
        self._record()

    def _find_left_out(self) -> LeftOut:
        """What a person left out of the plan."""
        if self._exclusion is None:
            return NOTHING_LEFT_OUT
        parts, place = self._exclusion.excluded, self._own.below(EXCLUDED_FOLDER)
        write_files(self._storage, self._own, parts)
        counted = self._engine.verify(parts, place).values()
        objects, size = (sum(counts[at] for counts in counted) for at in range(2))
        return LeftOut(self._exclusion.globs, objects, size, str(place))

    def _finish(self) -> Applied:
        aside = Quarantine.of_record(self._facts)
        total = self._journal.total()
        applied = Applied(
            self._run,
            self._place,
            total,
            self._planned.candidates - total.counts.total() - self._left_out.objects,
            0,
            0,
            None if aside is None else aside.until,
            self._store.noun,
            self._removal.requests(self._store, total.only(QUARANTINED)[0]),
            left_out=self._left_out,
            by_lifecycle_rules=True,
        )
        state = RunState.PARTIAL if applied.failed else RunState.DONE
        body = json.dumps({"state": state} | applied.summary()).encode()
        self._storage.put(self._own.at(RESULT), body)
        try:
            write_statistics(self._store, self._planned, applied, state)
        except ReclaimError as error:
            log.warning("the statistics of run %s were not written: %s", self._run, error)
        if not applied.failed and LIFECYCLE_CHECKPOINT not in self._facts:
            self._facts |= leave_results(
                self._store,
                self._engine,
                self._planned,
                self._place,
                journal=self._journal.parts(),
                opener=self._opener,
            )
            self._forget()
        self._held.finish(self._run, state, self._facts | applied.summary())
        for stored in list(self._storage.list(self._own.at("work"))):
            self._storage.delete(stored.address)
        if applied.failed:
            raise Partial(
                f"{applied.failed} objects could not be deleted; the journal at {self._own} says "
                "why",
                hint=f"apply the plan again: {self._command()}",
                **applied.summary(),
            )
        return applied

    def _forget(self) -> None:
        """Forget what earlier runs took and no commit has any more, if this run can tell."""
        seen = self._promotion.seen
        if seen is None:
            return
        try:
            forgotten = forget_unreferenced(
                self._store,
                self._claims,
                self._engine,
                self._planned,
                seen,
                own=self._own.below("work").below("forgetting"),
                opener=self._opener,
            )
        except ReclaimError as error:
            log.warning("what no commit has any more was not forgotten: %s", error)
        else:
            self._facts["forgotten"] = forgotten
