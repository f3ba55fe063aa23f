"""Abilities of stores whose own library expires their history."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime

from reclaim.history import Edit
from reclaim.model import History, SnapshotId
from reclaim.policy import Policy
from reclaim.stores.abilities.history import HeldHistory, HistorySeen, ShowsHistory

BY_REF = "rules by ref"
"""The ability of a library to apply rules to some refs and not to others."""


@dataclass(frozen=True, slots=True)
class Expiration:
    """A request to a store's own library to take snapshots out of its history."""

    policy: Policy
    now: datetime
    """When it was planned: ages are counted from then."""
    delete_expired_tags: bool = False
    delete_expired_branches: bool = False


class ExpiresItself(ShowsHistory):
    """A store whose history its own library edits."""

    @abstractmethod
    def expressible_rules(self) -> frozenset[str]:
        """Rules and flags that the library can be asked for, by their names in a policy file and
        on the command line (``older_than``, ``delete_expired_tags``), and ``BY_REF``."""

    @abstractmethod
    def predict_edit(
        self, history: History, kept: AbstractSet[SnapshotId], expiration: Expiration
    ) -> Edit:
        """The edit that the library will make of a history, as far as one can know. Pure.

        ``kept`` is what the rules keep, from the whole history; tips and origins need not be in it.
        """

    @abstractmethod
    def irreversible(self) -> str:
        """The part of the library's edit that no undo takes back, as a plan says it; "" if none."""

    @abstractmethod
    def check_library(self) -> None:
        """Refuse if the library is not installed, with a hint at how to install it. Asked when
        an edit by it is planned, and again before anything is noted of the edit."""


class HeldExpiration(HeldHistory):
    """The history of a store that expires itself, in the hands of one run."""

    @abstractmethod
    def expire_by_library(self, expiration: Expiration, seen: HistorySeen) -> bool:
        """Let the library edit the history, which may be edited already, as was decided on what
        was seen of it.

        False, with nothing done, if the refs are others by now: a ref that was made since may be
        one that the library deletes. To be compared in the library's own transaction where it has
        one, and right before it is called where it has none.

        It must not delete objects. It may do less or more than was predicted, and fail halfway:
        the store is observed again before anything is decided on.
        """

    @abstractmethod
    def hold_released(
        self, run_id: str, ids: Collection[SnapshotId], until: datetime
    ) -> Collection[SnapshotId]:
        """Hold snapshots that the library took out of reach, as by leases, for an undo of a run;
        returns those that are there, and that no run has condemned."""
