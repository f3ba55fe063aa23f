"""Explain a policy with the current history: snapshots kept by entry, by rule and by ref. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from reclaim.history import ExpiredCount, build
from reclaim.history.graph import reachable
from reclaim.model import Decision, Ref, RefKind, Snapshot, SnapshotId
from reclaim.policy import Policy, Rules, evaluate
from reclaim.policy.words import rules_in_words
from reclaim.run.plan.decide import Decided, Predict, decide, find_named
from reclaim.stores.abilities import HistorySeen

DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class RuleExplained:
    """Rule as text, and the number of snapshots it keeps by itself."""

    sentence: str
    kept: int


@dataclass(frozen=True, slots=True)
class EntryExplained:
    """Entry of a policy, its refs, and the number of snapshots it keeps."""

    name: str
    refs: Sequence[Ref]
    rules: Sequence[RuleExplained]
    keeps_all: bool
    """Whether every snapshot is kept because the entry has no rules."""
    reached: int
    kept: int


@dataclass(frozen=True, slots=True)
class PolicyExplained:
    """Entries of a policy, or the entry for a single ref, and the combined decisions.

    ``decisions`` are those for snapshots reachable from the refs in question, newest first. A
    snapshot released by the rules of a ref may be kept by those of another.
    """

    entries: Sequence[EntryExplained]
    decisions: Sequence[Decision]
    snapshots: Sequence[Snapshot]
    released: frozenset[SnapshotId]
    """Snapshots unreachable from refs after the edit of the history."""
    expired: ExpiredCount

    @property
    def kept(self) -> int:
        return sum(decision.kept for decision in self.decisions)


def explain_policy(
    policy: Policy,
    seen: HistorySeen,
    *,
    now: datetime,
    noun: str,
    ref: str | None = None,
    predict: Predict | None = None,
) -> PolicyExplained:
    """Explain a policy for all refs, or for a single ref."""
    refs = find_named(seen.refs, [ref]) if ref is not None else seen.refs
    decided = decide(
        policy,
        snapshots=seen.snapshots,
        refs=seen.refs,
        leases=seen.returned,
        busy=seen.busy,
        now=now,
        predict=predict,
        noun=noun,
    )
    entries = [
        _explained(name, rules, members, seen, decided, now=now, noun=noun)
        for name, rules, members in _entries(policy, refs)
        if members or ref is None
    ]
    reached = _reached(seen.snapshots, refs)
    decisions = [decision for decision in decided.reached() if decision.id in reached]
    return PolicyExplained(
        entries, decisions, seen.snapshots, decided.released(), decided.count_expired(reached)
    )


def entry_name(number: int, policy: Policy) -> str:
    """Name of an entry, as in errors about a policy."""
    if number == len(policy.matches):
        return DEFAULT
    match, _ = policy.matches[number]
    kind = f"{match.kind} " if match.kind else ""
    return f"rules[{number}] ({kind}{match.glob})"


def _entries(policy: Policy, refs: Sequence[Ref]) -> Iterator[tuple[str, Rules, Sequence[Ref]]]:
    members: list[list[Ref]] = [[] for _ in range(len(policy.matches) + 1)]
    for ref in refs:
        members[policy.entry(ref)].append(ref)
    rules = [*(rules for _, rules in policy.matches), policy.default]
    for number, decided_for in enumerate(members):
        yield entry_name(number, policy), rules[number], decided_for


def _explained(
    name: str,
    rules: Rules,
    refs: Sequence[Ref],
    seen: HistorySeen,
    decided: Decided,
    *,
    now: datetime,
    noun: str,
) -> EntryExplained:
    """Snapshots kept by an entry for its refs, independent of other entries."""
    history = build(seen.snapshots, refs)
    bases = _bases_of(decided, refs)

    def kept_by(selected: Rules) -> Collection[SnapshotId]:
        if selected.empty:
            return bases
        decisions = evaluate(Policy(selected), history, now=now)
        origins = [snapshot.id for snapshot in history.snapshots if not snapshot.parents]
        only_origins = {
            origin
            for origin in origins
            if origin in decisions.kept and decisions[origin].reasons == (decisions.reasons.origin,)
        }
        return decisions.kept - only_origins

    explained = [
        RuleExplained(sentence, len(kept_by(alone)))
        for sentence, alone in rules_in_words(rules, now=now, noun=noun)
    ]
    kept = evaluate(Policy(rules), history, now=now).with_bases(bases).kept
    reached = _reached(seen.snapshots, refs)
    return EntryExplained(name, refs, explained, rules.empty, len(reached), len(kept))


def _bases_of(decided: Decided, refs: Sequence[Ref]) -> dict[SnapshotId, tuple[str, ...]]:
    """Merge bases kept for some branches."""
    names = {ref.name for ref in refs if ref.kind is RefKind.BRANCH}
    return {
        base: branches
        for base, branches in decided.edit.kept_bases.items()
        if names.intersection(branches)
    }


def _reached(snapshots: Sequence[Snapshot], refs: Sequence[Ref]) -> frozenset[SnapshotId]:
    history = build(snapshots, refs)
    reached = reachable(history.parents, history.tips)
    return frozenset(
        snapshot.id for snapshot, hit in zip(history.snapshots, reached, strict=True) if hit
    )
