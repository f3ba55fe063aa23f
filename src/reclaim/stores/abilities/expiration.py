"""Abilities of stores whose history is expired by their own library."""

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
"""Ability of a library to apply rules to selected refs."""


@dataclass(frozen=True, slots=True)
class Expiration:
    """Request to a store's own library to expire snapshots."""

    policy: Policy
    now: datetime
    """Time of planning: ages are relative to it."""
    delete_expired_tags: bool = False
    delete_expired_branches: bool = False


class ExpiresItself(ShowsHistory):
    """A store whose history is edited by its own library."""

    @abstractmethod
    def expressible_rules(self) -> frozenset[str]:
        """Rules and flags supported by the library, by their names in a policy file and on the
        command line (``older_than``, ``delete_expired_tags``), and ``BY_REF``.
        """

    @abstractmethod
    def predict_edit(
        self, history: History, kept: AbstractSet[SnapshotId], expiration: Expiration
    ) -> Edit:
        """Predict the library's edit of a history, as exactly as possible. Pure.

        ``kept`` are the snapshots kept by the rules, from the whole history; tips and root
        snapshots may be missing.
        """

    @abstractmethod
    def irreversible(self) -> str:
        """Irreversible part of the library's edit, as text for a plan; "" if none."""

    @abstractmethod
    def check_library(self) -> None:
        """Refuse if the library is not installed, with a hint on installing it. Called when an edit
        is planned, and again before any record of the edit.
        """


class HeldExpiration(HeldHistory):
    """History of a store with its own expiration, held by a run."""

    @abstractmethod
    def expire_by_library(self, expiration: Expiration, seen: HistorySeen) -> bool:
        """Let the library edit the history, as decided on the history in ``seen``; the history may
        be edited already.

        Return False, with nothing done, if the refs have changed: a new ref could be deleted by the
        library. Compare the refs in the library's own transaction where possible, otherwise
        immediately before the call.

        The library must not delete objects. It may do more or less than predicted, and fail
        halfway: the store is observed again before any decision.
        """

    @abstractmethod
    def hold_released(
        self, run_id: str, ids: Collection[SnapshotId], until: datetime
    ) -> Collection[SnapshotId]:
        """Hold the snapshots expired by the library, as by leases, for an undo of a run; return the
        snapshots present and not condemned by any run.
        """
