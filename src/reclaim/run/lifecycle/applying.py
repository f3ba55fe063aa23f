"""Applying a plan of lifecycle rules: it takes bytes that live commits refer to.

In the order that ``catalog.collection.claimed_addresses`` argues for: claim, close, confirm,
promote, sweep, record. Nothing is deleted before the promotion, and until then an end of any kind
takes everything back. What is swept is what was promoted, read from the store and not from the
plan; so an apply that was cut off is finished by another one, which finds the same addresses.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import suppress

from reclaim.engine.base import ConfirmRequest, ContainerFiles, Engine
from reclaim.engine.tasks.deleting import Outcome
from reclaim.engine.tasks.parts import Opener, Part, Place, hashed_part, read_part
from reclaim.engine.tasks.quarantine import QUARANTINED
from reclaim.engine.tasks.tally import OBJECTS
from reclaim.errors import (
    IncompleteRead,
    OutOfTime,
    Partial,
    PlanRefused,
    ReclaimError,
    Refused,
)
from reclaim.ids import new_uid
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
from reclaim.policy.lifecycle import decode_lifecycle, lifecycle_document
from reclaim.run import plan_snapshots
from reclaim.run.admission import COLLECT, exclude_options
from reclaim.run.applied import Applied
from reclaim.run.checks import check_budget, check_clock, check_counted
from reclaim.run.decide import KEEPS_ALL, decide_seen
from reclaim.run.ends import cause_of, told_as_partial
from reclaim.run.exclusion import EXCLUDE, NOTHING_LEFT_OUT, Exclusion, LeftOut, write_files
from reclaim.run.exclusion import FOLDER as EXCLUDED_FOLDER
from reclaim.run.first_facts import first_facts
from reclaim.run.journal import Journal
from reclaim.run.known_lists import known_lists
from reclaim.run.lifecycle.forgetting import forget_unreferenced
from reclaim.run.lifecycle.rejudging import rejudge
from reclaim.run.lifecycle.released import keep_released
from reclaim.run.lifecycle.saving import leave_results
from reclaim.run.lifecycle.statistics import write_statistics
from reclaim.run.plan_file import PlanDocument
from reclaim.run.promises import keep_needed, keep_promises
from reclaim.run.removal import Removal, until_undone
from reclaim.run.stages import Stages, Watcher
from reclaim.run.sweep import sweep
from reclaim.run.trust import Basis
from reclaim.storage import hashed_files
from reclaim.stores.abilities import ClosesOverdue, KeepsLifecycle, TakesReferenced
from reclaim.stores.base import Held, Store
from reclaim.stores.observation import Observation, ObserveRequest

log = logging.getLogger(__name__)

ROUNDS = 20
"""How often it is confirmed before the writers are asked to pause."""
RESULT = "result.json"
NO_CONTAINERS = ContainerFiles((), 0, 0, 0)


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
        self._seen: Observation | None = None
        """What was seen in the read that confirmed the plan."""
        # Whether claims are promoted, or may be: an error need not mean that they are not.
        self._promoted = False

    def run(self) -> Applied:
        if self._claims.has_promoted():
            self._check_same_exclusion()
        again = f"apply the plan again: {self._command()}"
        with told_as_partial(self._run, self._held.lock, lambda: self._promoted, again=again):
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
            self._promoted = self._claims.has_promoted()
        state = RunState.PARTIAL if self._promoted else RunState.STOPPED
        if self._promoted:
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
            self._promoted = self._claims.has_promoted()
            if self._promoted:
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
        if self._promoted:
            with stage("resume") as resuming:
                closed = self._observe().closed
                going = self._without_done(self._claimed(self._basis.candidates), closed)
                self._intend(going)
                resuming.facts["left"] = _rows(going)
        else:
            going = self._claim_and_promote()
        outcome = Outcome()
        deleter = self._removal.deleter(self._store, self._run, self._journal)
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
                outcome.add(swept)
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

    def _rules(self) -> str:
        """The document of the stored rules, which must be those that the plan was made by."""
        document = None
        if isinstance(self._store, KeepsLifecycle):
            document = self._store.stored_lifecycle()
        if document is not None:
            stored = decode_lifecycle(document, repository=self._store.name)
            if lifecycle_document(stored.policy) == self._section.policy:
                return document
        raise PlanRefused(
            f"the lifecycle rules of {self._store.name} were changed since the plan was made",
            hint="nothing was deleted; plan it again: reclaim lifecycle run REPO --plan",
        )

    # Claim, close, confirm, promote

    def _claim_and_promote(self) -> Sequence[Part]:
        stage = self._stages.stage
        with stage("claim") as claiming:
            rules = self._rules()
            if isinstance(self._held, ClosesOverdue):
                self._held.close_overdue()
            candidates = self._find_unneeded()
            # What is promised from here on is known, wherever this run is cut off.
            self._intend(candidates)
            claiming.facts["claimed"] = self._claims.claim(self._rules_of(candidates))
            self._claims.close_claims()
        with stage("confirm", unit=OBJECTS, total=_rows(candidates)) as confirming:
            confirming.facts["rounds"] = self._confirm_until_promoted(rules)
        self._facts[PROMOTED] = True
        self._record()
        return self._claimed(candidates)

    def _find_unneeded(self) -> Sequence[Part]:
        """The candidates that nothing but commits needs: no staged entry, no upload, no open
        partition, and nothing that a run which can be undone has promised.

        Promises do not change while the lock is held, and a closed partition stays closed. What is
        staged from here on is looked for again once the claims are closed.
        """
        seen = keep_needed(
            self._observe(),
            self._store,
            self._engine,
            besides=self._run,
            place=self._own.below("work"),
            # Live containers list candidates here, so that all that is promised has to be read.
            known=(),
        )
        self._check_protected(seen)
        found = self._engine.confirm(
            ConfirmRequest(
                self._store.format,
                self._basis.candidates,
                NO_CONTAINERS,
                seen.held,
                seen.closed,
                self._journal.parts(),
                self._own.below("objects"),
                self._own.below("work"),
            )
        )
        if found.read.held != seen.held_count:
            raise IncompleteRead(
                f"to confirm, {seen.held_count} staged or promised addresses were expected and "
                f"{found.read.held} were read",
                hint="nothing was deleted; apply it again",
            )
        return found.parts

    def _check_protected(self, seen: Observation) -> None:
        more = [glob for glob in seen.protect if glob not in self._planned.protect]
        if more:
            raise PlanRefused(
                f"{self._store.name} protects {', '.join(more)} since the plan was made",
                hint="nothing was deleted; plan it again",
            )

    def _rules_of(self, candidates: Sequence[Part]) -> Iterator[tuple[str, str]]:
        """Each address with the rule that takes it, one file at a time."""
        for part in candidates:
            rows = read_part(self._storage, part, ["address", "reason"])
            columns = (rows.column(name).to_pylist() for name in ("address", "reason"))
            yield from zip(*columns, strict=True)

    def _confirm_until_promoted(self, rules: str) -> int:
        """Judge again by what is there now, until nothing has changed since; how often it took.

        Claims are closed, so that only commits can make new references, and refs tell of those.
        """
        for number in range(1, ROUNDS + 1):
            seen = self._observe()
            now = decide_seen(KEEPS_ALL, seen)
            judged = rejudge(
                self._store,
                self._engine,
                self._planned,
                self._place,
                seen,
                now,
                own=self._own.below("work").below(f"judged-{new_uid()}"),
                opener=self._opener,
            )
            leaving = self._addresses(judged.files, judged.addresses)
            self._claims.drop_claims(leaving)
            self._claims.drop_staged_claims()
            # A clock that jumped since has made leases look lapsed.
            own = Place(*self._store.place(self._run)).below("work")
            check_clock(self._store, self._store.storage, own)
            check_budget(self._store, self._held.lock, seen.read_at, so_far="nothing was deleted")
            self._promoted = True
            if self._claims.promote_claims(seen, rules):
                self._seen = seen
                return number
            self._promoted = False
        raise OutOfTime(
            "branches, tags or leases changed faster than the plan could be confirmed",
            hint="nothing was deleted; apply it again when fewer commits are being made",
        )

    def _addresses(self, files: Sequence[str], expected: int) -> Iterator[str]:
        """The addresses in files, one file at a time; as many as there must be."""
        read = 0
        for file in files:
            rows = hashed_files.read(self._storage, file, ["address"])
            read += rows.num_rows
            yield from rows.column("address").to_pylist()
        if read != expected:
            raise IncompleteRead(
                f"{expected} addresses leave the plan, and {read} were read",
                hint="nothing was deleted; apply it again",
            )

    def _observe(self) -> Observation:
        """The roots as they are now; what other runs can bring back holds its commits."""
        self._held.lock.check()
        seen = self._store.observe(
            ObserveRequest(
                self._storage,
                self._own.at(f"work/{new_uid()}/"),
                self._engine,
                self._basis.margin,
                settled=True,
            )
        )
        promised = keep_promises(
            seen,
            self._store,
            self._engine,
            besides=self._run,
            place=self._own.below("work"),
            opener=self._opener,
        )
        return keep_released(promised, self._store)

    # Once it is promoted

    def _claimed(self, candidates: Sequence[Part]) -> Sequence[Part]:
        """The candidates that the store has as claimed by this run: these go, and nothing else."""
        written = self._claims.write_claimed(self._storage, self._own.at("work/claimed/"))
        parts = [
            hashed_part(file, rows) for file, rows in zip(written.files, written.rows, strict=True)
        ]
        going = self._engine.intersect(candidates, parts, self._own.below("going"))
        if _rows(going) != written.count:
            raise IncompleteRead(
                f"the store has {written.count} addresses that run {self._run} claimed, and the "
                f"plan lists {_rows(going)} of them",
                hint="see whether files of the plan were changed; nothing more was deleted",
            )
        return going

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
        if self._seen is None:
            return
        try:
            forgotten = forget_unreferenced(
                self._store,
                self._claims,
                self._engine,
                self._planned,
                self._seen,
                own=self._own.below("work").below("forgetting"),
                opener=self._opener,
            )
        except ReclaimError as error:
            log.warning("what no commit has any more was not forgotten: %s", error)
        else:
            self._facts["forgotten"] = forgotten


def _rows(parts: Sequence[Part]) -> int:
    return sum(part.rows for part in parts)
