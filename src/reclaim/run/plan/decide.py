"""Decide which snapshots stay, from a policy and an observation. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from itertools import compress

from reclaim.errors import Corrupt, IncompleteRead, NotFound, Refused
from reclaim.garbage_collector import cyclic_gc_paused
from reclaim.history import Edit, ExpiredCount, build, count_expired, expire, held_by_undo
from reclaim.history.expired import parents_after
from reclaim.history.graph import reachable
from reclaim.model import Decision, History, Lease, Ref, Snapshot, SnapshotId
from reclaim.policy import Decisions, Policy, evaluate
from reclaim.stores.observation import Observation

KEEPS_ALL = Policy()
Predict = Callable[[History, AbstractSet[SnapshotId]], Edit]
"""Predicts the history edit made by a library, from the snapshots kept by the rules."""
UNREACHED = "no branch, tag or lease reaches it"
STAYS_BEHIND = "behind a branch or tag at an expired {noun}, which stays with what it reaches"
HELD_BY_UNDO = "held by the undo of a run"


@dataclass(frozen=True, slots=True)
class Decided:
    """Decisions of a policy about a history.

    ``live`` has the snapshots reachable from refs, leases and promises of runs after the edit of
    the history; ``before`` those reachable before it.
    """

    history: History
    decisions: Decisions
    edit: Edit
    live: frozenset[SnapshotId]
    before: frozenset[SnapshotId]
    cut_off: frozenset[SnapshotId] = frozenset()
    """Snapshots kept by the rules but unreachable from refs after a library's edit."""
    noun: str = "commit"
    """The store's own word for a snapshot, used in reasons."""
    leases: tuple[Lease, ...] = ()

    def rule(self, snapshot: SnapshotId) -> str:
        """Reason why a dead snapshot is dead."""
        if snapshot in self.before:
            return "; ".join(self.decisions[snapshot].reasons)
        return UNREACHED

    def released(self) -> frozenset[SnapshotId]:
        """Snapshots reachable from refs before the edit of the history, but not after it."""
        return find_released(self.history, self.edit)

    def reached(self) -> Iterator[Decision]:
        """Decisions for snapshots reachable from refs before the edit, newest first.

        The first reason of an expired snapshot that stays names its holder.
        """
        history, released = self.history, self.released()
        by_undo = held_by_undo(history, self.leases)
        reached = reachable(history.parents, history.tips)
        for decision in compress(self.decisions, reached):
            if decision.kept or (decision.id in released and decision.id not in by_undo):
                yield decision
            else:
                holds = HELD_BY_UNDO if decision.id in by_undo else STAYS_BEHIND
                reasons = (holds.format(noun=self.noun), *decision.reasons)
                yield decision._replace(reasons=reasons)

    def new_parents(self) -> Sequence[tuple[int, ...]]:
        """Parents of each snapshot after the edit of the history, as numbers."""
        return parents_after(self.history, self.edit)

    def count_expired(self, within: Collection[SnapshotId] | None = None) -> ExpiredCount:
        """Count the expired snapshots with their holders; with ``within``, only these snapshots."""
        return count_expired(self.history, self.decisions.kept, self.edit, self.leases, within)


def decide_seen(
    policy: Policy,
    seen: Observation,
    *,
    limit: Sequence[str] = (),
    delete_expired_tags: bool = False,
    delete_expired_branches: bool = False,
    predict: Predict | None = None,
    spared: Collection[SnapshotId] = (),
    noun: str = "commit",
) -> Decided:
    """Decide from an observation of a store; by the store's own rules if it has them.

    ``spared`` snapshots count as live without a reference. ``limit`` names the refs to edit.
    """
    check_counts(
        (seen.expected.snapshots, seen.read.snapshots),
        (seen.expected.containers, seen.read.containers),
    )
    if seen.reached is not None:
        if not policy.empty:
            raise Refused(
                "this kind of store has no history to expire",
                hint=f"run without rules; unreachable {noun}s are collected without them",
            )
        return _decided_by_store(seen, seen.reached)
    return decide(
        policy,
        snapshots=seen.snapshots,
        refs=seen.refs,
        leases=seen.leases,
        promised=seen.promised | seen.too_young,
        busy=seen.busy,
        now=seen.read_at,
        limit=limit,
        delete_expired_tags=delete_expired_tags,
        delete_expired_branches=delete_expired_branches,
        predict=predict,
        spared=spared,
        noun=noun,
    )


def check_counts(snapshots: tuple[int, int], containers: tuple[int, int] = (0, 0)) -> None:
    """Refuse to decide if the counts of the store differ from the counts of the read."""
    pairs = {"snapshots": snapshots, "containers that snapshots name": containers}
    for unit, (expected, read) in pairs.items():
        if expected != read:
            raise IncompleteRead(
                f"the store counts {expected} {unit}, but {read} were read",
                hint="nothing was changed; run it again, and look at the store if it repeats",
                expected=expected,
                read=read,
            )


def _decided_by_store(seen: Observation, reached: frozenset[SnapshotId]) -> Decided:
    history = build((), ())
    nothing = evaluate(KEEPS_ALL, history, now=seen.read_at)
    return Decided(history, nothing, Edit({}, (), (), (), (), {}), live=reached, before=frozenset())


@cyclic_gc_paused()
def decide(
    policy: Policy,
    *,
    snapshots: Iterable[Snapshot],
    refs: Sequence[Ref],
    leases: Iterable[Lease] = (),
    promised: Iterable[SnapshotId] = (),
    busy: Iterable[str] = (),
    now: datetime,
    limit: Sequence[str] = (),
    delete_expired_tags: bool = False,
    delete_expired_branches: bool = False,
    predict: Predict | None = None,
    spared: Iterable[SnapshotId] = (),
    noun: str = "commit",
) -> Decided:
    """Decide which snapshots stay. A policy without rules keeps all reachable snapshots.

    Reclaim makes the edit, unless ``predict`` describes an edit by a library. Snapshots kept by the
    rules stay even if a library's edit makes them unreachable. Snapshots reachable from leases of
    undos stay in the history, whatever the rules are. ``noun`` is the store's word for a snapshot.
    """
    history = build(snapshots, refs)
    decisions = evaluate(policy, history, now=now, noun=noun)
    leases = tuple(leases)
    if predict is not None:
        edit = predict(history, decisions.kept)
    else:
        edit = expire(
            history,
            decisions.kept | held_by_undo(history, leases),
            limit=find_named(refs, limit) if limit else None,
            delete_expired_tags=delete_expired_tags,
            delete_expired_branches=delete_expired_branches,
            busy=frozenset(busy),
            keep_bases_of=decisions.keep_bases_of,
        )
    held = [
        *(_number(history, lease) for lease in leases),
        *map(history.numbers.__getitem__, spared),
        *map(history.numbers.__getitem__, promised),
    ]
    cut_off = find_cut_off(history, decisions.kept, edit) if predict is not None else frozenset()
    gone = set(edit.delete_refs)
    tips = [tip for ref, tip in zip(history.refs, history.tips, strict=True) if ref not in gone]
    after = parents_after(history, edit)
    return Decided(
        history,
        decisions.with_bases(edit.kept_bases),
        edit,
        live=_ids(
            history, reachable(after, [*tips, *held, *map(history.numbers.__getitem__, cut_off)])
        ),
        before=_ids(history, reachable(history.parents, [*history.tips, *held])),
        cut_off=cut_off,
        noun=noun,
        leases=leases,
    )


def find_released(history: History, edit: Edit) -> frozenset[SnapshotId]:
    """Snapshots reachable from refs before an edit of the history, but not after it."""
    reached = reachable(history.parents, history.tips)
    return frozenset(
        snapshot for snapshot in edit.unreachable if reached[history.numbers[snapshot]]
    )


def find_cut_off(
    history: History, kept: AbstractSet[SnapshotId], edit: Edit
) -> frozenset[SnapshotId]:
    """Kept snapshots an edit makes unreachable, except root snapshots."""
    reached = reachable(history.parents, history.tips)
    numbers = (
        (snapshot, history.numbers[snapshot]) for snapshot in edit.unreachable if snapshot in kept
    )
    return frozenset(
        snapshot for snapshot, number in numbers if reached[number] and history.parents[number]
    )


def _ids(history: History, reached: bytearray) -> frozenset[SnapshotId]:
    return frozenset(
        snapshot.id for snapshot, there in zip(history.snapshots, reached, strict=True) if there
    )


def _number(history: History, lease: Lease) -> int:
    if lease.snapshot not in history.numbers:
        raise Corrupt(
            f"the lease {lease.id} of {lease.holder} is on {lease.snapshot}, which does not exist",
            hint="restore the store from a backup; nothing was changed",
        )
    return history.numbers[lease.snapshot]


def find_named(refs: Sequence[Ref], names: Sequence[str]) -> list[Ref]:
    """Select refs by name."""
    known = {ref.name: ref for ref in refs}
    for name in names:
        if name not in known:
            raise NotFound(f"there is no branch or tag {name!r}")
    return [known[name] for name in names]
