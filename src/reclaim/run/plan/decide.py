"""Decide: what of a history stays, from a policy and what was observed. Pure."""

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
"""The edit that somebody else will make of a history, by what the rules keep of it."""
UNREACHED = "no branch, tag or lease reaches it"
STAYS_BEHIND = "behind a branch or tag at an expired {noun}, which stays with what it reaches"
HELD_BY_UNDO = "held by the undo of a run"


@dataclass(frozen=True, slots=True)
class Decided:
    """The decisions of a policy about a history.

    ``live`` is what refs, leases and promises of runs reach once the history is edited, ``before``
    what they reach as it stands.
    """

    history: History
    decisions: Decisions
    edit: Edit
    live: frozenset[SnapshotId]
    before: frozenset[SnapshotId]
    cut_off: frozenset[SnapshotId] = frozenset()
    """Snapshots that the rules keep and that no ref reaches once somebody else has edited."""
    noun: str = "commit"
    """The store's own word for a snapshot, as the reasons say it."""
    leases: tuple[Lease, ...] = ()

    def rule(self, snapshot: SnapshotId) -> str:
        """Why a snapshot that is not live goes."""
        if snapshot in self.before:
            return "; ".join(self.decisions[snapshot].reasons)
        return UNREACHED

    def released(self) -> frozenset[SnapshotId]:
        """The snapshots that refs reach, and do not reach once the history is edited."""
        return find_released(self.history, self.edit)

    def reached(self) -> Iterator[Decision]:
        """The decisions for the snapshots that refs reach before the edit, newest first.

        The first reason of an expired snapshot that stays is what holds it.
        """
        history, released = self.history, self.released()
        by_undo = held_by_undo(history, self.leases)
        there = reachable(history.parents, history.tips)
        for decision in compress(self.decisions, there):
            if decision.kept or (decision.id in released and decision.id not in by_undo):
                yield decision
            else:
                holds = HELD_BY_UNDO if decision.id in by_undo else STAYS_BEHIND
                reasons = (holds.format(noun=self.noun), *decision.reasons)
                yield decision._replace(reasons=reasons)

    def new_parents(self) -> Sequence[tuple[int, ...]]:
        """The parents of each snapshot once the history is edited, as numbers."""
        return parents_after(self.history, self.edit)

    def count_expired(self, within: Collection[SnapshotId] | None = None) -> ExpiredCount:
        """Count the expired snapshots, or those of them ``within`` some, with their holders."""
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
    """Decide from what a store was seen to be; by its own rules, where it has them.

    What is ``spared`` counts as live although nothing names it. ``limit`` has the names of the refs
    that the edit is narrowed to.
    """
    check_counts(
        (seen.expected.snapshots, seen.read.snapshots),
        (seen.expected.containers, seen.read.containers),
    )
    if seen.reached is not None:
        if not policy.empty:
            raise Refused(
                "this kind of store has no history to expire",
                hint=f"leave the rules out; unreachable {noun}s are collected without any",
            )
        return _as_reached(seen, seen.reached)
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
    """Refuse to decide when the store counted other numbers of snapshots than were read."""
    pairs = {"snapshots": snapshots, "containers that snapshots name": containers}
    for what, (expected, read) in pairs.items():
        if expected != read:
            raise IncompleteRead(
                f"the store counts {expected} {what}, and {read} were read",
                hint="nothing was changed; run it again, and look at the store if it repeats",
                expected=expected,
                read=read,
            )


def _as_reached(seen: Observation, reached: frozenset[SnapshotId]) -> Decided:
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
    """Decide what stays. A policy without rules keeps everything that is reached.

    The edit is ours, unless somebody else will make it and ``predict`` says how. What that takes
    out of reach although the rules keep it stays. ``noun`` is the store's word for a snapshot.
    What the leases of undos reach stays in the history, whatever the rules say.
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
    """The snapshots that refs reach, and do not reach once the history is edited."""
    reached = reachable(history.parents, history.tips)
    return frozenset(one for one in edit.unreachable if reached[history.numbers[one]])


def find_cut_off(
    history: History, kept: AbstractSet[SnapshotId], edit: Edit
) -> frozenset[SnapshotId]:
    """Snapshots that are kept and that an edit takes out of reach; an origin alone may go."""
    reached = reachable(history.parents, history.tips)
    numbers = ((one, history.numbers[one]) for one in edit.unreachable if one in kept)
    return frozenset(one for one, at in numbers if reached[at] and history.parents[at])


def _ids(history: History, reached: bytearray) -> frozenset[SnapshotId]:
    return frozenset(
        snapshot.id for snapshot, there in zip(history.snapshots, reached, strict=True) if there
    )


def _number(history: History, lease: Lease) -> int:
    if lease.snapshot not in history.numbers:
        raise Corrupt(
            f"the lease {lease.id} of {lease.holder} is on {lease.snapshot}, which is not there",
            hint="restore the store from a backup; nothing was changed",
        )
    return history.numbers[lease.snapshot]


def find_named(found: Sequence[Ref], names: Sequence[str]) -> list[Ref]:
    """The refs with some names."""
    known = {ref.name: ref for ref in found}
    for name in names:
        if name not in known:
            raise NotFound(f"there is no branch or tag {name!r}")
    return [known[name] for name in names]
