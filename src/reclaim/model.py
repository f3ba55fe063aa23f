"""Types shared by all modules. No I/O, little behaviour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, NewType

SnapshotId = NewType("SnapshotId", str)


def instant_text(instant: datetime, precision: str = "auto") -> str:
    """Return an instant as text for all output: in UTC, ending in Z."""
    return instant.astimezone(UTC).isoformat(timespec=precision).replace("+00:00", "Z")


class RefKind(StrEnum):
    """The kind of a ref."""

    BRANCH = "branch"
    TAG = "tag"
    LABEL = "label"


@dataclass(frozen=True, slots=True)
class Ref:
    """A name that points to a snapshot."""

    name: str
    kind: RefKind
    snapshot: SnapshotId
    default: bool = False


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A node of the history. Contents never change; parents can be edited.

    ``marked`` says an expiration replaced or dropped parents. The ``message`` is set only on
    request, and may be shortened.
    """

    id: SnapshotId
    parents: tuple[SnapshotId, ...]
    written_at: datetime
    marked: bool = False
    message: str = ""


UNDO_HOLDER = "undo of run "
"""Prefix of the holder of an undo's lease; the id of the undone run follows."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A mark for a snapshot in use, valid for ``length`` after ``refreshed_at``."""

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
        """Return the run whose undo took the lease; None for any other holder."""
        if not self.holder.startswith(UNDO_HOLDER):
            return None
        return self.holder.removeprefix(UNDO_HOLDER)


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object in storage; the address is relative to the storage's root."""

    address: str
    size: int
    last_modified: datetime
    etag: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Refs and snapshots of a consistent read, sorted with children first.

    A snapshot comes after its children, so its number is smaller than the numbers of its parents;
    otherwise the newest comes first. ``tips`` and ``parents`` hold such numbers, ``numbers`` maps
    ids to them. Times need not follow this order: clocks run backwards. ``ages`` has for each
    snapshot its rank by time, newest first, and ``by_time`` the number at each rank. If no clock
    ran backwards, both are the range of the numbers. ``origins`` are the snapshots without parents.
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
        """Return whether every snapshot is newer than its parents."""
        return isinstance(self.ages, range)


class Decision(NamedTuple):
    """A policy's decision on a snapshot, and every reason as a sentence.

    There is a decision for each snapshot, and a named tuple is the fastest class to construct.
    """

    id: SnapshotId
    kept: bool
    reasons: tuple[str, ...]
