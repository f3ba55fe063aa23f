"""Evaluation of a policy: the snapshots it keeps.

Refs with the same rules form a class. Each rule of a class is a single pass over the history and
finds both the kept snapshots and the refs keeping them. Sentences are made from these on demand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import chain, compress
from operator import itemgetter, not_
from typing import cast

from reclaim.model import Decision, History, Ref, RefKind, SnapshotId
from reclaim.policy.claims import (
    Periods,
    find_periods,
    first_older,
    near_tips,
    newest_of_periods,
    reached,
)
from reclaim.policy.reasons import ClassClaims, Counted, Reasons, base_sentence
from reclaim.policy.rules import Policy, Rules

BATCH = 4096

_decision = cast("Callable[[tuple[object, ...]], Decision]", partial(tuple.__new__, Decision))
"""Create a decision from its three parts without a Python call; there can be very many."""


@dataclass(frozen=True, slots=True, eq=False)
class Decisions:
    """Decisions on all snapshots of a history, newest first; sentences are made on demand.

    ``keep_bases_of`` lists branches whose merge base with the default branch must stay. The policy
    cannot see merge bases; callers who can add them with ``with_bases``.
    """

    history: History
    kept: frozenset[SnapshotId]
    keep_bases_of: tuple[Ref, ...]
    reasons: Reasons = field(repr=False)
    bases: Mapping[SnapshotId, tuple[str, ...]] = field(default_factory=dict)

    def with_bases(self, bases: Mapping[SnapshotId, tuple[str, ...]]) -> Decisions:
        """Copy that also keeps the merge bases of some branches."""
        return replace(self, kept=self.kept | bases.keys(), bases=bases)

    def __len__(self) -> int:
        return len(self.history.snapshots)

    def __iter__(self) -> Iterator[Decision]:
        starts = range(0, len(self), BATCH)
        return chain.from_iterable(
            self._batch(start, min(start + BATCH, len(self))) for start in starts
        )

    def __getitem__(self, id: SnapshotId) -> Decision:
        number = self.history.numbers[id]
        (decision,) = self._batch(number, number + 1)
        return decision

    def _batch(self, start: int, stop: int) -> Iterator[Decision]:
        """Make decisions in batches: rule by rule is faster than snapshot by snapshot."""
        ids = [snapshot.id for snapshot in self.history.snapshots[start:stop]]
        sentences = self.reasons.keeping(start, stop)
        kept = list(map(self.kept.__contains__, ids))
        for place in compress(range(len(ids)), map(not_, kept)):
            sentences[place] = self.reasons.against(start + place)
        for place in compress(range(len(ids)), map(self.bases.__contains__, ids)):
            sentences[place].append(base_sentence(self.bases[ids[place]]))
        return map(_decision, zip(ids, kept, map(tuple, sentences), strict=True))


def evaluate(policy: Policy, history: History, *, now: datetime, noun: str = "commit") -> Decisions:
    """Decide for each snapshot whether it stays.

    A snapshot stays if a rule of a ref reaching it keeps it, if a ref reaching it has no rule, or
    if it is an origin reached by a ref.
    """
    grouped = _classes(policy, history.refs)
    counted: dict[str, list[int]] = {}
    for rules, refs in grouped.items():
        for name, _ in rules.counts():
            counted.setdefault(name, []).extend(refs)
    periods = find_periods(history, counted)
    classes = [_claims(history, rules, refs, periods, now) for rules, refs in grouped.items()]
    return Decisions(
        history,
        _kept(history, classes),
        tuple(
            history.refs[ref]
            for rules, refs in grouped.items()
            if rules.keep_merge_bases
            for ref in refs
            if history.refs[ref].kind is RefKind.BRANCH
        ),
        Reasons(history, classes, noun),
    )


def _classes(policy: Policy, refs: Sequence[Ref]) -> dict[Rules, list[int]]:
    """Refs with the same rules, as indexes. Equal rules given twice form a single class."""
    entries = [rules for _, rules in policy.matches] + [policy.default]
    members: list[list[int]] = [[] for _ in entries]
    for index, ref in enumerate(refs):
        members[policy.entry(ref)].append(index)
    grouped: dict[Rules, list[int]] = {}
    for rules, indexes in zip(entries, members, strict=True):
        if indexes:
            grouped.setdefault(rules, []).extend(indexes)
    # In the order of the refs, like the sentences.
    ordered = {rules: sorted(indexes) for rules, indexes in grouped.items()}
    return dict(sorted(ordered.items(), key=itemgetter(1)))


def _claims(
    history: History,
    rules: Rules,
    refs: list[int],
    periods: Mapping[str, Periods],
    now: datetime,
) -> ClassClaims:
    cutoff = rules.cutoff(now)
    young = 0 if cutoff is None else first_older(history, cutoff)
    within = rules.keep_within
    return ClassClaims(
        rules,
        cutoff,
        len(history.snapshots) if rules.empty else young,
        reached(history, refs),
        None if within is None else near_tips(history, refs, within),
        [
            Counted(
                name,
                count,
                periods[name],
                newest_of_periods(history, refs, periods[name].levels, count),
            )
            for name, count in rules.counts()
        ],
    )


def _kept(history: History, classes: list[ClassClaims]) -> frozenset[SnapshotId]:
    numbers = range(len(history.snapshots))
    kept = bytearray(len(numbers))
    for claims in classes:
        for ranks in (_young(history, claims), *[rule.ranks for rule in claims.tip_rules()]):
            for number in compress(numbers, ranks):
                kept[number] = 1
    for number in history.origins:
        if any(claims.reached.ranks[number] for claims in classes):
            kept[number] = 1
    return frozenset(compress([snapshot.id for snapshot in history.snapshots], kept))


def _young(history: History, claims: ClassClaims) -> Sequence[object]:
    """For each snapshot, a true value where it is young enough for the age rule."""
    reach, end = claims.reached.ranks, claims.young_end
    if history.monotone:
        return reach[:end]
    return [ranks and age < end for ranks, age in zip(reach, history.ages, strict=True)]
