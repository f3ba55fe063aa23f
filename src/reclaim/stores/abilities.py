"""Optional abilities of a store: one protocol for each, of the store or of its held handle.

A run asks whether a store has it, and refuses with a sentence if not. No store carries a stub.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol, runtime_checkable

from reclaim.history import Edit
from reclaim.model import History, Lease, Ref, Snapshot, SnapshotId
from reclaim.policy import Policy
from reclaim.storage import Storage
from reclaim.storage.buckets import Upload
from reclaim.stores.findings import Advance, Finding
from reclaim.stores.format import Reader
from reclaim.stores.observation import Observation


class HistorySeen(Protocol):
    """A history as it was read at once, to decide on an edit of it."""

    @property
    def snapshots(self) -> Sequence[Snapshot]: ...

    @property
    def refs(self) -> Sequence[Ref]: ...

    @property
    def busy(self) -> frozenset[str]:
        """The branches that somebody works on."""
        ...


@runtime_checkable
class EditsHistory(Protocol):
    """A held store whose history can be edited: new parents, refs that go, all or nothing."""

    def read_history(self) -> HistorySeen:
        """The history as it stands, without what runs that died made of it."""
        ...

    def edit_history(
        self,
        reparent: Mapping[SnapshotId, tuple[SnapshotId, ...]],
        delete_refs: Sequence[Ref],
        seen: HistorySeen,
    ) -> bool:
        """Edit a history as was decided on what was seen of it.

        False, with nothing done, if that decision need not hold any more: somebody edited the
        history since, or made or moved a ref so that it reaches more.
        """
        ...

    def undo_edit(self) -> Sequence[str]:
        """Take the edit of the run back that condemned nothing; what was left, in sentences.

        Refused if it did condemn something, or edited nothing. The run counts as undone afterwards.
        """
        ...

    def roll_back(self) -> Sequence[str] | None:
        """Take the edit of a run back that stops, so that it can be made again; what was left.

        None if the run has condemned something, and its edit stands.
        """
        ...


@dataclass(frozen=True, slots=True)
class OnlineDeletes:
    """What a store deletes by itself, without a run: how much so far, and how much is waiting."""

    on: bool
    objects: int
    bytes: int
    last_at: datetime | None
    due: int
    oldest: datetime | None
    """Since when the oldest one of those that wait has been without a reference."""
    late: bool
    """Whether something is there that should have gone by now."""


@runtime_checkable
class DeletesOnline(Protocol):
    """A store that deletes bytes soon after nothing refers to them, where it is told to."""

    def online_deletes(self) -> OnlineDeletes: ...


@runtime_checkable
class ShowsHistory(Protocol):
    """A store whose history anybody can read, to be told what rules would make of it."""

    def current_history(self) -> HistorySeen:
        """The history as it stands, with messages. It needs no lock, so nothing is decided on it
        that changes the store."""
        ...


@runtime_checkable
class KeepsPolicy(Protocol):
    """A store that keeps a policy of retention for whoever plans.

    What it keeps is a text; ``policy.stored`` says what is in it.
    """

    def stored_policy(self) -> str | None:
        """The text as it was stored; None only if none was. One that cannot be read is an error."""
        ...

    def store_policy(self, document: str | None) -> None:
        """Store a text in place of the one that there is, whole or not at all; None removes it."""
        ...


@runtime_checkable
class KeepsLifecycle(Protocol):
    """A store that keeps lifecycle rules for whoever plans by them; see ``policy.lifecycle``."""

    def stored_lifecycle(self) -> str | None:
        """The text as it was stored; None only if none was. One that cannot be read is an error."""
        ...

    def store_lifecycle(self, document: str | None) -> None:
        """Store a text in place of the one that there is, whole or not at all; None removes it."""
        ...


@dataclass(frozen=True, slots=True)
class AddressFiles:
    """Addresses in files with the column ``address``, each named with its hash as ``held`` is."""

    files: tuple[str, ...] = ()
    rows: tuple[int, ...] = ()
    """How many each of them has."""

    @property
    def count(self) -> int:
        return sum(self.rows)


@runtime_checkable
class KnowsExpired(Protocol):
    """A store that knows which objects rules took although snapshots refer to them."""

    def write_expired(
        self, destination: Storage, prefix: str, *, besides: str = "", of: str = ""
    ) -> AddressFiles:
        """Write down their addresses, below a prefix: but for those of the run ``besides``, or only
        those ``of`` one.

        They are not missing, and no run takes them again.
        """
        ...

    def expired_by(self) -> Collection[str]:
        """The runs that have taken such objects, or are about to, for good."""
        ...

    def count_expired(self, run_id: str) -> int:
        """How many objects a run has taken, or is about to take."""
        ...


@runtime_checkable
class TakesReferenced(Protocol):
    """The held handle of a store in which a run can take what live snapshots refer to.

    In this order: claim, close, confirm by a read of the roots, drop what that needs, promote. A
    claim that is not promoted is taken back with all else that is provisional.
    """

    def claim(self, going: Iterable[tuple[str, str]]) -> int:
        """Claim addresses, each with the rule that takes it; returns how many the run has.

        From then on nobody can refer to one of them anew.
        """
        ...

    def close_claims(self) -> None:
        """Wait for whoever may be making a reference without having seen the claims. What is read
        from here on has every reference to a claimed address but those that commits will make."""
        ...

    def drop_claims(self, needed: Iterable[str]) -> int:
        """Take back claims to addresses that something needs; returns how many."""
        ...

    def drop_staged_claims(self) -> int:
        """Take back claims to addresses that are staged, or that uploads wait for."""
        ...

    def promote_claims(self, seen: Observation, rules: str) -> bool:
        """Make the claims final, all at once, if nothing names a snapshot that it did not name in
        the observation.

        False, with nothing done, if something does: then it has to be confirmed again. Refused if
        the stored lifecycle rules are not the document ``rules`` any more.
        """
        ...

    def has_promoted(self) -> bool:
        """Whether an earlier apply of the run has promoted its claims."""
        ...

    def write_claimed(self, destination: Storage, prefix: str) -> AddressFiles:
        """Write down the addresses that the run has claimed."""
        ...

    def release_claims(self, run_id: str, at_home: Iterable[str]) -> int:
        """Let go of objects that a run claimed and that are where they belong; returns how many.

        Only once it is certain that nobody goes on with that run.
        """
        ...

    def forget_expired(self, addresses: Iterable[str]) -> int:
        """Forget that other runs took some objects, which no snapshot refers to any more."""
        ...


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


@runtime_checkable
class ExpiresItself(Protocol):
    """A store whose history its own library edits; see ``ExpiresUnderLock`` for its handle."""

    def expressible_rules(self) -> frozenset[str]:
        """Rules and flags that the library can be asked for, by their names in a policy file and
        on the command line (``older_than``, ``delete_expired_tags``), and ``BY_REF``."""
        ...

    def predict_edit(
        self, history: History, kept: AbstractSet[SnapshotId], expiration: Expiration
    ) -> Edit:
        """The edit that the library will make of a history, as far as one can know. Pure.

        ``kept`` is what the rules keep, from the whole history; tips and origins need not be in it.
        """
        ...

    def irreversible(self) -> str:
        """The part of the library's edit that no undo takes back, as a plan says it; "" if none."""
        ...


@runtime_checkable
class NeedsLibrary(Protocol):
    """A store that expires itself, and whose library need not be installed."""

    def check_library(self) -> None:
        """Refuse if the library is not there, with a hint at how to install it. Asked when an edit
        by it is planned, and again before anything is noted of the edit."""
        ...


@runtime_checkable
class ExpiresUnderLock(Protocol):
    """The held handle of a store that expires itself."""

    def read_history(self) -> HistorySeen:
        """The history as it stands."""
        ...

    def expire_by_library(self, expiration: Expiration, seen: HistorySeen) -> bool:
        """Let the library edit the history, which may be edited already, as was decided on what
        was seen of it.

        False, with nothing done, if the refs are others by now: a ref that was made since may be
        one that the library deletes. To be compared in the library's own transaction where it has
        one, and right before it is called where it has none.

        It must not delete objects. It may do less or more than was predicted, and fail halfway:
        the store is observed again before anything is decided on.
        """
        ...

    def hold_released(
        self, run_id: str, ids: Collection[SnapshotId], until: datetime
    ) -> Collection[SnapshotId]:
        """Hold snapshots that the library took out of reach, as by leases, for an undo of a run;
        returns those that are there, and that no run has condemned."""
        ...


@runtime_checkable
class NeedsMoreOnceEdited(Protocol):
    """A store whose snapshots need more than their own objects once their parents are others."""

    def needed_once_edited(self, history: History, edit: Edit) -> Collection[str]:
        """Addresses that edited snapshots need from then on, and did not need before. Pure: so
        that a plan does not name them. An apply sees them when it observes."""
        ...


@runtime_checkable
class ClosesOverdue(Protocol):
    """A held store in which what is out of time has to be ended as a state."""

    def close_overdue(self) -> None:
        """End, for good, what a plan may count as ended: partitions and uploads out of time."""
        ...


@dataclass(frozen=True, slots=True)
class Restored:
    """The snapshots that an undo brought back, and sentences about the rest.

    What was ``left`` has changed since and is somebody else's now, or leads to what is gone for
    good; what ``waits`` comes back with a later undo of the same run, once all that it needs is
    there. ``held`` are leases of the undo, on snapshots that nothing else keeps.
    """

    snapshots: int
    left: Sequence[str]
    waits: Sequence[str]
    held: Sequence[Lease] = ()


@runtime_checkable
class Quarantines(Protocol):
    """A store that can have snapshots back whose objects were set aside; see ``SetsAside``."""

    def taken(self, run_id: str) -> Mapping[SnapshotId, Mapping[str, str]]:
        """The snapshots that a run condemned, with those of their containers, by kind, that tell
        whether they are whole."""
        ...

    def promised(self, runs: Collection[str]) -> Mapping[str, Mapping[str, Collection[str]]]:
        """Containers of the snapshots that runs which can be undone condemned or put in quarantine,
        by run and kind. What these need counts as referred to, wherever it lies."""
        ...


@runtime_checkable
class SetsAside(Protocol):
    """The quarantine, on the held handle of a store that has one."""

    def set_aside(self, ids: Collection[SnapshotId]) -> int:
        """Note of snapshots that the run has condemned that their objects were set aside.

        Those that only other runs condemned, which cannot bring them back, are removed.
        """
        ...

    def restore(self, run_id: str, whole: Collection[SnapshotId], *, complete: bool) -> Restored:
        """Take back what a run did to snapshots and refs, all at once, where nothing changed.

        Only snapshots that are whole come back. The run counts as undone afterwards if nothing
        waits and it is ``complete``: all of its objects are back.
        """
        ...

    def forget(self, run_id: str) -> int:
        """Remove the snapshots whose objects a run set aside; these are deleted by now."""
        ...


@runtime_checkable
class TakesOver(Protocol):
    """The held handle of a store in which a run can leave snapshots condemned when it ends."""

    def left_condemned(self) -> Mapping[SnapshotId, Mapping[str, str]]:
        """Snapshots that are condemned, and that no run can bring back, with their containers by
        kind. Something of them may have been deleted."""
        ...

    def take_over(self, ids: Collection[SnapshotId]) -> int:
        """Count such snapshots as condemned by the run that holds the lock, which can bring them
        back from now on; returns how many."""
        ...


@runtime_checkable
class CompactsMetadata(Protocol):
    """A store in which something stays that nobody needs: old rows, what runs left that died."""

    def clean(self) -> None:
        """Remove it; what runs left only while no run holds the lock."""
        ...


@runtime_checkable
class OrdersDeletes(Protocol):
    """A store whose objects of one kind go one after the other."""

    def in_order(self, addresses: Sequence[str], reader: Reader) -> Sequence[str]:
        """Objects, from the first to go to the last; they come back the other way round."""
        ...


@runtime_checkable
class ReportsRereferenced(Protocol):
    """A store that may have begun to refer to something that was set aside."""

    def needed(self, run_id: str, reader: Reader) -> Collection[str]:
        """Objects in a run's quarantine that something refers to now, by their address there."""
        ...


@runtime_checkable
class ListsLeases(Protocol):
    """A store that knows who uses its snapshots."""

    def leases(self) -> Sequence[tuple[Lease, bool]]:
        """All leases, and whether each is valid."""
        ...


@runtime_checkable
class NeedsOtherSnapshots(Protocol):
    """A store whose snapshots are of no use without others, such as their parents."""

    def keep_whole(
        self, seen: Observation, held: Iterable[str], *, besides: str, reader: Reader
    ) -> Observation:
        """An observation in which what promised snapshots need is live as well.

        Promised are those that other runs than ``besides`` have set aside and can bring back, and
        those at the addresses ``held``, which they were about to take or have begun to bring back.
        """
        ...


@runtime_checkable
class KeepsParents(Protocol):
    """A store whose snapshots are whole without their parents, and come back below them."""

    def keep_parents(self, seen: Observation, *, besides: str) -> Observation:
        """An observation in which what runs would build on is held, as by leases.

        These are the parents of snapshots that other runs than ``besides`` can bring back, and the
        snapshots that such runs passed over when they edited history, or deleted a ref of.
        """
        ...


@runtime_checkable
class KnowsReleased(Protocol):
    """A store that knows what edits of its history have taken out of it."""

    def find_released(self, ids: Collection[SnapshotId]) -> Collection[SnapshotId]:
        """Those of some snapshots that an undo of an edit would bring back into the history."""
        ...


@runtime_checkable
class HoldsLeases(ListsLeases, Protocol):
    """A store in which snapshots can be leased by whoever uses them."""

    def take_lease(self, snapshot: str, *, holder: str, length: timedelta) -> Lease: ...

    def renew_lease(self, lease: Lease) -> Lease: ...

    def release_lease(self, lease_id: str) -> None: ...


@runtime_checkable
class AllowsMissing(Protocol):
    """A store that can tell that snapshots are missing which others name."""

    def allow_missing(self) -> None:
        """Go on without them: a person says that they are lost for good."""
        ...


@runtime_checkable
class Examines(Protocol):
    """A store that knows what can be wrong with it; whatever kind it is, ``doctor`` asks it."""

    def findings(self, *, deep: bool, advance: Advance | None) -> Iterator[Finding]:
        """Findings worth telling. ``deep`` looks for all live data.

        With ``advance``, which is told of each object, the bytes of all live data are read as well.
        """
        ...


@runtime_checkable
class AdoptsUnknown(Protocol):
    """A store whose storage can be ahead of what it knows; see ``held.adopt``."""

    def unknown_guards(self) -> Sequence[str]:
        """Guards that protect objects, or did, and that only the storage knows."""
        ...


@runtime_checkable
class Adopts(Protocol):
    """The held handle of such a store."""

    def adopt(self, unknown: Collection[str]) -> None:
        """Register them as closed: a person says that the store is the right one."""
        ...


@runtime_checkable
class KeepsBackups(Protocol):
    """A store that keeps copies of what it replaces, for ever; see ``FreesKinds``."""

    def collect_backups(self) -> None:
        """Let plans name the copies that nothing will need: a person asks for it."""
        ...


@runtime_checkable
class FreesKinds(Protocol):
    """The held handle of a store that has to change something before objects of a kind may go."""

    def free_kinds(self, kinds: Collection[str]) -> None:
        """Make sure that nothing needs, now or later, what a plan names of some kinds. Asked
        before the roots are read: what is needed then stays."""
        ...


@runtime_checkable
class AbortsUploads(Protocol):
    """A store in whose bucket uploads can be left that were never finished."""

    def old_uploads(self) -> Sequence[Upload]:
        """Those that are nobody's any more."""
        ...

    def abort_uploads(self, uploads: Sequence[Upload]) -> int:
        """Give uploads up; returns the bytes that this frees."""
        ...
