"""Which snapshots a policy keeps.

Refs with the same rules form a class, and a snapshot carries a bitmap of the classes that reach
it: one pass over the history serves all age rules, one more each counting rule of each class.
Reasons are not part of that; they are found when they are asked for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from reclaim.model import Decision, History, Ref, RefKind, SnapshotId
from reclaim.policy.periods import NUMBER
from reclaim.policy.reasons import Reasons, base_sentence, group
from reclaim.policy.rules import Policy, Rules


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """A decision for each snapshot of a history, newest first; sentences are made on demand.

    ``keep_bases_of`` are the branches whose merge base with the default branch shall stay. The
    policy cannot see bases; who can, adds them with ``with_bases``.
    """

    history: History
    kept: frozenset[SnapshotId]
    keep_bases_of: tuple[Ref, ...]
    reasons: Reasons = field(repr=False)
    bases: Mapping[SnapshotId, tuple[str, ...]] = field(default_factory=dict)

    def with_bases(self, bases: Mapping[SnapshotId, tuple[str, ...]]) -> Decisions:
        """The same, with the merge bases of some branches kept as well."""
        return replace(self, kept=self.kept | bases.keys(), bases=bases)

    def __len__(self) -> int:
        return len(self.history.snapshots)

    def __iter__(self) -> Iterator[Decision]:
        return (self[snapshot.id] for snapshot in self.history.snapshots)

    def __getitem__(self, id: SnapshotId) -> Decision:
        number = self.history.numbers[id]
        if id not in self.kept:
            return Decision(id, False, tuple(self.reasons.against(number)))
        found = [*self.reasons.keeping(number)]
        if id in self.bases:
            found.append(base_sentence(self.bases[id]))
        return Decision(id, True, tuple(found))


def evaluate(policy: Policy, history: History, *, now: datetime) -> Decisions:
    """Decide for each snapshot whether it stays.

    It stays when a rule of some ref that reaches it keeps it, when some ref that reaches it has
    no rule, or when it is an origin that some ref reaches.
    """
    classes = group(policy, history)
    reached = _reached(history, list(classes.values()))
    kept = _by_age(history, list(classes), reached, now)
    for rules, refs in classes.items():
        tips = sorted({history.tips[ref] for ref in refs})
        if rules.keep_within is not None:
            _by_distance(history, rules, tips, kept)
        for period, count in rules.counts():
            _by_count(history, period, count, tips, kept)
    for number, parents in enumerate(history.parents):
        if not parents and reached[number]:
            kept[number] = 1
    return Decisions(
        history,
        frozenset(
            snapshot.id for snapshot, stays in zip(history.snapshots, kept, strict=True) if stays
        ),
        tuple(
            history.refs[ref]
            for rules, refs in classes.items()
            if rules.keep_merge_bases
            for ref in refs
            if history.refs[ref].kind is RefKind.BRANCH
        ),
        Reasons(history, classes, now),
    )


def first_older(history: History, cutoff: datetime) -> int:
    """The number of the newest snapshot written before an instant."""
    return bisect_left(history.snapshots, True, key=lambda found: found.written_at < cutoff)


def _reached(history: History, classes: list[list[int]]) -> list[int]:
    reached = [0] * len(history.snapshots)
    for number, refs in enumerate(classes):
        for ref in refs:
            reached[history.tips[ref]] |= 1 << number
    for number, parents in enumerate(history.parents):
        bits = reached[number]
        if bits:
            for parent in parents:
                reached[parent] |= bits
    return reached


def _by_age(history: History, classes: list[Rules], reached: list[int], now: datetime) -> bytearray:
    """Each class keeps what it reaches up to some number: go from one such number to the next."""
    ends: dict[int, int] = {}
    for number, rules in enumerate(classes):
        cutoff = rules.cutoff(now)
        if rules.empty:
            end = len(reached)
        elif cutoff is not None:
            end = first_older(history, cutoff)
        else:
            continue
        ends[end] = ends.get(end, 0) | 1 << number
    kept = bytearray(len(reached))
    start, active = 0, sum(ends.values())
    for end in sorted(ends):
        for number in range(start, end):
            if reached[number] & active:
                kept[number] = 1
        start, active = end, active & ~ends[end]
    return kept


def _by_distance(history: History, rules: Rules, tips: list[int], kept: bytearray) -> None:
    """Keep what is within a duration of a tip; where lines meet the one that goes further wins."""
    assert rules.keep_within is not None
    ends = [0] * len(history.snapshots)
    for tip in tips:
        ends[tip] = first_older(
            history, rules.keep_within.before(history.snapshots[tip].written_at)
        )
    for number, parents in enumerate(history.parents):
        end = ends[number]
        if end > number:
            kept[number] = 1
            for parent in parents:
                if ends[parent] < end:
                    ends[parent] = end


def _by_count(history: History, period: str, count: int, tips: list[int], kept: bytearray) -> None:
    """Keep the newest of each of the last periods on the first-parent chain of each tip.

    Where chains meet, the one that has spent fewer periods goes on: it keeps all that the others
    would keep from there.
    """
    period_of = NUMBER[period]
    none = count + 1
    spent = [none] * len(history.snapshots)
    for tip in tips:
        spent[tip] = 1
        kept[tip] = 1
    for number, parents in enumerate(history.parents):
        used = spent[number]
        if used == none or not parents:
            continue
        parent = parents[0]
        now = period_of(history.snapshots[number].written_at)
        if period_of(history.snapshots[parent].written_at) != now:
            used += 1
            if used == none:
                continue
            kept[parent] = 1
        if used < spent[parent]:
            spent[parent] = used
