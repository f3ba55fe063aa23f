"""Classes of branches: branches with the same days in all rules are judged together.

The refs reaching a commit form a *bitmap* with a bit for each class: the first for branches not
named in any rule, the next for each group of named branches with the same days, and the last for
*holders* (tags, leases and other users that need a commit unchanged), which no rule matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from reclaim.errors import InvalidInput
from reclaim.policy.lifecycle.dated import EVERY_BRANCH, DatedRule

OTHERS = 1
"""Bit of branches not named in any rule."""
HOLDER = 1 << 62
"""Bit of holders. Bitmaps are signed in files, so the highest bit is unused."""
MOST_CLASSES = 61
NEVER = date.min
"""Date of a rule for a branch to which it does not apply."""


@dataclass(frozen=True, slots=True)
class RuleDates:
    """Rule with its prefix, and its date for each class, by bit number."""

    rule_id: str
    prefix: str
    dates: tuple[date, ...]

    def steps(self) -> Sequence[tuple[date, int]]:
        """Each date of the rule, with the bits of its classes."""
        bits: dict[date, int] = {}
        for number, day in enumerate(self.dates):
            if day != NEVER:
                bits[day] = bits.get(day, 0) | 1 << number
        return sorted(bits.items())


@dataclass(frozen=True, slots=True)
class BranchClasses:
    """Classes of branches under some rules, and the rules by class."""

    named: tuple[tuple[str, ...], ...]
    """Branches of each class except the first, which holds all other branches."""
    rules: tuple[RuleDates, ...]

    @classmethod
    def of(cls, rules: Iterable[DatedRule]) -> BranchClasses:
        """Return the classes under the rules of a day."""
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
                f"the lifecycle rules distinguish {len(groups)} groups of branches; at most "
                f"{MOST_CLASSES} are supported",
                hint="use the same days for similar branches",
            )
        columns = [tuple(_date(own, EVERY_BRANCH) for own in by_rule.values()), *groups]
        return cls(
            tuple(map(tuple, groups.values())),
            tuple(
                RuleDates(rule_id, prefix, tuple(dates[index] for dates in columns))
                for index, (rule_id, prefix) in enumerate(by_rule)
            ),
        )

    def bit(self, branch: str) -> int:
        """Bit of a branch."""
        for number, branches in enumerate(self.named):
            if branch in branches:
                return OTHERS << number + 1
        return OTHERS

    def names(self, bits: int) -> list[str]:
        """Named branches of a bitmap."""
        return [
            branch
            for number, branches in enumerate(self.named)
            if bits >> number + 1 & 1
            for branch in branches
        ]


def _date(dates: dict[str, date], branch: str) -> date:
    return dates.get(branch, dates.get(EVERY_BRANCH, NEVER))
