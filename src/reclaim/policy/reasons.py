"""Why a snapshot stays or goes, in sentences.

Which refs speak for a snapshot is found by one pass for each class, the first time that it is
asked for, and then kept as bitmaps of the refs of that class.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from reclaim.model import History, Ref
from reclaim.policy.periods import NAME, NUMBER
from reclaim.policy.rules import Policy, Rules, instant_text

NAMED = 3
ORIGIN = "it is the origin of its tree"
UNREACHED = "no ref reaches it"


def group(policy: Policy, history: History) -> dict[Rules, list[int]]:
    """Refs by their rules, as indexes into the refs of the history."""
    classes: dict[Rules, list[int]] = {}
    for index, ref in enumerate(history.refs):
        classes.setdefault(policy.rules(ref), []).append(index)
    return classes


def base_sentence(branches: tuple[str, ...]) -> str:
    names = [f"branch {name}" for name in branches]
    return f"{_listed(names)}: keep_merge_bases, the merge base with the default branch"


@dataclass(slots=True)
class Reasons:
    """The sentences for the snapshots of one history under one policy."""

    history: History
    classes: Mapping[Rules, list[int]]
    now: datetime
    _reach: dict[Rules, list[int]] = field(default_factory=dict, repr=False)
    _chains: dict[tuple[Rules, str], dict[int, int]] = field(default_factory=dict, repr=False)

    def keeping(self, number: int) -> Iterator[str]:
        """Every reason for which a snapshot stays."""
        written = self.history.snapshots[number].written_at
        reached = False
        for rules, refs in self.classes.items():
            bits = self._reached(rules)[number]
            if not bits:
                continue
            reached = True
            if rules.empty:
                yield f"{self._names(rules, bits)}: no rule, so everything it reaches stays"
                continue
            cutoff = rules.cutoff(self.now)
            if cutoff is not None and written >= cutoff:
                rule, when = next(rules.sentences()), instant_text(cutoff)
                yield f"{self._names(rules, bits)}: {rule}, written at or after {when}"
            if rules.keep_within is not None:
                near = self._near(rules, refs, bits, written)
                if near:
                    yield f"{self._names(rules, near)}: keep_within {rules.keep_within} of the tip"
            for period, count in rules.counts():
                holding = self._chain(rules, period, count).get(number, 0)
                if holding:
                    what = (
                        f"newest of {NAME[period](written)}"
                        if period in NAME
                        else f"one of {count}"
                    )
                    yield f"{self._names(rules, holding)}: keep_{period} {count}, {what}"
        if reached and not self.history.parents[number]:
            yield ORIGIN

    def against(self, number: int) -> Iterator[str]:
        """Why a snapshot goes: what each class of refs that reaches it would have kept."""
        reached = False
        for rules in self.classes:
            bits = self._reached(rules)[number]
            if bits:
                reached = True
                cutoff = rules.cutoff(self.now)
                age = f"; written before {instant_text(cutoff)}" if cutoff is not None else ""
                tried = ", ".join(rules.sentences())
                yield f"{self._names(rules, bits)}: not kept by {tried}{age}"
        if not reached:
            yield UNREACHED

    def _names(self, rules: Rules, bits: int) -> str:
        refs = self.classes[rules]
        return _listed(_text(self.history.refs[refs[bit]]) for bit in _bits(bits))

    def _reached(self, rules: Rules) -> list[int]:
        """For each snapshot the refs of a class that reach it."""
        if rules not in self._reach:
            reach = [0] * len(self.history.snapshots)
            for bit, ref in enumerate(self.classes[rules]):
                reach[self.history.tips[ref]] |= 1 << bit
            for number, parents in enumerate(self.history.parents):
                if reach[number]:
                    for parent in parents:
                        reach[parent] |= reach[number]
            self._reach[rules] = reach
        return self._reach[rules]

    def _near(self, rules: Rules, refs: list[int], bits: int, written: datetime) -> int:
        assert rules.keep_within is not None
        near = 0
        for bit in _bits(bits):
            tip = self.history.snapshots[self.history.tips[refs[bit]]]
            if written >= rules.keep_within.before(tip.written_at):
                near |= 1 << bit
        return near

    def _chain(self, rules: Rules, period: str, count: int) -> dict[int, int]:
        """For each snapshot the refs of a class whose counting rule keeps it."""
        if (rules, period) not in self._chains:
            self._chains[rules, period] = self._walk_chains(self.classes[rules], period, count)
        return self._chains[rules, period]

    def _walk_chains(self, refs: list[int], period: str, count: int) -> dict[int, int]:
        # What arrives at a snapshot: (periods spent, the last of them) and the refs it is so for.
        arriving: dict[int, dict[tuple[int, int | None], int]] = {}
        for bit, ref in enumerate(refs):
            here = arriving.setdefault(self.history.tips[ref], {})
            here[0, None] = here.get((0, None), 0) | 1 << bit
        held: dict[int, int] = {}
        for number, parents in enumerate(self.history.parents):
            states = arriving.pop(number, None)
            if states is None:
                continue
            now = NUMBER[period](self.history.snapshots[number].written_at)
            below = arriving.setdefault(parents[0], {}) if parents else {}
            for (spent, last), bits in states.items():
                if last != now:
                    if spent == count:
                        continue
                    spent += 1
                    held[number] = held.get(number, 0) | bits
                below[spent, now] = below.get((spent, now), 0) | bits
        return held


def _text(ref: Ref) -> str:
    return f"{ref.kind} {ref.name}"


def _bits(bits: int) -> Iterator[int]:
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def _listed(names: Iterable[str]) -> str:
    listed = list(names)
    more = len(listed) - NAMED
    return ", ".join(listed[:NAMED]) + (f" and {more} more" if more > 0 else "")
