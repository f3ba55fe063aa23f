"""The nouns that every room shares. No I/O, no behaviour beyond what the words mean."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple, NewType

SnapshotId = NewType("SnapshotId", str)


class RefKind(StrEnum):
    """What sort of name a ref is."""

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

    ``marked`` says that an expiration replaced or dropped parents.
    """

    id: SnapshotId
    parents: tuple[SnapshotId, ...]
    written_at: datetime
    marked: bool = False


@dataclass(frozen=True, slots=True)
class Lease:
    """A mark that a snapshot is in use, valid for ``length`` after ``refreshed_at``."""

    id: str
    snapshot: SnapshotId
    holder: str
    refreshed_at: datetime
    length: timedelta

    def valid_at(self, now: datetime) -> bool:
        return now < self.refreshed_at + self.length


@dataclass(frozen=True, slots=True)
class StoredObject:
    """A physical thing in storage; the address is relative to the storage's root."""

    address: str
    size: int
    last_modified: datetime
    etag: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Refs and snapshots of one consistent read, ready to be passed over in order of time.

    Snapshots stand newest first and each is older than its children, so a number is smaller than
    the numbers of its parents. ``tips`` and ``parents`` hold such numbers, ``numbers`` finds them.
    """

    refs: tuple[Ref, ...]
    snapshots: tuple[Snapshot, ...]
    numbers: Mapping[SnapshotId, int]
    parents: tuple[tuple[int, ...], ...]
    tips: tuple[int, ...]


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
EDIT_TAKEN_BACK = "edit_taken_back"
"""Facts in a run's record: its marks were made terminal; its edit of the history is undone."""


@dataclass(frozen=True, slots=True)
class Run:
    """An execution that changed something, as it was recorded.

    ``place`` is where its plan and its journal are, if it has any.
    """

    id: str
    kind: str
    state: str
    started_at: datetime
    summary: Mapping[str, Any] = field(default_factory=dict)
    place: str = ""

    @property
    def quarantine(self) -> str | None:
        """How its objects were set aside, as long as they are."""
        nothing = self.state in (RunState.STOPPED, RunState.UNDONE, RunState.PURGED)
        return None if nothing else self.summary.get("quarantine")

    @property
    def undos(self) -> tuple[datetime, ...]:
        """When undos of it were begun; the files that each brought back carry its time."""
        return tuple(datetime.fromisoformat(begun) for begun in self.summary.get("undos", ()))

    @property
    def undoing(self) -> bool:
        """Whether it was begun to be undone, and that is not finished."""
        return bool(self.undos) and self.quarantine is not None

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

    @property
    def until(self) -> datetime | None:
        """How long what it set aside is to be kept."""
        told = self.summary.get("until")
        return datetime.fromisoformat(told) if told and self.quarantine else None
