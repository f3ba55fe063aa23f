"""The nouns that every room shares. No I/O, no behaviour beyond what the words mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple, NewType

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
