"""Ability of stores whose referenced objects can be deleted by lifecycle rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from reclaim.model import SnapshotId
from reclaim.storage import Storage
from reclaim.stores.observation import Observation


@dataclass(frozen=True, slots=True)
class AddressFiles:
    """Files with a column ``address``, each named with its hash like the files of ``held``."""

    files: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    """Number of rows in each file."""

    @property
    def count(self) -> int:
        return sum(self.rows)


class TakesReferenced(ABC):
    """A store in which lifecycle rules may delete objects still referenced by snapshots.

    The store keeps the rules (see ``policy.lifecycle``) and the addresses of deleted objects.
    """

    @abstractmethod
    def stored_lifecycle(self) -> str | None:
        """Text of the stored rules; None if none are stored. An unreadable text is an error."""

    @abstractmethod
    def store_lifecycle(self, document: str | None) -> None:
        """Replace the stored text atomically; None removes it."""

    @abstractmethod
    def write_expired(
        self, destination: Storage, prefix: str, *, besides: str = "", of: str = ""
    ) -> AddressFiles:
        """Write the addresses deleted by rules below a prefix: all except those of the run
        ``besides``, or only those ``of`` a run.

        These addresses are not missing, and no run deletes them again.
        """

    @abstractmethod
    def find_expired(self, addresses: Collection[str]) -> Collection[str]:
        """Return those addresses whose objects were deleted by rules."""

    @abstractmethod
    def expired_by(self) -> Collection[str]:
        """Runs which have deleted such objects permanently, or are about to."""

    @abstractmethod
    def count_expired(self, run_id: str) -> int:
        """Number of objects that a run has deleted, or is about to delete."""

    @abstractmethod
    def find_released(self, ids: Collection[SnapshotId]) -> Collection[SnapshotId]:
        """Return those snapshots which an undo of an edit would return to the history."""


class HeldClaims(ABC):
    """Claims of a run to objects referenced by live snapshots.

    Order of calls: claim, close, confirm by reading the roots, drop the addresses needed, promote.
    Claims not promoted are reverted with all other provisional states.
    """

    @abstractmethod
    def claim(self, going: Iterable[tuple[str, str]]) -> int:
        """Claim addresses, each with the rule that deletes it; return the number of claims of the
        run.

        From then on, new references to a claimed address are refused.
        """

    @abstractmethod
    def close_claims(self) -> None:
        """Wait for writers that may be adding references without having seen the claims. Reads from
        here on show every reference to a claimed address, except those of future commits.
        """

    @abstractmethod
    def drop_claims(self, needed: Iterable[str]) -> int:
        """Withdraw claims to needed addresses; return the count."""

    @abstractmethod
    def drop_staged_claims(self) -> int:
        """Withdraw claims to addresses which are staged, or awaited by uploads."""

    @abstractmethod
    def promote_claims(self, seen: Observation, rules: str) -> bool:
        """Make the claims final, atomically, if no new reference to a snapshot was added since the
        observation.

        Otherwise do nothing and return False: the claims have to be confirmed again. Refuse if the
        stored lifecycle rules differ from the document ``rules``.
        """

    @abstractmethod
    def has_promoted(self) -> bool:
        """Whether an earlier apply of the run has promoted its claims."""

    @abstractmethod
    def write_claimed(self, destination: Storage, prefix: str) -> AddressFiles:
        """Write the addresses claimed by the run."""

    @abstractmethod
    def release_claims(self, run_id: str, at_home: Iterable[str]) -> int:
        """Release claims of a run to objects still at their original address; return the count.

        Only after the run has certainly ended.
        """

    @abstractmethod
    def forget_expired(self, addresses: Iterable[str]) -> int:
        """Remove records of objects deleted by other runs and no longer referenced by snapshots."""
