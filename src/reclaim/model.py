"""The nouns that every room shares. No I/O, no behaviour beyond what the words mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, NewType

SnapshotId = NewType("SnapshotId", str)


def instant_text(instant: datetime, precision: str = "auto") -> str:
    """An instant as all of Reclaim writes it: in UTC, with a Z at its end."""
    return instant.astimezone(UTC).isoformat(timespec=precision).replace("+00:00", "Z")


class RefKind(StrEnum):
    """The kind of a ref."""

    BRANCH = "branch"
    TAG = "tag"
    LABEL = "label"


@dataclass(frozen=True, slots=True)
class Ref:
    """A name that points at a snapshot."""

    name: str
    kind: RefKind
    snapshot: SnapshotId
    default: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A node of the history. Contents never change; parents can be edited.

    ``marked`` says that an expiration replaced or dropped parents. The ``message`` is there only
    where somebody asked for it, and not all of a long one.
    """

    id: SnapshotId
    parents: tuple[SnapshotId, ...]
    written_at: datetime
    marked: bool = False
    message: str = ""


UNDO_HOLDER = "undo of run "
"""How the holder of a lease begins that an undo took; the id of the undone run follows."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A mark that a snapshot is in use, valid for ``length`` after ``refreshed_at``."""

    id: str
    snapshot: SnapshotId
    holder: str
    refreshed_at: datetime
    length: timedelta

    @property
    def end(self) -> datetime:
        return self.refreshed_at + self.length

    def valid_at(self, now: datetime) -> bool:
        return now < self.end

    @property
    def undone_run(self) -> str | None:
        """The run whose undo took the lease; None for any other holder."""
        if not self.holder.startswith(UNDO_HOLDER):
            return None
        return self.holder.removeprefix(UNDO_HOLDER)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """A physical thing in storage; the address is relative to the storage's root."""

    address: str
    size: int
    last_modified: datetime
    etag: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Refs and snapshots of one consistent read, ready to be passed over, children first.

    A snapshot comes after its children, so its number is smaller than the numbers of its parents;
    among the rest the newest comes first. ``tips`` and ``parents`` hold such numbers, ``numbers``
    finds them. Times need not follow: clocks run backwards. ``ages`` has for each snapshot its
    place by time, the newest first, and ``by_time`` the number at each place. Where no clock ran
    backwards, both are the range of the numbers. ``origins`` are those without parents.
    """

    refs: tuple[Ref, ...]
    snapshots: tuple[Snapshot, ...]
    numbers: Mapping[SnapshotId, int]
    parents: tuple[tuple[int, ...], ...]
    tips: tuple[int, ...]
    ages: Sequence[int]
    by_time: Sequence[int]
    origins: Sequence[int]

    @property
    def monotone(self) -> bool:
        """Whether every snapshot is newer than its parents."""
        return isinstance(self.ages, range)


class Decision(NamedTuple):
    """Whether a policy keeps a snapshot, and every reason as a sentence.

    There is one for each snapshot, and no other class is made as quickly.
    """

    id: SnapshotId
    kept: bool
    reasons: tuple[str, ...]


class RunState(StrEnum):
    """How far a run came."""

    STARTED = "started"
    # Stopped by an error before anything was deleted; or on the way, with a rest to do.
    STOPPED = "stopped"
    PARTIAL = "partial"
    DONE = "done"
    UNDONE = "undone"
    # What it had set aside was deleted.
    PURGED = "purged"
    # Its record is damaged.
    UNREADABLE = "unreadable"


PROMOTED = "promoted"
GIVEN_UP = "given_up"
"""A fact in a run's record: when an undo began to release what it has not deleted."""
EDIT_TAKEN_BACK = "edit_taken_back"
EDITED_BY_LIBRARY = "edited_by_library"
"""Facts in a run's record: its marks were made terminal; its edit of the history is undone; the
store's own library has edited the history, or has begun to."""
RELEASED_BY_LIBRARY = "released_by_library"
"""A fact in a run's record: the file with what the edits of the store's library release."""
INTENDED = "intended"
LISTS = "lists"
"""Facts in a run's record: how many objects it was about to take; what the lists of its applies
hash to, by their names below the folder of applies."""
ADOPT = "adopt"
"""The kind of a record that partitions were adopted, which only the storage knew."""
PROTECTED = "protected"
"""A fact in a run's record: where the memory of what is protected is, and what it hashes to."""
CHECKPOINT = "checkpoint"
"""A fact in a run's record: where its checkpoint is, and what its manifest hashes to."""
LIFECYCLE = "lifecycle"
"""A fact in a run's record: the day of the rules that it deleted by, their ids, and how many
addresses were held."""
LIFECYCLE_CHECKPOINT = "lifecycle_checkpoint"
"""A fact in the record of a run of lifecycle rules: where its checkpoint is, and what its manifest
hashes to."""
LIFECYCLE_DATES = "lifecycle_dates"
"""A fact in such a record: its rules at their dates."""
OPERATORS = "operators"
"""A name in a run's record: who worked on it."""
PLAN_DIGEST = "plan"
"""A fact in a run's record: what the plan hashes to that it was made from."""
VOUCHED = "vouched"
"""A fact in a run's record: the store or a person vouched for that plan when it was applied."""


@dataclass(frozen=True, slots=True)
class Quarantine:
    """A run's quarantine: how objects were removed, how long they are kept, how far they are back.

    A run's record has it as keys of its summary. This is the one place that knows their names.
    """

    removal: str
    since: datetime | None = None
    until: datetime | None = None
    """How long it is to be kept."""
    intended: int = 0
    """How many objects the run was about to take."""
    undos: tuple[datetime, ...] = ()
    """When undos of the run were begun; the files that each brought back carry its time."""
    purge_begun: datetime | None = None
    """When the first purge began to delete what is in there: from then on nothing is promised."""

    @classmethod
    def of_record(cls, summary: Mapping[str, Any]) -> Quarantine | None:
        """The quarantine that a record tells of; None if the run has none.

        What is not as it must be is a ``ValueError``.
        """
        removal = summary.get("quarantine")
        if removal is None:
            return None
        if not isinstance(removal, str):
            raise ValueError("quarantine is not a text")
        undos = summary.get("undos", [])
        if not isinstance(undos, list | tuple):
            raise ValueError("undos is not a list")
        intended = summary.get(INTENDED, 0)
        if not isinstance(intended, int):
            raise ValueError("intended is not a number")
        return cls(
            removal,
            _instant("since", summary.get("since")),
            _instant("until", summary.get("until")),
            intended,
            tuple(_time("undos", begun) for begun in undos),
            _instant("purge_begun", summary.get("purge_begun")),
        )

    def record(self) -> dict[str, Any]:
        """It as keys of a record."""
        keys: dict[str, Any] = {"quarantine": self.removal}
        if self.since is not None:
            keys["since"] = instant_text(self.since)
        if self.until is not None:
            keys["until"] = instant_text(self.until)
        if self.intended:
            keys[INTENDED] = self.intended
        if self.undos:
            keys["undos"] = [instant_text(begun) for begun in self.undos]
        if self.purge_begun is not None:
            keys["purge_begun"] = instant_text(self.purge_begun)
        return keys


def _instant(name: str, text: object) -> datetime | None:
    return None if text is None else _time(name, text)


def _time(name: str, text: object) -> datetime:
    try:
        found = datetime.fromisoformat(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise ValueError(f"{name} is not a time") from None
    if found.tzinfo is None:
        raise ValueError(f"{name} has no time zone")
    return found


@dataclass(frozen=True, slots=True)
class Operator:
    """A user, the host, and the command by which a run was worked on."""

    user: str
    host: str
    command: str

    def record(self) -> dict[str, str]:
        return {"user": self.user, "host": self.host, "command": self.command}

    @classmethod
    def all_of(cls, record: object) -> tuple[Operator, ...]:
        """The operators in a record; what is not one is a ``ValueError``."""
        try:
            listed = [cls(row["user"], row["host"], row["command"]) for row in record]  # type: ignore[attr-defined]
        except (TypeError, KeyError) as error:
            raise ValueError("operators is not a list of operators") from error
        if not all(isinstance(text, str) for one in listed for text in one.record().values()):
            raise ValueError("an operator is not text")
        return tuple(listed)


@dataclass(frozen=True, slots=True)
class Run:
    """An execution that changed something, as it was recorded.

    ``place`` is where its plan and its journal are, if it has any. ``operators`` worked on it, the
    first one first.
    """

    id: str
    kind: str
    state: str
    started_at: datetime
    summary: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""
    operators: tuple[Operator, ...] = field(default=(), compare=False)
    quarantine: Quarantine | None = field(init=False, compare=False)
    """Its quarantine, for as long as something is in there."""

    def __post_init__(self) -> None:
        over = self.state in (RunState.STOPPED, RunState.UNDONE, RunState.PURGED)
        aside = None if over else Quarantine.of_record(self.summary)
        object.__setattr__(self, "quarantine", aside)

    @property
    def purging(self) -> bool:
        """Whether a purge has begun to delete what it set aside, and that is not finished."""
        return self.quarantine is not None and self.quarantine.purge_begun is not None

    @property
    def undoable(self) -> bool:
        """Whether what it set aside can be brought back, and so is promised."""
        return self.quarantine is not None and not self.purging

    @property
    def undoing(self) -> bool:
        """Whether it was begun to be undone, and that is not finished."""
        return self.quarantine is not None and bool(self.quarantine.undos)

    @property
    def given_up(self) -> bool:
        """Whether an undo has begun to release what it has not deleted, so that nobody finishes
        it."""
        return GIVEN_UP in self.summary

    @property
    def unfinished(self) -> bool:
        """Whether some of what it set aside, or was about to, may be at its old place."""
        whole = self.state == RunState.DONE and not self.undoing
        return self.quarantine is not None and not whole

    @property
    def promoted(self) -> bool:
        """Whether it may have condemned or taken something; until then its edit can be undone."""
        early = self.state in (RunState.STARTED, RunState.STOPPED)
        return not early or bool(self.summary.get(PROMOTED))
