"""Reasons why a snapshot stays or expires, as sentences.

A sentence covers all refs with the same rules and names at most ``NAMED`` of them: counting the
others would cost snapshots times refs (decision 0028).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from itertools import compress

from reclaim.model import History
from reclaim.policy.claims import NAMED, Claims, Periods, Ranks
from reclaim.policy.periods import NAME
from reclaim.policy.rules import Rules, second_text

ORIGIN = "root {noun} (always kept)"
NO_RULE = "no rule, so everything it reaches stays"
UNREACHED = "no ref reaches it"


@dataclass(frozen=True, slots=True, eq=False)
class Counted:
    """Counting rule with its claims."""

    period: str
    count: int
    periods: Periods
    claims: Claims


@dataclass(frozen=True, slots=True, eq=False)
class ClassClaims:
    """Claims of the rules of a class of refs.

    Snapshots with an age below ``young_end`` are young enough for the age rule of every ref.
    """

    rules: Rules
    cutoff: datetime | None
    young_end: int
    reached: Claims
    near: Claims | None
    counted: Sequence[Counted]
    age_reason: str = field(init=False)
    missed: tuple[str, str] = field(init=False)
    """Text before and after the names of refs in the reason why a snapshot expires."""

    def __post_init__(self) -> None:
        tried = list(self.rules.sentences())
        when = second_text(self.cutoff) if self.cutoff else ""
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
        """Claims of the rules counting from the tip of each ref."""
        if self.near is not None:
            yield self.near
        for rule in self.counted:
            yield rule.claims


def base_sentence(branches: tuple[str, ...]) -> str:
    names = [f"branch {name}" for name in branches[:NAMED]]
    more = len(branches) - NAMED
    listed = ", ".join(names) + (f" and {more} more" if more > 0 else "")
    return f"{listed}: keep_merge_bases, the merge base with the default branch"


class Names(dict[Ranks, str]):
    """Lists of ref names in sentences, by the ranks of the refs, in the order of the history.

    Each list stands between two fixed texts and is made on first access.
    """

    def __init__(
        self, labels: Sequence[str], claims: Claims, before: str = "", after: str = ""
    ) -> None:
        super().__init__()
        self._labels, self._ranked = labels, claims.ranked
        self._before, self._after = before, after

    def __missing__(self, ranks: Ranks) -> str:
        refs = sorted([self._ranked[rank] for rank in ranks[:NAMED]])
        names = ", ".join([self._labels[ref] for ref in refs])
        others = " and others" if len(ranks) > NAMED else ""
        self[ranks] = listed = f"{self._before}{names}{others}{self._after}"
        return listed


@dataclass(slots=True)
class Reasons:
    """Sentences for the snapshots of a history under a policy."""

    history: History
    classes: Sequence[ClassClaims]
    noun: str = "commit"
    """The store's own word for a snapshot."""
    names: dict[Claims, Names] = field(init=False, repr=False)
    missed: list[tuple[Sequence[Ranks], Names]] = field(init=False, repr=False)
    tip_levels: dict[Claims, list[int]] = field(init=False, repr=False)
    """Level of each ref's tip, by rank, for counting rules."""

    def __post_init__(self) -> None:
        labels = [f"{ref.kind} {ref.name}" for ref in self.history.refs]
        self.names = {
            claims: Names(labels, claims)
            for claims_of_class in self.classes
            for claims in (claims_of_class.reached, *claims_of_class.tip_rules())
        }
        tips = self.history.tips
        self.tip_levels = {
            rule.claims: [rule.periods.levels[tips[ref]] for ref in rule.claims.ranked]
            for claims in self.classes
            for rule in claims.counted
        }
        self.missed = [
            (claims.reached.ranks, Names(labels, claims.reached, *claims.missed))
            for claims in self.classes
        ]

    @property
    def origin(self) -> str:
        """Reason why the first snapshot of a history stays."""
        return ORIGIN.format(noun=self.noun)

    def keeping(self, start: int, stop: int) -> list[list[str]]:
        """Every reason to keep each snapshot of a range; an empty list for expired snapshots."""
        sentences: list[list[str]] = [[] for _ in range(start, stop)]
        for claims in self.classes:
            self._add_young(sentences, slice(start, stop), claims)
            if claims.near is not None:
                within = f": keep_within {claims.rules.keep_within} of the tip"
                self._add(sentences, start, stop, claims.near, within)
            for rule in claims.counted:
                add = self._add_places if rule.period == "last" else self._add_newest
                add(sentences, slice(start, stop), rule)
        origins = self.history.origins
        for number in origins[bisect_left(origins, start) : bisect_left(origins, stop)]:
            if self._is_reached(number):
                sentences[number - start].append(self.origin)
        return sentences

    def against(self, number: int) -> list[str]:
        """Reasons why a snapshot expires: the rules of each class of refs reaching it."""
        sentences = [missed[ranks[number]] for ranks, missed in self.missed if ranks[number]]
        return sentences or [UNREACHED]

    def _is_reached(self, number: int) -> bool:
        return any(claims.reached.ranks[number] for claims in self.classes)

    def _add(
        self, sentences: list[list[str]], start: int, stop: int, claims: Claims, why: str
    ) -> None:
        names = self.names[claims]
        ranges = claims.ranks[start:stop]
        for reasons, ranks in compress(zip(sentences, ranges, strict=True), ranges):
            reasons.append(names[ranks] + why)

    def _add_young(self, sentences: list[list[str]], window: slice, claims: ClassClaims) -> None:
        names, why = self.names[claims.reached], f": {claims.age_reason}"
        end = claims.young_end
        if self.history.monotone:
            # A number is an age, so that the young ones come first.
            reach = claims.reached.ranks[window.start : min(window.stop, end)]
            for reasons, ranks in compress(zip(sentences, reach, strict=False), reach):
                reasons.append(names[ranks] + why)
            return
        reach = claims.reached.ranks[window]
        rows = zip(sentences, reach, self.history.ages[window], strict=True)
        for reasons, ranks, age in compress(rows, reach):
            if age < end:
                reasons.append(names[ranks] + why)

    def _add_newest(self, sentences: list[list[str]], window: slice, rule: Counted) -> None:
        names, numbers = self.names[rule.claims], rule.periods.numbers[window]
        name_of, why = NAME[rule.period], f": keep_{rule.period} {rule.count} (newest of "
        endings = {number: f"{why}{name_of(number)})" for number in set(numbers)}
        claims = rule.claims.ranks[window]
        rows = zip(sentences, claims, numbers, strict=True)
        for reasons, ranks, number in compress(rows, claims):
            reasons.append(names[ranks] + endings[number])

    def _add_places(self, sentences: list[list[str]], window: slice, rule: Counted) -> None:
        names, levels = self.names[rule.claims], rule.periods.levels[window]
        tip_levels = self.tip_levels[rule.claims]
        before, after = f": keep_last {rule.count} (", f" of {rule.count})"
        claims = rule.claims.ranks[window]
        for reasons, ranks, level in compress(zip(sentences, claims, levels, strict=True), claims):
            if len(ranks) == 1:
                places = _ordinal(tip_levels[ranks[0]] - level + 1)
            else:
                places = self._places(rule, ranks, level)
            reasons.append(f"{names[ranks]}{before}{places}{after}")

    def _places(self, rule: Counted, ranks: Ranks, level: int) -> str:
        """Position of a snapshot among the last snapshots of each named ref."""
        ranked, tip_levels = rule.claims.ranked, self.tip_levels[rule.claims]
        named = sorted(ranks[:NAMED], key=ranked.__getitem__)
        places = [_ordinal(tip_levels[rank] - level + 1) for rank in named]
        return ", ".join(places[:1] if len(set(places)) == 1 else places)


@cache
def _ordinal(place: int) -> str:
    ending = "th" if place % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(place % 10)
    return f"{place}{ending or 'th'}"
