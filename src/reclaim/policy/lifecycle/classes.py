"""Classes of branches: those for which the rules have the same days are judged together.

What reaches a commit is a *bitmap*, with a bit for each class: the first one for branches that no
rule names, one for each group of named branches with the same days, and one for *holders* (tags,
leases, and whatever else needs a commit as it is), which no rule matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from reclaim.errors import InvalidInput
from reclaim.policy.lifecycle.dated import EVERY_BRANCH, DatedRule

OTHERS = 1
"""The bit of branches that no rule names."""
HOLDER = 1 << 62
"""The bit of holders. Bitmaps are signed in files, so that the highest bit is not used."""
MOST_CLASSES = 61
NEVER = date.min
"""The date of a rule on a branch for which it says nothing."""


@dataclass(frozen=True, slots=True)
class RuleDates:
    """One rule: its prefix, and its date for each class, by the number of its bit."""

    rule_id: str
    prefix: str
    dates: tuple[date, ...]

    def steps(self) -> Sequence[tuple[date, int]]:
        """Each date that the rule has, with the bits of the classes that have it."""
        bits: dict[date, int] = {}
        for number, day in enumerate(self.dates):
            if day != NEVER:
                bits[day] = bits.get(day, 0) | 1 << number
        return sorted(bits.items())


@dataclass(frozen=True, slots=True)
class BranchClasses:
    """The classes of branches under some rules, and the rules by class."""

    named: tuple[tuple[str, ...], ...]
    """The branches of each class but the first: that has every other branch."""
    rules: tuple[RuleDates, ...]

    @classmethod
    def of(cls, rules: Iterable[DatedRule]) -> BranchClasses:
        """The classes under the rules of a day."""
        by_rule: dict[tuple[str, str], dict[str, date]] = {}
        for rule in rules:
            own = by_rule.setdefault((rule.rule_id, rule.prefix), {})
            own[rule.branch] = rule.date_to_be_deleted
        branches = sorted({name for own in by_rule.values() for name in own} - {EVERY_BRANCH})
        groups: dict[tuple[date, ...], list[str]] = {}
        for branch in branches:
            dates = tuple(_date(own, branch) for own in by_rule.values())
            groups.setdefault(dates, []).append(branch)
        if len(groups) > MOST_CLASSES:
            raise InvalidInput(
                f"the lifecycle rules give {len(groups)} groups of branches days of their own, and "
                f"at most {MOST_CLASSES} can be told apart",
                hint="give branches that are alike the same days",
            )
        columns = [tuple(_date(own, EVERY_BRANCH) for own in by_rule.values()), *groups]
        return cls(
            tuple(map(tuple, groups.values())),
            tuple(
                RuleDates(rule_id, prefix, tuple(dates[at] for dates in columns))
                for at, (rule_id, prefix) in enumerate(by_rule)
            ),
        )

    def bit(self, branch: str) -> int:
        """The bit of a branch."""
        for number, branches in enumerate(self.named):
            if branch in branches:
                return OTHERS << number + 1
        return OTHERS

    def names(self, bits: int) -> list[str]:
        """The branches that rules name among some bits."""
        return [
            branch
            for number, branches in enumerate(self.named)
            if bits >> number + 1 & 1
            for branch in branches
        ]


def _date(dates: dict[str, date], branch: str) -> date:
    return dates.get(branch, dates.get(EVERY_BRANCH, NEVER))
