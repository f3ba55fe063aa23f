"""Apply: condemn, confirm, sweep, record. Always from the start, however often it is called.

*Condemn* marks every snapshot that is not live now, until one read of the roots shows that all of
them are marked: from that read on nobody can build on anything dead. That read is the *confirm*:
whatever it reaches and the plan did not know, by id, leaves the plan. Only then are the marks made
terminal and the first byte deleted. Contents never change, so a plan may be days old.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from reclaim.engine.base import ConfirmRequest, ContainerFiles, Engine, ExpandRequest
from reclaim.engine.late import begin, wait_for
from reclaim.engine.tasks.deleting import FAILED, Outcome
from reclaim.engine.tasks.parts import Opener, Part, Place, open_storage
from reclaim.engine.tasks.quarantine import QUARANTINED
from reclaim.engine.tasks.tally import OBJECTS
from reclaim.errors import (
    IncompleteRead,
    LockLost,
    NotFound,
    OutOfTime,
    Partial,
    PlanRefused,
    ReclaimError,
)
from reclaim.globs import check_globs
from reclaim.ids import new_uid
from reclaim.model import (
    CHECKPOINT,
    EDIT_TAKEN_BACK,
    EDITED_BY_LIBRARY,
    INTENDED,
    LISTS,
    PLAN_DIGEST,
    PROMOTED,
    PROTECTED,
    VOUCHED,
    Quarantine,
    Run,
    RunState,
    SnapshotId,
)
from reclaim.policy import parse_policy
from reclaim.run import plan_file, plan_snapshots
from reclaim.run.admission import COLLECT, check_begun, check_plan, exclude_options
from reclaim.run.applied import SPARED, UNPLANNED, Applied
from reclaim.run.causes import find_dead, find_dead_ids, live_containers
from reclaim.run.checks import check_budget, check_clock, check_counted
from reclaim.run.decide import KEEPS_ALL, Decided, decide_seen
from reclaim.run.edit_counts import NO_EDIT, EditCounts
from reclaim.run.ends import cause_of, told_as_partial
from reclaim.run.exclusion import EXCLUDE, NOTHING_LEFT_OUT, Exclusion, LeftOut, write_files
from reclaim.run.exclusion import FOLDER as EXCLUDED_FOLDER
from reclaim.run.exclusion import exclude as leave_out
from reclaim.run.first_facts import COLLECTED, CONDEMNED, first_facts
from reclaim.run.journal import Journal
from reclaim.run.known_lists import known_lists
from reclaim.run.library_edit import edit_by_library
from reclaim.run.library_notes import LibraryNotes
from reclaim.run.lifecycle.applying import LifecycleApplying, check_lifecycle
from reclaim.run.limits import NO_LIMITS, Limits
from reclaim.run.plan_file import PlanDocument
from reclaim.run.plan_snapshots import PlannedSnapshots
from reclaim.run.promises import keep_needed, observe_again
from reclaim.run.protection import hold_protected, remember
from reclaim.run.removal import DELETE, MARKED, Removal
from reclaim.run.reviewed_edit import EditAgain, ReviewedEdit, make_edit
from reclaim.run.stages import Silent, Stages, Watcher
from reclaim.run.sweep import sweep
from reclaim.run.trust import Basis, find_basis, is_trusted
from reclaim.run.uncommitted.saving import save_checkpoint
from reclaim.run.wholeness import find_whole
from reclaim.stores.abilities import (
    ClosesOverdue,
    EditsHistory,
    Expiration,
    FreesKinds,
    HistorySeen,
    TakesOver,
)
from reclaim.stores.base import Held, Store
from reclaim.stores.observation import Observation

log = logging.getLogger(__name__)

ROUNDS = 20
"""How often dead snapshots are looked for before the writers are asked to pause."""

RESULT = "result.json"
NO_CONTAINERS = ContainerFiles((), 0, 0, 0)


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
    check_plan(planned, store)
    limits.check(planned, hint="nothing was changed; review the plan, or allow more")
    removal.check(store, planned)
    trusted = is_trusted(store, planned, digest)
    check_lifecycle(store, planned, trusted=trusted)
    check_begun(store.find_run(planned.run), removal, place, planned, globs, trusted=trusted)
    # Each apply has its own folder: one that died may have left files without a list.
    own = place.below("apply").below(new_uid())
    watching = watcher or Silent()
    begin(engine)
    # Before the lock is taken: a plan needs none, and may take long.
    basis = find_basis(
        store, engine, place, planned, own=own, digest=digest, watcher=watching, opener=opener
    )
    # A lock is not held while Spark starts.
    wait_for(engine)
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
        applying = _Applying if planned.lifecycle is None else LifecycleApplying
        return applying(
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
        ).run()


def _editing(held: Held) -> EditsHistory:
    if not isinstance(held, EditsHistory):
        raise PlanRefused(
            "the plan edits history, and only the store's own tools can do that",
            hint="plan it again without rules",
        )
    return held


class _Applying:
    """One apply, under the lock."""

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
        self._store = store
        self._held = held
        self._engine = engine
        self._place = place
        self._opener = opener
        self._storage = opener(place.url)
        self._planned = planned
        self._basis = basis
        self._exclusion = exclusion
        self._left_out = NOTHING_LEFT_OUT
        self._removal = removal
        self._run = planned.run
        self._stages = Stages(planned.run, watcher)
        self._own = own
        self._journal = Journal(
            self._storage,
            place.below("apply"),
            self._own,
            known=known_lists(earlier),
            record=self._record_lists,
        )
        self._condemned = False
        # An earlier apply may have taken something, even if this one does not get so far.
        self._begun = earlier is not None and earlier.state != RunState.STOPPED
        self._facts = first_facts(removal, store, earlier, begun=self._begun)
        self._facts |= {PLAN_DIGEST: planned.digest, LISTS: self._journal.known}
        if self._begun and earlier is not None and CHECKPOINT in earlier.summary:
            # What is taken now as well, the next run does not find any more.
            self._facts[CHECKPOINT] = earlier.summary[CHECKPOINT]
        if earlier is not None and PROTECTED in earlier.summary:
            self._facts[PROTECTED] = earlier.summary[PROTECTED]
        if exclusion is not None:
            # From the start: who goes on with this run must leave out the same.
            self._facts[EXCLUDE] = list(exclusion.globs)
        if not basis.compared:
            self._facts[VOUCHED] = True
        self._promoted = self._begun and earlier is not None and earlier.promoted
        if self._promoted:
            self._facts[PROMOTED] = True
        # Whether history may be edited by a run that has promoted nothing.
        self._edited = False
        self._library_edit = basis.document.library_edit
        self._library_notes = LibraryNotes(store, held, planned.run, self._facts, earlier)
        self._unplanned: frozenset[SnapshotId] = frozenset()

    def run(self) -> Applied:
        again = f"apply the plan again: {self._command()}"
        with told_as_partial(self._run, self._held.lock, self._has_changed, again=again):
            try:
                return self._apply()
            except BaseException as error:
                self._stop(error)
                raise

    def _command(self) -> str:
        """The command that goes on with this run."""
        globs = () if self._exclusion is None else self._exclusion.globs
        return " ".join(filter(None, ("reclaim apply", str(self._place), exclude_options(globs))))

    def _has_changed(self) -> bool:
        return self._condemned or self._edited or self._library_notes.edited

    def _stop(self, error: BaseException) -> None:
        """Note how far it came, as far as that can be noted, and take back what is provisional."""
        with suppress(Exception):
            self._held.abandon()
        if isinstance(error, Partial):
            return
        partial = self._condemned or self._begun
        state = RunState.PARTIAL if partial else RunState.STOPPED
        if not self._facts.get(PROMOTED) and not self._store.deleted and not self._library_edit:
            state = self._take_edit_back(state)
        if self._promises_library_edit():
            # Nobody can take that edit back: for as long as the run can be finished or undone, it
            # promises what the library released.
            state = RunState.STARTED
        said = {"error": cause_of(error)} | self._facts
        with suppress(Exception):
            self._held.finish(self._run, state, said)

    def _promises_library_edit(self) -> bool:
        """Whether a library has edited for this run, which was to set objects aside and has not
        come so far."""
        came_further = self._condemned or self._facts.get(PROMOTED)
        edited = bool(self._facts.get(EDITED_BY_LIBRARY))
        return edited and not came_further and self._removal.name is not None

    def _take_edit_back(self, state: RunState) -> RunState:
        """Take the edit back, unless the run has promoted; returns what the run is then.

        The store knows whether what is not known here was saved.
        """
        if not isinstance(self._held, EditsHistory):
            return state
        try:
            left = self._held.roll_back()
        except Exception:
            # Left as started, it is rolled back by whoever has the lock next.
            return RunState.STARTED if self._edited or self._begun else state
        if left is None:
            self._condemned = self._facts[PROMOTED] = True
            return RunState.PARTIAL
        self._condemned = False
        self._facts |= NO_EDIT.record()
        if self._edited or self._begun:
            self._facts[EDIT_TAKEN_BACK] = True
        if left:
            self._facts["left"] = list(left)
        else:
            self._edited = False
        return RunState.STOPPED

    def _apply(self) -> Applied:
        stage = self._stages.stage
        with stage("check"):
            # The plan may lie elsewhere, so it is the store's own storage that is asked.
            own = Place(*self._store.place(self._run)).below("work")
            check_clock(self._store, self._store.storage, own)
            decided = self._verify()
            self._give_up_damaged()
            self._held.begin()
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
            # Before the roots are read: it lists the store, which may take longer than what was
            # read may be old. Under the lock nobody else takes anything of them.
            left_whole = self._find_left_whole()
            if isinstance(self._held, FreesKinds):
                self._held.free_kinds(self._basis.kinds)
        with stage("expire") as expiring:
            edit = self._edit(decided)
            self._facts |= (EditCounts.of_record(self._facts) + edit).record()
            expiring.facts["edited"] = edit.reparented
        with stage("condemn") as condemning:
            seen, now = self._condemn(decided)
            condemning.facts["live"] = len(now.live)
            self._check_protected(seen)
            self._compare(decided, now)
            self._left_out = self._find_left_out(seen)
            self._facts |= self._left_out.record()
        going = sum(part.rows for part in self._basis.candidates)
        with stage("confirm", unit=OBJECTS, total=going) as confirming:
            seen = keep_needed(
                seen,
                self._store,
                self._engine,
                besides=self._run,
                place=self._own.below("work"),
                known=[file.part for file in self._basis.document.containers],
            )
            known = decided.live | decided.dead.keys() | now.live
            seen = hold_protected(
                seen,
                self._store,
                self._engine,
                find_dead_ids(seen, now) - known,
                own=self._own.below("work").below("protected"),
                opener=self._opener,
            )
            candidates, dropped = self._confirm(decided, seen, now)
            confirming.facts["dropped"] = dropped
        with stage("promote"):
            # A clock that jumped since has made young what is old, or leases look lapsed.
            check_clock(self._store, self._store.storage, own)
            check_budget(self._store, self._held.lock, seen.read_at, so_far="nothing was deleted")
            deleter = self._removal.deleter(self._store, self._run, self._journal)
            # What is promised from here on is known, wherever this run is cut off.
            self._journal.intend(candidates)
            self._facts[INTENDED] = self._journal.intended_rows()
            self._remember_protected(seen)
            self._held.finish(self._run, RunState.STARTED, self._facts)
            self._facts[CONDEMNED] += self._promote()
            self._facts[PROMOTED] = True
            self._held.finish(self._run, RunState.STARTED, self._facts)
            if left_whole and isinstance(self._held, TakesOver):
                # Before the first of their objects goes: from then on they are not whole at home.
                self._held.take_over(left_whole)
        outcome = Outcome()
        for kind in self._store.format.order:
            if outcome.counts[FAILED] and self._store.format.sequential:
                break
            if kind in self._basis.kinds:
                of_kind = sum(part.rows for part in candidates if part.group == kind)
                with stage(f"sweep-{kind}", unit=OBJECTS, total=of_kind) as sweeping:
                    swept = sweep(
                        self._store,
                        self._engine,
                        self._held.lock,
                        deleter,
                        candidates=candidates,
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
        with stage("record") as recording:
            collected = 0 if outcome.counts[FAILED] else self._collect(decided, seen, now)
            self._facts[COLLECTED] += collected
            recording.facts["snapshots"] = collected
        aside = Quarantine.of_record(self._facts)
        total = self._journal.total()
        applied = Applied(
            self._run,
            self._place,
            total,
            self._planned.candidates - total.counts.total() - self._left_out.objects,
            self._facts[CONDEMNED],
            self._facts[COLLECTED],
            None if aside is None else aside.until,
            self._store.noun,
            self._removal.requests(self._store, total.only(QUARANTINED)[0]),
            self._basis.compared,
            self._facts.get(UNPLANNED, 0),
            self._facts.get(SPARED, 0),
            EditCounts.of_record(self._facts),
            self._left_out,
        )
        if not applied.failed:
            self._save_checkpoint(decided)
        self._finish(applied)
        return applied

    def _remember_protected(self, seen: Observation) -> None:
        """Remember what is protected by containers that are about to go."""
        fact = remember(
            self._store,
            self._engine,
            self._basis.document,
            self._place,
            seen,
            opener=self._opener,
        )
        if fact is not None:
            self._facts[PROTECTED] = fact

    def _save_checkpoint(self, decided: PlannedSnapshots) -> None:
        """Leave a checkpoint for the next run, if this is a run that leaves one.

        Whatever stops that: the next run starts from the older one.
        """
        if self._planned.uncommitted is None or self._basis.compared or CHECKPOINT in self._facts:
            return
        with self._stages.stage("checkpoint"):
            try:
                saved = save_checkpoint(
                    self._store,
                    self._engine,
                    self._planned,
                    self._place,
                    live=decided.live,
                    journal=self._journal.parts(),
                    opener=self._opener,
                )
            except ReclaimError as error:
                log.warning("run %s leaves no checkpoint: %s", self._run, error)
                return
        if saved is not None:
            self._facts[CHECKPOINT] = saved

    def _check_protected(self, seen: Observation) -> None:
        """Refuse a plan from before something was protected by the setting of the store."""
        more = [glob for glob in seen.protect if glob not in self._planned.protect]
        if more and not self._store.deleted:
            raise PlanRefused(
                f"{self._store.name} protects {', '.join(more)} since the plan was made",
                hint="nothing was deleted; plan it again",
            )

    def _give_up_damaged(self) -> None:
        """Give up damaged lists, unless they alone tell what an earlier apply took.

        By the plan itself it is found again, but not by one that was made anew: that has only what
        is there, and not what is under delete markers.
        """
        damaged = self._journal.find_damaged(self._engine, self._place)
        if damaged and self._basis.compared and self._removal.name == MARKED:
            raise PlanRefused(
                f"the record of run {self._run} at {self._place} is damaged, and the store has no "
                "record of the plan any more, by which its delete markers could be found",
                hint="give the digest that `reclaim plan` printed (--digest SHA256), or restore "
                "the lists from a backup",
            )
        self._journal.give_up(damaged)

    def _verify(self) -> PlannedSnapshots:
        """The decisions about snapshots; refused unless the files are what the summary says."""
        planned = self._planned
        files = (*planned.files, *planned.containers)
        counted = self._engine.verify([file.part for file in files], self._place)
        check_counted(planned, counted, plan_snapshots.read(self._storage, planned.snapshots.part))
        return plan_snapshots.read(self._storage, self._basis.document.snapshots.part)

    def _edit(self, decided: PlannedSnapshots) -> EditCounts:
        """Take out of the history what expires, by the plan and as it stands."""
        policy = parse_policy(self._basis.document.rules, source="the plan's policy")
        if policy.empty or self._store.deleted:
            return NO_EDIT
        if self._library_edit is not None:
            return edit_by_library(
                self._store,
                self._held,
                Expiration(
                    policy,
                    self._basis.document.read_at,
                    self._library_edit.delete_expired_tags,
                    self._library_edit.delete_expired_branches,
                ),
                decided,
                self._library_notes,
            )
        held = _editing(self._held)
        if self._begun and not self._promoted:
            self._roll_own_edit_back(held)

        def make(again: EditAgain, seen: HistorySeen) -> bool:
            # An error need not mean that it was not saved.
            self._edited = not self._promoted
            return held.edit_history(again.edit.reparent, again.edit.delete_refs, seen)

        reviewed = ReviewedEdit(
            policy,
            self._basis.document.read_at,
            decided.expired,
            decided.released,
            decided.delete_refs,
        )
        again = make_edit(reviewed, held.read_history, make)
        return EditCounts.of(again.edit, again.released)

    def _roll_own_edit_back(self, held: EditsHistory) -> None:
        """Take back the edit of an apply that died: it would hide from the rules what it took."""
        if held.roll_back() is None:
            self._promoted = self._facts[PROMOTED] = True
        else:
            self._facts |= NO_EDIT.record()

    def _compare(self, decided: PlannedSnapshots, now: Decided) -> None:
        """Note where the store's library did less than the plan says, and where more."""
        if self._library_edit is not None:
            spared = sum(1 for one in decided.dead if one in now.live)
            # By the plan these get out of reach, and stay all the same.
            left = decided.live & decided.released
            self._facts |= {UNPLANNED: len(self._unplanned - left), SPARED: spared}
            self._library_notes.note_unplanned(self._unplanned)

    def _record_lists(self) -> None:
        """Let the store know the lists of this apply: only those it knows are believed."""
        self._held.finish(self._run, RunState.STARTED, self._facts)

    def _promote(self) -> int:
        """Make the marks terminal. An error need not mean that they are not; see ``_stop``."""
        self._condemned = True
        try:
            return self._held.promote()
        except LockLost:
            self._condemned = False
            raise

    def _condemn(self, decided: PlannedSnapshots) -> tuple[Observation, Decided]:
        """Mark what is dead until a read shows that all of it is marked; release what is not."""
        if isinstance(self._held, ClosesOverdue):
            self._held.close_overdue()
        for _ in range(ROUNDS):
            self._held.lock.check()
            seen = observe_again(
                self._store,
                self._engine,
                self._basis.margin,
                besides=self._run,
                own=self._own,
                opener=self._opener,
                left_out=self._exclusion.needing if self._exclusion else (),
            )
            now = self._spare(seen, decide_seen(KEEPS_ALL, seen))
            unmarked = {
                one: decided.dead.get(one) or now.rule(one)
                for one in seen.ids
                if one not in now.live and one not in seen.marked
            }
            if not unmarked:
                self._held.release([one for one in seen.marked if one in now.live])
                return seen, now
            self._held.condemn(unmarked)
        raise OutOfTime(
            f"the history changed faster than its dead {self._store.noun}s could be marked",
            hint="nothing was deleted; apply it again when fewer branches are being deleted",
        )

    def _spare(self, seen: Observation, now: Decided) -> Decided:
        """The decisions as of now, sparing what the store's library took out beyond the plan, or
        beyond what was predicted when it was asked.

        Nobody has reviewed that. It stays, with all that it needs, until a later plan names it; for
        as long as it is not condemned, somebody may name it too.
        """
        if self._library_edit is None or self._store.deleted:
            return now
        self._unplanned = self._library_notes.find_unplanned(seen.ids - now.live)
        return decide_seen(KEEPS_ALL, seen, spared=self._unplanned) if self._unplanned else now

    def _confirm(
        self, decided: PlannedSnapshots, seen: Observation, now: Decided
    ) -> tuple[Sequence[Part], int]:
        """The candidates that nothing reaches now; what is new is found by id, never by time."""
        judged = find_dead(seen, now)
        # One that could be read when it was planned may be in the middle of being written again.
        torn = {
            one
            for one in seen.unreadable
            if decided.dead.get(one) not in (seen.why.get(one), judged.get(one))
        }
        kept = now.live - decided.live | torn
        fresh = live_containers(seen, kept)
        revived = NO_CONTAINERS
        if fresh.num_rows:
            revived = self._engine.expand(
                ExpandRequest(
                    self._store.format,
                    fresh,
                    self._own.below("containers"),
                    known=[file.part for file in self._basis.document.containers],
                )
            )
        found = self._engine.confirm(
            ConfirmRequest(
                self._store.format,
                self._basis.candidates,
                revived,
                seen.held,
                seen.closed,
                self._journal.parts(),
                self._own.below("objects"),
                self._own.below("work"),
            )
        )
        complete = (
            ("containers of snapshots", fresh.num_rows, revived.of_snapshots),
            ("containers", revived.containers, found.read.containers),
            ("entries", revived.entries, found.read.entries),
            ("staged or pending addresses", seen.held_count, found.read.held),
        )
        for what, expected, read in complete:
            if expected != read:
                raise IncompleteRead(
                    f"to confirm, {expected} {what} were expected and {read} were read",
                    hint="nothing was deleted; apply it again",
                )
        confirmed = sum(part.rows for part in found.parts)
        return found.parts, self._planned.candidates - self._left_out.objects - confirmed

    def _find_left_out(self, seen: Observation) -> LeftOut:
        """What a person left out of the plan and no earlier apply has taken."""
        if self._exclusion is None:
            return NOTHING_LEFT_OUT
        parts, place = self._exclusion.excluded, self._own.below(EXCLUDED_FOLDER)
        if done := self._journal.parts():
            parts = self._engine.confirm(
                ConfirmRequest(
                    self._store.format,
                    parts,
                    NO_CONTAINERS,
                    (),
                    seen.closed,
                    done,
                    place.below("left"),
                    self._own.below("work"),
                )
            ).parts
        write_files(self._storage, self._own, parts)
        counted = self._engine.verify(parts, place).values()
        objects, size = (sum(counts[at] for counts in counted) for at in range(2))
        return LeftOut(self._exclusion.globs, objects, size, str(place))

    def _find_left_whole(self) -> Sequence[SnapshotId]:
        """Snapshots that runs which have ended left condemned, if this one can promise them.

        Of some of them an earlier run has deleted a part; nobody can bring those back.
        """
        if (
            self._removal.name is None
            or self._store.deleted
            or not isinstance(self._held, TakesOver)
        ):
            return ()
        left = self._held.left_condemned()
        place = self._own.below("work").below("left")
        if not left:
            return ()
        return find_whole(self._store, self._engine, left, place, opener=self._opener)

    def _collect(self, decided: PlannedSnapshots, seen: Observation, now: Decided) -> int:
        """Let go of the dead snapshots of which nothing is left."""
        kinds = seen.containers.values()
        over = {addresses[one] for addresses in kinds for one in now.live if one in addresses}
        for kind in seen.containers:
            over |= self._journal.taken(kind)

        def is_gone(snapshot: SnapshotId) -> bool:
            own = {addresses[snapshot] for addresses in kinds if snapshot in addresses}
            left = own - over
            # Some need not have been there. Of what was condemned before this run, an earlier one
            # took the rest.
            asked = left != own or snapshot not in seen.ids
            return not left or (asked and all(map(self._missing, left)))

        dead = [one for one in decided.dead if one not in now.live and is_gone(one)]
        return self._removal.finalize(self._held, dead)

    def _missing(self, address: str) -> bool:
        try:
            self._store.storage.head(address)
        except NotFound:
            return True
        return False

    def _finish(self, applied: Applied) -> None:
        state = RunState.PARTIAL if applied.failed else RunState.DONE
        self._storage.put(
            self._own.at(RESULT), json.dumps({"state": state} | applied.summary()).encode()
        )
        self._held.finish(self._run, state, self._facts | applied.summary())
        for stored in list(self._storage.list(self._own.at("work"))):
            self._storage.delete(stored.address)
        if CHECKPOINT in self._facts:
            # Copied to where the next run finds it; it may be large.
            for stored in list(self._storage.list(self._place.at("index"))):
                self._storage.delete(stored.address)
        if applied.failed:
            raise Partial(
                f"{applied.failed} objects could not be deleted; the journal at {self._own} says "
                "why",
                hint=f"apply the plan again: {self._command()}",
                **applied.summary(),
            )
