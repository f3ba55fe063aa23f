"""Why a snapshot stays or goes, in sentences.

A sentence is for all refs with the same rules and names at most ``NAMED`` of them: to count those
that it leaves out would cost snapshots times refs (decision 0028).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache

from reclaim.model import History
from reclaim.policy.claims import NAMED, Claims, Periods, Ranks
from reclaim.policy.periods import NAME
from reclaim.policy.rules import Rules, instant_text

ORIGIN = "root commit (always kept)"
NO_RULE = "no rule, so everything it reaches stays"
UNREACHED = "no ref reaches it"


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """What a counting rule keeps."""

    period: str
    count: int
    periods: Periods
    claims: Claims
    names: dict[int, str] = field(default_factory=dict, repr=False)
    """The names of periods by their numbers, as far as they were asked for."""


@dataclass(frozen=True, slots=True, eq=False)
class ClassClaims:
    """What the rules of one class keep, each for which refs.

    What has a number below ``young_end`` is young enough for the age rule, for all refs alike.
    """

    rules: Rules
    cutoff: datetime | None
    young_end: int
    reached: Claims
    near: Claims | None
    counted: Sequence[Counted]
    age_reason: str = field(init=False)
    missed: tuple[str, str] = field(init=False)
    """Why these rules do not keep a snapshot: what stands before and after the names of refs."""

    def __post_init__(self) -> None:
        tried = list(self.rules.sentences())
        when = instant_text(self.cutoff) if self.cutoff else ""
        age = f"{tried[0]}, written at or after {when}" if when else NO_RULE
        missed = (
            "",
            f": not kept by {', '.join(tried)}" + (f"; written before {when}" if when else ""),
        )
        if tried == [f"keep_last {self.rules.keep_last}"]:
            missed = f"not among the last {self.rules.keep_last} on ", ""
        object.__setattr__(self, "age_reason", age)
        object.__setattr__(self, "missed", missed)

    def tip_rules(self) -> Iterator[Claims]:
        """The claims by rules that count from the tip of each ref."""
        if self.near is not None:
            yield self.near
        for rule in self.counted:
            yield rule.claims


def base_sentence(branches: tuple[str, ...]) -> str:
    names = [f"branch {name}" for name in branches[:NAMED]]
    more = len(branches) - NAMED
    listed = ", ".join(names) + (f" and {more} more" if more > 0 else "")
    return f"{listed}: keep_merge_bases, the merge base with the default branch"


@dataclass(slots=True)
class Reasons:
    """The sentences for the snapshots of one history under one policy."""

    history: History
    classes: Sequence[ClassClaims]

    def keeping(self, start: int, stop: int) -> list[list[str]]:
        """Every reason for which each of some snapshots stays; none for those that go."""
        sentences: list[list[str]] = [[] for _ in range(start, stop)]
        for claims in self.classes:
            young_end = min(stop, claims.young_end)
            self._add(sentences, start, young_end, claims.reached, f": {claims.age_reason}")
            if claims.near is not None:
                within = f": keep_within {claims.rules.keep_within} of the tip"
                self._add(sentences, start, stop, claims.near, within)
            for rule in claims.counted:
                self._add_counted(sentences, start, stop, rule)
        for number in range(start, stop):
            if not self.history.parents[number] and self._is_reached(number):
                sentences[number - start].append(ORIGIN)
        return sentences

    def against(self, number: int) -> list[str]:
        """Why a snapshot goes: what each class of refs that reaches it would have kept."""
        sentences = []
        for claims in self.classes:
            ranks = claims.reached.ranks[number]
            if ranks:
                before, after = claims.missed
                sentences.append(f"{before}{self._names(claims.reached, ranks)}{after}")
        return sentences or [UNREACHED]

    def _is_reached(self, number: int) -> bool:
        return any(claims.reached.ranks[number] for claims in self.classes)

    def _add(
        self, sentences: list[list[str]], start: int, stop: int, claims: Claims, why: str
    ) -> None:
        names = claims.names
        for place, ranks in enumerate(claims.ranks[start:stop]):
            if ranks:
                sentences[place].append((names.get(ranks) or self._names(claims, ranks)) + why)

    def _add_counted(
        self, sentences: list[list[str]], start: int, stop: int, rule: Counted
    ) -> None:
        claims, names = rule.claims, rule.claims.names
        why = f": keep_{rule.period} {rule.count} ("
        which = self._place if rule.period == "last" else self._newest
        for place, ranks in enumerate(claims.ranks[start:stop]):
            if ranks:
                listed = names.get(ranks) or self._names(claims, ranks)
                sentences[place].append(f"{listed}{why}{which(rule, ranks, start + place)})")

    def _newest(self, rule: Counted, _ranks: Ranks, number: int) -> str:
        period = rule.periods.numbers[number]
        name = rule.names.get(period)
        if name is None:
            name = NAME[rule.period](self.history.snapshots[number].written_at)
            rule.names[period] = name
        return f"newest of {name}"

    def _place(self, rule: Counted, ranks: Ranks, number: int) -> str:
        """The place of a snapshot among the last of each ref that is named."""
        levels, tips, ranked = rule.periods.levels, self.history.tips, rule.claims.ranked
        below = levels[number] - 1
        if len(ranks) == 1:
            return f"{_ordinal(levels[tips[ranked[ranks[0]]]] - below)} of {rule.count}"
        refs = sorted([ranked[rank] for rank in ranks[:NAMED]])
        places = [_ordinal(levels[tips[ref]] - below) for ref in refs]
        return f"{', '.join(places[:1] if len(set(places)) == 1 else places)} of {rule.count}"

    def _names(self, claims: Claims, ranks: Ranks) -> str:
        """The names of the first refs for which a rule holds, in the order of the history."""
        names = claims.names.get(ranks)
        if names is None:
            shown = sorted([claims.ranked[rank] for rank in ranks[:NAMED]])
            refs = [self.history.refs[ref] for ref in shown]
            names = ", ".join([f"{ref.kind} {ref.name}" for ref in refs])
            names += " and others" if len(ranks) > NAMED else ""
            claims.names[ranks] = names
        return names


@cache
def _ordinal(place: int) -> str:
    ending = "th" if place % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(place % 10)
    return f"{place}{ending or 'th'}"
