"""The record of a run: a typed value, saved and loaded by stores.

A record is immutable. It has a version; records of earlier versions are migrated when read.
``ALLOWED`` lists the actions allowed in each phase.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from reclaim.errors import Conflict, PlanRefused, ReclaimError, Refused

if TYPE_CHECKING:
    from pydantic import ConfigDict, TypeAdapter

VERSION = 1
COLLECT = "collect"
"""Kind of a run that applies a plan with objects."""
EXPIRE = "expire"
"""Kind of a run that only edits history."""
PURGE = "purge"
"""Kind of a run that ends quarantines."""
ADOPT = "adopt"
"""Kind of a record for adopted partitions, previously unknown to the database."""


class Phase(StrEnum):
    """Progress of a run."""

    STARTED = "started"
    # The store may have made the run's marks terminal, or not: only the store knows.
    PROMOTING = "promoting"
    PROMOTED = "promoted"
    # Ended by an error before anything was promoted.
    STOPPED = "stopped"
    # Ended with objects left to delete.
    PARTIAL = "partial"
    DONE = "done"
    # An undo has begun to restore or release objects.
    UNDOING = "undoing"
    # A purge has begun to delete objects in quarantine.
    PURGING = "purging"
    UNDONE = "undone"
    PURGED = "purged"
    # The record cannot be read.
    UNREADABLE = "unreadable"


UNPROMOTED = (Phase.STARTED, Phase.PROMOTING, Phase.STOPPED)
EARLY = (*UNPROMOTED, Phase.PROMOTED)
"""Phases of a run before its first delete, or interrupted after it."""
QUARANTINE_ENDED = (Phase.STOPPED, Phase.UNDONE, Phase.PURGED)


class Action(StrEnum):
    """Action on a run or next to it."""

    APPLY = "apply its plan again"
    EXCLUDE_LESS = "apply its plan again, without an exclusion that it had"
    UNDO = "undo it"
    PURGE = "purge its quarantine"
    ANOTHER = "delete in another run"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Reason to refuse an action. The texts may use the ``{run}``, its ``{phase}``, and its
    original ``{options}``."""

    error: type[ReclaimError]
    sentence: str
    hint: str = ""


_UNREADABLE = Refusal(Refused, "the record of run {run} cannot be read", "see `reclaim doctor`")
_NOT_FINISHED = Refusal(
    PlanRefused,
    "this plan was begun with {options} and is not finished",
    "finish it with {options}; otherwise the excluded objects would be deleted",
)
_OVER = Refusal(
    PlanRefused, "the plan was applied, and its run was {phase} since", "make a new plan"
)
_EMPTY = Refusal(Refused, "run {run} has nothing in quarantine", "see `reclaim runs`")
_UNDO_BEGUN = Refusal(
    PlanRefused,
    "an undo of run {run} has begun",
    "finish it with `reclaim undo {run}`, and make a new plan",
)
_PURGE_BEGUN = Refusal(
    PlanRefused,
    "a purge has begun to delete the quarantine of run {run}",
    "finish it with `reclaim purge STORE --run {run}`, and make a new plan",
)
_BEING_PURGED = Refusal(
    Refused,
    "a purge has begun to delete the quarantine of run {run}, so the run can no longer be undone",
    "finish the purge: reclaim purge STORE --run {run}",
)
_UNDONE = Refusal(Conflict, "run {run} was undone already", "see `reclaim runs`")
_PURGED = Refusal(Refused, "the quarantine of run {run} was purged and cannot be restored")

# In the order of ``Action``; None is allowed.
_ROWS: Mapping[Phase, tuple[Refusal | None, ...]] = {
    Phase.STARTED: (None, _NOT_FINISHED, None, None, None),
    Phase.PROMOTING: (None, _NOT_FINISHED, None, None, None),
    Phase.PROMOTED: (None, _NOT_FINISHED, None, None, None),
    Phase.STOPPED: (None, None, None, _EMPTY, None),
    Phase.PARTIAL: (None, _NOT_FINISHED, None, None, None),
    Phase.DONE: (None, None, None, None, None),
    Phase.UNDOING: (_UNDO_BEGUN, _UNDO_BEGUN, None, None, None),
    Phase.PURGING: (_PURGE_BEGUN, _PURGE_BEGUN, _BEING_PURGED, None, None),
    Phase.UNDONE: (_OVER, _OVER, _UNDONE, _EMPTY, None),
    Phase.PURGED: (_OVER, _OVER, _PURGED, _EMPTY, None),
    Phase.UNREADABLE: (_UNREADABLE,) * len(Action),
}
ALLOWED: Mapping[tuple[Phase, Action], Refusal | None] = {
    (phase, action): refusal
    for phase, row in _ROWS.items()
    for action, refusal in zip(Action, row, strict=True)
}
"""Refusal of each action in each phase; None if the phase allows the action. Other parts of a
record may exclude the action: a run without a quarantine has none to purge."""


class _Part:
    """Part of a record. Unknown keys are an error."""

    __slots__ = ()
    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid"}

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:  # type: ignore[attr-defined]
            value = getattr(self, name)
            if isinstance(value, datetime) and value.tzinfo is None:
                raise ValueError(f"{name} has no time zone")


@dataclass(frozen=True, slots=True)
class Operator(_Part):
    """User, host and command of someone who worked on a run."""

    user: str
    host: str
    command: str

    def document(self) -> dict[str, str]:
        return {"user": self.user, "host": self.host, "command": self.command}


@dataclass(frozen=True, slots=True)
class Quarantine(_Part):
    """Quarantine of a run: how objects were removed, and how long they are kept."""

    removal: str
    since: datetime | None = None
    until: datetime | None = None
    undos: tuple[datetime, ...] = ()
    """Start times of undos; restored files carry the time of their undo."""
    purge_begun: datetime | None = None
    """When the first purge began to delete objects. From then on nothing is promised."""
    incomplete: bool = False
    """Whether the run was unfinished at the start of the purge."""


@dataclass(frozen=True, slots=True)
class RunCounts(_Part):
    """Number of objects and snapshots a run took, summed over all of its applies."""

    objects: int = 0
    bytes: int = 0
    failed: int = 0
    missing: int = 0
    dropped: int = 0
    """Candidates referenced again when the plan was applied."""
    condemned: int = 0
    collected: int = 0
    rescued: int = 0
    """Objects restored by a purge because they were referenced again."""


@dataclass(frozen=True, slots=True)
class EditCounts(_Part):
    """Number of re-parented snapshots, of snapshots removed from history, and the deleted refs.

    Removal from history does not delete a snapshot: a lease or a promise may hold it.
    """

    reparented: int = 0
    released: int = 0
    deleted_refs: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        """Whether history was edited at all."""
        return bool(self.reparented or self.deleted_refs)

    def __add__(self, other: EditCounts) -> EditCounts:
        names = dict.fromkeys((*self.deleted_refs, *other.deleted_refs))
        return EditCounts(
            self.reparented + other.reparented, self.released + other.released, tuple(names)
        )

    def document(self) -> dict[str, Any]:
        return {
            "reparented": self.reparented,
            "released": self.released,
            "deleted_refs": list(self.deleted_refs),
        }


NO_EDIT = EditCounts()


@dataclass(frozen=True, slots=True)
class RecordedEdit(_Part):
    """History edit of a run."""

    counts: EditCounts = NO_EDIT
    by_library: bool = False
    """Whether the store's own library has edited the history, or started to."""
    released_file: str = ""
    """Address of the list of snapshots released by the library."""
    unplanned: int = 0
    """Snapshots the library removed from history beyond the plan."""
    spared: int = 0
    """Planned snapshots the library kept."""
    taken_back: bool = False
    left: tuple[str, ...] = ()
    """Parts that could not be rolled back."""


@dataclass(frozen=True, slots=True)
class LeftOut(_Part):
    """Objects a user excluded from an apply."""

    globs: tuple[str, ...] = ()
    objects: int = 0
    size: int = 0
    place: str = ""
    """Folder with their list."""

    def document(self) -> dict[str, object]:
        return {
            "exclude": list(self.globs),
            "excluded": self.objects,
            "excluded_bytes": self.size,
            "excluded_list": self.place,
        }


NOTHING_LEFT_OUT = LeftOut()


@dataclass(frozen=True, slots=True)
class SavedManifest(_Part):
    """Address and hash of a checkpoint manifest."""

    address: str
    sha256: str


@dataclass(frozen=True, slots=True)
class ProtectedMemory(_Part):
    """Stored list of protected objects; without an address, a run dropped the list."""

    generation: int
    address: str = ""
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class RecordedRule(_Part):
    """Date of a lifecycle rule for a branch; "" for all other branches."""

    rule_id: str
    prefix: str
    branch: str
    date_to_be_deleted: date


@dataclass(frozen=True, slots=True)
class RecordedLifecycle(_Part):
    """Lifecycle rules applied by a run, and its results for the next run."""

    today: str = ""
    """Reference day for the dates of the rules."""
    rules: tuple[str, ...] = ()
    """Ids of the enabled rules."""
    mode: str = ""
    held: int = 0
    """Addresses matched by a rule but held."""
    dates: tuple[RecordedRule, ...] = ()
    forgotten: int = 0


@dataclass(frozen=True, slots=True)
class GivenUp(_Part):
    """Release of objects claimed and not deleted by a lifecycle run."""

    begun: datetime
    claimed: int
    released: int = 0
    gone: int = 0


@dataclass(frozen=True, slots=True)
class RecordedPurge(_Part):
    """Runs whose quarantine a purge ended, and the runs it skipped."""

    runs: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunRecord(_Part):
    """Record of a run that changed the store."""

    id: str
    kind: str
    phase: Phase
    started_at: datetime
    place: str = ""
    """Folder of the plan and the journal; "" if there is none."""
    operators: tuple[Operator, ...] = field(default=(), compare=False)
    """Operators of the run, the first operator first."""
    promised: Quarantine | None = None
    """Quarantine as promised, even after it ended."""
    intended: int = 0
    """Number of objects about to be taken."""
    counts: RunCounts = RunCounts()
    edit: RecordedEdit = RecordedEdit()
    left_out: LeftOut = NOTHING_LEFT_OUT
    lists: Mapping[str, tuple[str, ...]] | None = None
    """Hashes of each list of the applies, by name below their folder; None in a record of an older
    version without lists."""
    plan: str = ""
    """Digest of the plan."""
    vouched: bool = False
    """Whether the store or a person vouched for the plan when it was applied."""
    compared: bool = False
    """Whether all objects were compared again because nobody vouched for the plan."""
    protected: ProtectedMemory | None = None
    checkpoint: SavedManifest | None = None
    """Checkpoint for the next run."""
    lifecycle: RecordedLifecycle | None = None
    given_up: GivenUp | None = None
    purge: RecordedPurge | None = None
    purged_by: str = ""
    partitions: int = 0
    """Number of adopted partitions."""
    finished_at: datetime | None = None
    """End of the last apply."""
    error: str = ""
    """Class of the error that stopped the run; for an unreadable record, the error message."""
    hint: str = ""
    version: int = VERSION

    # What its phase says

    def refusal(self, action: Action) -> Refusal | None:
        return ALLOWED[self.phase, action]

    def allows(self, action: Action) -> bool:
        return self.refusal(action) is None

    def check(self, action: Action, **details: str) -> None:
        """Refuse an action not allowed in this phase. The texts may use the details."""
        if (refusal := self.refusal(action)) is not None:
            texts = {"run": self.id, "phase": self.phase, **details}
            sentence, hint = (text.format(**texts) for text in (refusal.sentence, refusal.hint))
            raise refusal.error(sentence, hint=hint or None)

    @property
    def quarantine(self) -> Quarantine | None:
        """The quarantine, unless it has ended."""
        return None if self.phase in QUARANTINE_ENDED else self.promised

    @property
    def may_quarantine(self) -> bool:
        """Whether objects may be in quarantine. True for an unreadable record."""
        return self.quarantine is not None or self.phase is Phase.UNREADABLE

    @property
    def promoted(self) -> bool:
        """Whether the run has condemned or taken anything. Until then its edit can be rolled back.

        For a run in phase ``promoting``, only the store knows.
        """
        return self.phase not in UNPROMOTED

    @property
    def is_provisional(self) -> bool:
        """Whether the run is active, or was interrupted, possibly before its promotion."""
        return self.phase in (Phase.STARTED, Phase.PROMOTING)

    @property
    def purging(self) -> bool:
        return self.phase is Phase.PURGING

    @property
    def undoable(self) -> bool:
        """Whether its quarantined objects can be restored, and so are promised."""
        return self.quarantine is not None and self.allows(Action.UNDO)

    @property
    def undoing(self) -> bool:
        """Whether an undo has begun and is unfinished."""
        begun_before = self.purging and self.promised is not None and bool(self.promised.undos)
        return self.phase is Phase.UNDOING or begun_before

    @property
    def unfinished(self) -> bool:
        """Whether some objects it took, or was about to take, may be at their original address."""
        if self.purging:
            return self.promised is not None and self.promised.incomplete
        return self.phase in (*EARLY, Phase.PARTIAL, Phase.UNDOING) and (
            self.phase is not Phase.STOPPED
        )

    @property
    def finished(self) -> bool:
        """Whether it took all of its objects and cannot be undone."""
        return self.phase in (Phase.DONE, Phase.PURGED) or (self.purging and not self.unfinished)

    # The next records

    def rolled_back(self, left: tuple[str, ...]) -> RunRecord:
        """The record after rolling back its edit before the promotion."""
        return replace(
            self, phase=Phase.STOPPED, edit=replace(self.edit, taken_back=True, left=left)
        )

    def undo_begun(self, now: datetime) -> RunRecord:
        assert self.promised is not None
        begun = replace(self.promised, undos=(*self.promised.undos, now))
        return replace(self, phase=Phase.UNDOING, promised=begun)

    def purge_begun(self, now: datetime) -> RunRecord:
        """The record before a purge deletes its first object. The time of the first purge is
        kept."""
        assert self.promised is not None
        if self.purging:
            return self
        begun = replace(self.promised, purge_begun=now, incomplete=self.unfinished)
        return replace(self, phase=Phase.PURGING, promised=begun)

    # As text

    def encode(self) -> str:
        """Encode the record as JSON, without default values."""
        document = _adapter().dump_python(self, mode="json", exclude_defaults=True)
        return json.dumps(document | {"version": self.version}, sort_keys=True)

    def summary(self) -> dict[str, Any]:
        """Counts and facts by name, for people and programs."""
        return _summary(self)


@cache
def _adapter() -> TypeAdapter[RunRecord]:
    # A command that reads no run needs no pydantic.
    from pydantic import TypeAdapter

    return TypeAdapter(RunRecord)


def decode(document: Mapping[str, Any]) -> RunRecord:
    """Decode a record. Raise ``ValueError`` for an invalid record, or a newer version."""
    version = document.get("version")
    if version is None:
        document = _migrate(document)
    elif version != VERSION:
        raise ValueError(f"it has version {version}, but this Reclaim reads version {VERSION}")
    document = _with_run_checkpoint(document)
    from pydantic import ValidationError

    try:
        return _adapter().validate_json(json.dumps(document), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the record"
        raise ValueError(f"{where}: {first['msg']}") from error


def _with_run_checkpoint(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Move the checkpoint from the lifecycle section of an older record to the run."""
    lifecycle = document.get("lifecycle")
    if not isinstance(lifecycle, dict) or "checkpoint" not in lifecycle:
        return document
    left = {name: value for name, value in lifecycle.items() if name != "checkpoint"}
    return {**document, "lifecycle": left, "checkpoint": lifecycle["checkpoint"]}


def unreadable(run_id: str, started_at: datetime, error: str, hint: str) -> RunRecord:
    """Placeholder for an unreadable record.

    It never counts as the record of a run without a quarantine.
    """
    return RunRecord(run_id, Phase.UNREADABLE, Phase.UNREADABLE, started_at, error=error, hint=hint)


# Records of before versions: a state, and facts by name in one flat summary

_QUARANTINE = ("since", "until", "undos", "purge_begun")
_COUNTS = tuple(RunCounts.__dataclass_fields__)
_EDIT_COUNTS = tuple(EditCounts.__dataclass_fields__)
_LEFT_OUT = {
    "globs": "exclude",
    "objects": "excluded",
    "size": "excluded_bytes",
    "place": "excluded_list",
}
_EDIT = {
    "by_library": "edited_by_library",
    "released_file": "released_by_library",
    "unplanned": "unplanned",
    "spared": "spared",
    "taken_back": "edit_taken_back",
    "left": "left",
}
_SAME = (
    "intended",
    "lists",
    "plan",
    "vouched",
    "protected",
    "checkpoint",
    "purged_by",
    "partitions",
    "finished_at",
    "error",
    "hint",
)


def _migrate(document: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a record without a version. Unknown facts are dropped."""
    old = document.get("summary")
    if not isinstance(old, dict):
        raise ValueError("summary is not an object")
    keys = ("id", "kind", "started_at", "place", "operators")
    new: dict[str, Any] = {key: document[key] for key in keys if key in document}
    new |= {key: old[key] for key in _SAME if key in old}
    new["version"] = VERSION
    new["phase"] = phase = _old_phase(document, old)
    if old.get("quarantine") is not None:
        new["promised"] = promised = {"removal": old["quarantine"], **_named(old, _QUARANTINE)}
        if phase is Phase.PURGING:
            promised["incomplete"] = document.get("state") != Phase.DONE
    new["counts"] = _named(old, _COUNTS)
    # In a cancelled lifecycle run, this is another count.
    given_up = old.get("given_up")
    edit_counts = _named(old, _EDIT_COUNTS if given_up is None else ())
    new["edit"] = {"counts": edit_counts, **_renamed(old, _EDIT)}
    new["left_out"] = _renamed(old, _LEFT_OUT)
    new["compared"] = bool(old.get("compared"))
    if isinstance(rules := old.get("lifecycle"), dict):
        saved = _renamed(old, {"dates": "lifecycle_dates", "checkpoint": "lifecycle_checkpoint"})
        named = _named(rules, ("today", "rules", "mode", "held"))
        new["lifecycle"] = {**named, **saved, **_named(old, ("forgotten",))}
    if given_up is not None:
        counts = _named(old, ("claimed", "released", "gone"))
        new["given_up"] = {"begun": given_up, **counts}
    if "runs" in old:
        new["purge"] = _named(old, ("runs", "skipped"))
    return new


def _old_phase(document: Mapping[str, Any], old: Mapping[str, Any]) -> Phase:
    state = Phase(str(document.get("state")))
    if state not in (Phase.STARTED, Phase.PARTIAL, Phase.DONE):
        return state
    if old.get("quarantine") is not None:
        if old.get("purge_begun") is not None:
            return Phase.PURGING
        if old.get("undos"):
            return Phase.UNDOING
    if old.get("given_up") is not None:
        return Phase.UNDOING
    if state is Phase.STARTED and document.get("kind") == COLLECT:
        # It was recorded after the promotion.
        return Phase.PROMOTED if old.get("promoted") else Phase.PROMOTING
    return state


def _named(old: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    return {name: old[name] for name in names if old.get(name) is not None}


def _renamed(old: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {new: old[name] for new, name in names.items() if old.get(name) is not None}


def _summary(record: RunRecord) -> dict[str, Any]:
    new: dict[str, Any] = _adapter().dump_python(record, mode="json", exclude_defaults=True)
    summary = _named(new, _SAME) | _flat(new, "promised", {"quarantine": "removal"}, _QUARANTINE)
    if record.kind in (COLLECT, PURGE):
        summary |= {name: getattr(record.counts, name) for name in _COUNTS}
    if record.kind != PURGE:
        summary |= record.edit.counts.document()
    summary |= _flat(new, "edit", {old: name for name, old in _EDIT.items()}, ())
    if record.left_out != NOTHING_LEFT_OUT:
        summary |= record.left_out.document()
    if lifecycle := record.lifecycle:
        summary["lifecycle"] = _named(new["lifecycle"], ("today", "rules", "mode", "held"))
        summary |= _flat(new, "lifecycle", {"lifecycle_dates": "dates"}, ())
        summary["forgotten"] = lifecycle.forgotten
    if record.given_up:
        summary |= _flat(new, "given_up", {"given_up": "begun"}, ("claimed", "released", "gone"))
    summary |= _flat(new, "purge", {}, ("runs", "skipped"))
    summary |= _named(new, ("compared",))
    return dict(sorted(summary.items()))


def _flat(
    new: Mapping[str, Any], part: str, renamed: Mapping[str, str], names: tuple[str, ...]
) -> dict[str, Any]:
    values = new.get(part, {})
    return _renamed(values, renamed) | _named(values, names)
