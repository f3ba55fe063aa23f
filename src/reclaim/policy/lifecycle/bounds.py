"""Bounds on how far back commits must be checked, from earlier completed runs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from reclaim.policy.lifecycle.dated import EVERY_BRANCH, CurrentRule, DatedRule

BEGINNING, NEVER = date.min, date.max
"""Bounds of a branch on which everything must be checked, and of a branch without rules, which only
holds the entries it reaches.
"""


def current_rules(now: Iterable[DatedRule], finished: Iterable[DatedRule]) -> list[CurrentRule]:
    """Current rules by prefix and branch, with the dates of runs that completed their deletions."""
    dates, deleted = _latest(now), _latest(finished)
    return [
        CurrentRule(prefix, branch, latest, deleted.get((prefix, branch)))
        for (prefix, branch), latest in sorted(dates.items())
    ]


def _latest(rules: Iterable[DatedRule]) -> dict[tuple[str, str], date]:
    latest: dict[tuple[str, str], date] = {}
    for rule in rules:
        key = rule.prefix, rule.branch
        latest[key] = max(latest.get(key, BEGINNING), rule.date_to_be_deleted)
    return latest


@dataclass(frozen=True, slots=True)
class Bounds:
    """Dates up to which earlier runs checked everything, by branches named in rules."""

    of_branches: Mapping[str, date]

    @classmethod
    def of(cls, current: Iterable[CurrentRule]) -> Bounds:
        bounds: dict[str, date] = {}
        for rule in current:
            last = rule.last_deleted or BEGINNING
            bounds[rule.branch] = min(bounds.get(rule.branch, NEVER), last)
        return cls(bounds)

    def of_branch(self, branch: str) -> date:
        """Older of the branch's own bound and the bound of every branch."""
        own = self.of_branches.get(branch, NEVER)
        return min(own, self.of_branches.get(EVERY_BRANCH, NEVER))

    def of_commit(self, branches: Collection[str]) -> date:
        """Latest bound of the branches reaching a commit: all of them must agree."""
        return max(map(self.of_branch, branches), default=NEVER)

    def is_potential(self, committed: date, branches: Collection[str]) -> bool:
        """Whether a commit may have entries that match now and did not match before."""
        return committed > self.of_commit(branches)
