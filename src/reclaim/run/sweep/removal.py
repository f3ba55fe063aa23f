"""Removals: delete objects, or move them to quarantine, from which they can be restored.

A removal supplies the deleter of a sweep. The sweep is the same for all removals.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from reclaim.engine import pipelines
from reclaim.engine.answers import NO_CONTAINERS
from reclaim.engine.base import Engine
from reclaim.engine.requests import FindRequest, RecallRequest
from reclaim.engine.tasks.delete_markers import CoverWithMarkers, PurgeCovered, RemoveMarkers
from reclaim.engine.tasks.deleting import Deleter, Remove
from reclaim.engine.tasks.judging import CandidateRules
from reclaim.engine.tasks.notes import COVERING, RETURNED, find_notes
from reclaim.engine.tasks.parts import Opener, Part, Place
from reclaim.engine.tasks.quarantine import PurgeQuarantined, QuarantineFolder, ToQuarantine
from reclaim.engine.tasks.restoring import FromQuarantine
from reclaim.errors import Corrupt, NotFound, PlanRefused, ReclaimError, Refused, StorageDenied
from reclaim.ids import new_uid
from reclaim.model import SnapshotId
from reclaim.run.plan import plan_file
from reclaim.run.plan.plan_document import PlanDocument
from reclaim.run.plan.plan_file import PlannedRun
from reclaim.run.record.damaged_notes import recall_without
from reclaim.run.record.journal import Journal
from reclaim.run.record.known_lists import known_lists
from reclaim.run_record import Quarantine, RunRecord
from reclaim.safety import SAFETY
from reclaim.storage import KeyRange, buckets
from reclaim.stores.abilities import HeldQuarantine, Quarantines
from reclaim.stores.base import Held, Store
from reclaim.stores.format import QUARANTINE

MOVED, MARKED = "moved", "marked"
"""Names of the quarantine removals in run records."""
OPTIONS = {None: "--no-quarantine", MOVED: "--quarantine", MARKED: "--quarantine --markers"}
"""Command line options of each removal; None for deleting."""
KEEP = SAFETY.quarantine
"""Default quarantine period."""
FAR = timedelta(days=3650)

log = logging.getLogger(__name__)


class Removal(Protocol):
    """How an apply removes objects."""

    @property
    def name(self) -> str | None:
        """Name in a run record; None for deleting."""
        ...

    def check(self, store: Store, planned: PlanDocument) -> None:
        """Refuse an unsupported removal, before any change."""
        ...

    def deleter(self, store: Store, run_id: str, journal: Journal) -> Deleter: ...

    def finalize(self, held: Held, ids: Collection[SnapshotId]) -> int:
        """Delete the metadata of snapshots whose objects were removed."""
        ...

    def quarantine(self, now: datetime, promised: Quarantine | None) -> Quarantine | None:
        """Quarantine of a run that begins now, for its record; None for deleting.

        ``promised`` is the quarantine of an earlier apply of the same plan.
        """
        ...

    def requests(self, store: Store, objects: int) -> int:
        """Number of paid storage requests needed."""
        ...


class UndoableRemoval(Removal, Protocol):
    """Removal that can be undone until a purge."""

    def check_reversible(self, store: Store) -> None:
        """Refuse an undo or a purge that cannot be done correctly."""
        ...

    def quarantined(
        self, store: Store, engine: Engine, run: RunRecord, place: Place, opener: Opener
    ) -> Sequence[Part]:
        """Objects in the quarantine of a run, and no others, each with its identity."""
        ...

    def aside(self, store: Store, run_id: str) -> QuarantineFolder | None:
        """Quarantine location of a run; None if objects stay at their address."""
        ...

    def restorer(self, store: Store, run: RunRecord, opener: Opener) -> Deleter:
        """Deleter that restores objects; ``quarantined`` reads its notes."""
        ...

    def purger(self, store: Store, run: RunRecord) -> Deleter: ...


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete objects."""

    name: None = None

    def check(self, store: Store, planned: PlanDocument) -> None:
        pass

    def deleter(self, store: Store, run_id: str, journal: Journal) -> Deleter:  # noqa: ARG002
        return Remove()

    def finalize(self, held: Held, ids: Collection[SnapshotId]) -> int:
        return held.collect(ids)

    def quarantine(self, now: datetime, promised: Quarantine | None) -> None:
        pass

    def requests(self, store: Store, objects: int) -> int:  # noqa: ARG002
        return 0


DELETE = Delete()


@dataclass(frozen=True, slots=True)
class MoveToQuarantine:
    """Move objects to a folder of the store: renamed on a disk, copied and deleted elsewhere."""

    keep: timedelta = KEEP
    name: str = MOVED
    may_shorten: bool = False
    """Whether ``keep`` may shorten the quarantine promised by an earlier apply."""

    def check(self, store: Store, planned: PlanDocument) -> None:  # noqa: ARG002
        _check_store(store)

    def check_reversible(self, store: Store) -> None:
        pass

    def deleter(self, store: Store, run_id: str, journal: Journal) -> Deleter:
        return ToQuarantine(_aside(store, run_id), undo_begun(store, run_id), again=journal.begun)

    def finalize(self, held: Held, ids: Collection[SnapshotId]) -> int:
        return quarantine_handle(held).set_aside(ids)

    def quarantine(self, now: datetime, promised: Quarantine | None) -> Quarantine:
        return _window(self, now, promised)

    def requests(self, store: Store, objects: int) -> int:
        # A copy and a check of it; deletes are free.
        return 2 * objects if store.storage.at_once > 1 else 0

    def quarantined(
        self, store: Store, engine: Engine, run: RunRecord, place: Place, opener: Opener
    ) -> Sequence[Part]:
        record = find_record(store, run, opener)
        if record is None or not record.tells_all:
            # Lists are missing: list its quarantine folder instead.
            return self._listed(store, engine, run, place)
        recalled = place.below("recalled")
        try:
            return _grouped(
                pipelines.recall(engine, record.request(_aside(store, run.id), recalled, opener))
            )
        except (Refused, Corrupt) as error:
            log.warning("the record of run %s is damaged: %s", run.id, error.message)
            return self._listed(store, engine, run, place)

    def _listed(self, store: Store, engine: Engine, run: RunRecord, place: Place) -> Sequence[Part]:
        folder = store.format.quarantine_path(run.id).rstrip("/")
        inside, objects = store.storage.folders(folder)
        ranges = [KeyRange(prefix) for prefix in (inside if not objects else [folder])]
        listed = engine.list(store.format, ranges, place.below("listing"))
        now = store.clock.now()
        rules = CandidateRules(
            cutoffs={QUARANTINE: now + FAR},
            closed=frozenset(),
            open=frozenset(),
            causes=(),
            reasons={QUARANTINE: f"put in quarantine by run {run.id}"},
            now=now,
            protected=(),
        )
        out, work = place.below("objects"), place.below("work")
        candidates = pipelines.find(
            engine, FindRequest(store.format, listed, NO_CONTAINERS, (), rules, out, work)
        )
        return _grouped(candidates.parts)

    def aside(self, store: Store, run_id: str) -> QuarantineFolder:
        return _aside(store, run_id)

    def restorer(self, store: Store, run: RunRecord, opener: Opener) -> Deleter:
        undos = _undos(run) or (store.clock.now(),)
        return FromQuarantine(_aside(store, run.id), undos, _new_notes(store, run, opener))

    def purger(self, store: Store, run: RunRecord) -> Deleter:  # noqa: ARG002
        return PurgeQuarantined(_undos(run))


@dataclass(frozen=True, slots=True)
class DeleteMarkers:
    """Set delete markers, in a bucket with versioning."""

    keep: timedelta = KEEP
    name: str = MARKED
    may_shorten: bool = False
    """Whether ``keep`` may shorten the quarantine promised by an earlier apply."""

    def check(self, store: Store, planned: PlanDocument) -> None:
        _check_store(store)
        _check_versioning(store, "use --quarantine without --markers")
        if planned.place.url != store.storage.url:
            raise Refused(
                "delete markers need a plan in the bucket itself; this plan is stored elsewhere",
                hint="make a plan without --out",
            )

    def check_reversible(self, store: Store) -> None:
        _check_versioning(store, "switch the bucket's versioning on again, then repeat it")

    def deleter(self, store: Store, run_id: str, journal: Journal) -> Deleter:
        return CoverWithMarkers(journal.own.below(COVERING).prefix, undo_begun(store, run_id))

    def finalize(self, held: Held, ids: Collection[SnapshotId]) -> int:
        return quarantine_handle(held).set_aside(ids)

    def quarantine(self, now: datetime, promised: Quarantine | None) -> Quarantine:
        return _window(self, now, promised)

    def requests(self, store: Store, objects: int) -> int:  # noqa: ARG002
        return 0

    def quarantined(
        self,
        store: Store,
        engine: Engine,
        run: RunRecord,
        place: Place,
        opener: Opener,
    ) -> Sequence[Part]:
        record = find_record(store, run, opener)
        if record is None:
            raise Refused(
                f"the plan of run {run.id} at {run.place} cannot be read, and only the plan lists "
                "the markers of the run",
                hint="restore it from a backup; the objects are noncurrent versions in the bucket",
            )
        if not record.is_whole:
            raise _markers_unknown(run, "lists of it are missing or changed")
        request = record.request(None, place.below("recalled"), opener)
        try:
            return _grouped(pipelines.recall(engine, request))
        except (PlanRefused, Corrupt) as error:
            return _grouped(self._recall_without(engine, request, opener, run, error))

    def _recall_without(
        self,
        engine: Engine,
        request: RecallRequest,
        opener: Opener,
        run: RunRecord,
        error: ReclaimError,
    ) -> Sequence[Part]:
        try:
            recalled = recall_without(engine, request, opener, run.id)
        except (PlanRefused, Corrupt) as damaged:
            raise _markers_unknown(run, damaged.message) from damaged
        if recalled is None:
            raise _markers_unknown(run, error.message) from error
        return recalled

    def aside(self, store: Store, run_id: str) -> None:
        pass

    def restorer(self, store: Store, run: RunRecord, opener: Opener) -> Deleter:
        return RemoveMarkers(_new_notes(store, run, opener))

    def purger(self, store: Store, run: RunRecord) -> Deleter:  # noqa: ARG002
        return PurgeCovered()


REMOVALS: Mapping[str, UndoableRemoval] = {MOVED: MoveToQuarantine(), MARKED: DeleteMarkers()}


def _window(
    removal: MoveToQuarantine | DeleteMarkers, now: datetime, promised: Quarantine | None
) -> Quarantine:
    """Quarantine from now on. It never ends before a promised end, unless requested."""
    until = now + removal.keep
    if promised and promised.until and not removal.may_shorten:
        until = max(until, promised.until)
    return Quarantine(removal.name, now, until)


def removal_of(run: RunRecord) -> UndoableRemoval | None:
    """Quarantine removal of a run; None if it used none, or if its quarantine has ended."""
    return REMOVALS.get(run.quarantine.removal) if run.quarantine else None


@dataclass(frozen=True, slots=True)
class Record:
    """Plan of a run, with the journal of its applies."""

    run: RunRecord
    place: Place
    journal: Journal

    @property
    def is_whole(self) -> bool:
        """Whether all recorded lists exist, with at least the recorded number of objects."""
        return not self.journal.lost and self.journal.intended_rows() >= self.run.intended

    @property
    def tells_all(self) -> bool:
        """Whether the lists name all quarantined objects, so that the quarantine need not be
        listed.

        Objects of a list that was given up are in no other list.
        """
        return self.is_whole and not self.journal.given_up and bool(self.journal.intended())

    def promised(self) -> Sequence[Part]:
        """Files with all objects the run took, or was about to take."""
        taken = self.journal.parts() if self.journal.given_up else ()
        return [*self.journal.intended(), *taken]

    def request(
        self, quarantine: QuarantineFolder | None, place: Place, opener: Opener
    ) -> RecallRequest:
        """Request to recall the objects of the lists, from journals and notes of tasks."""
        storage = opener(self.place.url)
        # Notes by undos of the run on restored objects.
        notes = find_notes(storage, self.place.at("undo"), RETURNED)
        if quarantine is None:
            notes += find_notes(storage, self.place.at("apply"), COVERING)
        intended, journal = self.journal.intended(), self.journal.parts()
        return RecallRequest(intended, journal, notes, self.place, quarantine, place)


def _markers_unknown(run: RunRecord, why: str) -> Refused:
    return Refused(
        f"the record of run {run.id} at {run.place} is damaged, and only the record lists the "
        f"markers of the run: {why}",
        hint="restore the record from a backup; otherwise the objects stay under their markers "
        "until a lifecycle rule of the bucket removes old versions; no other run waits for them"
        if run.purging
        else f"apply its plan again, which finds them: reclaim apply {run.place} --quarantine "
        "--markers; or restore it from a backup",
    )


def find_record(store: Store, run: RunRecord, opener: Opener) -> Record | None:
    """Find the plan and journal of a run; None if the plan is gone or unreadable.

    Another plan at the same location does not belong to the run. A plan for another store belongs
    to the original of this copy, and notes written there would be trusted by the original.
    """
    try:
        place, planned = plan_file.find_run(opener(run.place), run.place)
        if planned.run != run.id or not _is_for(planned, store):
            return None
        applies = place.below("apply")
        journal = Journal(opener(place.url), applies, applies, known=known_lists(run))
        return Record(run, place, journal)
    except (NotFound, Refused, Corrupt, StorageDenied):
        return None


def _is_for(planned: PlannedRun, store: Store) -> bool:
    """Whether a plan is for this store, and not for its original.

    A copy of a catalog has the uid of the original and another storage. A store in a folder has its
    own URL as uid; it shares the storage of its copies in the parent folder.
    """
    same_storage = planned.storage in (None, store.storage.url)
    return same_storage and planned.uid in (None, store.uid)


def _new_notes(store: Store, run: RunRecord, opener: Opener) -> Place | None:
    """Folder for the notes of an undo: next to the plan, from where all notes are recalled."""
    record = find_record(store, run, opener)
    if record is None:
        return None
    return record.place.below("undo").below(new_uid()).below(RETURNED)


def _check_store(store: Store) -> None:
    if not isinstance(store, Quarantines):
        raise Refused(
            f"{store.kind} stores have no quarantine", hint="apply the plan without --quarantine"
        )


def quarantine_handle(held: Held) -> HeldQuarantine:
    """Return the handle of a store with a quarantine."""
    assert isinstance(held, HeldQuarantine)
    return held


def _check_versioning(store: Store, hint: str) -> None:
    status = buckets.versioning(store.storage.url)
    if status != buckets.ENABLED:
        shown = status or ("not known" if status is None else "off")
        raise Refused(
            f"delete markers need a bucket with versioning; it is {shown} here", hint=hint
        )


def undo_begun(store: Store, run_id: str) -> str:
    """Address of a file that marks the start of an undo of a run.

    A task stopped for too long cannot ask the store; it only has access to its storage.
    """
    return Place(*store.place(run_id)).below("undo").at("begun")


def note_undo_begun(store: Store, run_id: str, now: datetime) -> None:
    """Write the file, for late tasks of an apply."""
    note = undo_begun(store, run_id)
    store.storage.put(note, now.isoformat().encode())
    store.storage.flush([note])


def until_undone(deleter: Deleter, store: Store, run_id: str) -> Deleter:
    """Deleter that stops deleting once an undo of its run has begun.

    For a run that deletes referenced objects: from then on the remaining objects are in use again.
    """
    if isinstance(deleter, Remove):
        return replace(deleter, undo_begun=undo_begun(store, run_id))
    return deleter


def _aside(store: Store, run_id: str) -> QuarantineFolder:
    return QuarantineFolder(store.format.prefix, store.format.quarantine_path(run_id))


def _grouped(parts: Sequence[Part]) -> Sequence[Part]:
    return [replace(part, group=QUARANTINE) for part in parts]


def _undos(run: RunRecord) -> tuple[datetime, ...]:
    return run.quarantine.undos if run.quarantine else ()
