"""The ability of stores from which a run may take what commits refer to, by lifecycle rules."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from reclaim.model import SnapshotId
from reclaim.storage import Storage
from reclaim.stores.observation import Observation


@dataclass(frozen=True, slots=True)
class AddressFiles:
    """Addresses in files with the column ``address``, each named with its hash as ``held`` is."""

    files: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    """How many each of them has."""

    @property
    def count(self) -> int:
        return sum(self.rows)


class TakesReferenced(ABC):
    """A store in which lifecycle rules may take objects although snapshots refer to them.

    The store keeps the rules (see ``policy.lifecycle``), and knows which objects they took.
    """

    @abstractmethod
    def stored_lifecycle(self) -> str | None:
        """The text as it was stored; None only if none was. One that cannot be read is an error."""

    @abstractmethod
    def store_lifecycle(self, document: str | None) -> None:
        """Store a text in place of the one that there is, whole or not at all; None removes it."""

    @abstractmethod
    def write_expired(
        self, destination: Storage, prefix: str, *, besides: str = "", of: str = ""
    ) -> AddressFiles:
        """Write down their addresses, below a prefix: but for those of the run ``besides``, or only
        those ``of`` one.

        They are not missing, and no run takes them again.
        """

    @abstractmethod
    def find_expired(self, addresses: Collection[str]) -> Collection[str]:
        """Those of some addresses whose objects rules took."""

    @abstractmethod
    def expired_by(self) -> Collection[str]:
        """The runs that have taken such objects, or are about to, for good."""

    @abstractmethod
    def count_expired(self, run_id: str) -> int:
        """How many objects a run has taken, or is about to take."""

    @abstractmethod
    def find_released(self, ids: Collection[SnapshotId]) -> Collection[SnapshotId]:
        """Those of some snapshots that an undo of an edit would bring back into the history."""


class HeldClaims(ABC):
    """The claims of a run to what live snapshots refer to.

    In this order: claim, close, confirm by a read of the roots, drop what that needs, promote. A
    claim that is not promoted is taken back with all else that is provisional.
    """

    @abstractmethod
    def claim(self, going: Iterable[tuple[str, str]]) -> int:
        """Claim addresses, each with the rule that takes it; returns how many the run has.

        From then on nobody can refer to one of them anew.
        """

    @abstractmethod
    def close_claims(self) -> None:
        """Wait for whoever may be making a reference without having seen the claims. What is read
        from here on has every reference to a claimed address but those that commits will make."""

    @abstractmethod
    def drop_claims(self, needed: Iterable[str]) -> int:
        """Take back claims to addresses that something needs; returns how many."""

    @abstractmethod
    def drop_staged_claims(self) -> int:
        """Take back claims to addresses that are staged, or that uploads wait for."""

    @abstractmethod
    def promote_claims(self, seen: Observation, rules: str) -> bool:
        """Make the claims final, all at once, if nothing names a snapshot that it did not name in
        the observation.

        False, with nothing done, if something does: then it has to be confirmed again. Refused if
        the stored lifecycle rules are not the document ``rules`` any more.
        """

    @abstractmethod
    def has_promoted(self) -> bool:
        """Whether an earlier apply of the run has promoted its claims."""

    @abstractmethod
    def write_claimed(self, destination: Storage, prefix: str) -> AddressFiles:
        """Write down the addresses that the run has claimed."""

    @abstractmethod
    def release_claims(self, run_id: str, at_home: Iterable[str]) -> int:
        """Let go of objects that a run claimed and that are where they belong; returns how many.

        Only once it is certain that nobody goes on with that run.
        """

    @abstractmethod
    def forget_expired(self, addresses: Iterable[str]) -> int:
        """Forget that other runs took some objects, which no snapshot refers to any more."""
