"""How far back commits have to be looked at, by what earlier runs have deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import date

from reclaim.policy.lifecycle.dated import EVERY_BRANCH, CurrentRule, DatedRule

BEGINNING, NEVER = date.min, date.max
"""Bounds of a branch on which everything has to be looked at, and of one without any rule: it only
holds what it reaches."""


def current_rules(now: Iterable[DatedRule], finished: Iterable[DatedRule]) -> list[CurrentRule]:
    """The rules of now, by prefix and branch, beside those of runs that finished and deleted."""
    dates, deleted = _latest(now), _latest(finished)
    return [
        CurrentRule(prefix, branch, latest, deleted.get((prefix, branch)))
        for (prefix, branch), latest in sorted(dates.items())
    ]


def _latest(rules: Iterable[DatedRule]) -> dict[tuple[str, str], date]:
    latest: dict[tuple[str, str], date] = {}
    for rule in rules:
        place = rule.prefix, rule.branch
        latest[place] = max(latest.get(place, BEGINNING), rule.date_to_be_deleted)
    return latest


@dataclass(frozen=True, slots=True)
class Bounds:
    """For each branch with rows of its own the date up to which all was looked at before."""

    of_branches: Mapping[str, date]

    @classmethod
    def of(cls, current: Iterable[CurrentRule]) -> Bounds:
        found: dict[str, date] = {}
        for rule in current:
            last = rule.last_deleted or BEGINNING
            found[rule.branch] = min(found.get(rule.branch, NEVER), last)
        return cls(found)

    def of_branch(self, branch: str) -> date:
        """The older of a branch's own bound and that of every branch."""
        own = self.of_branches.get(branch, NEVER)
        return min(own, self.of_branches.get(EVERY_BRANCH, NEVER))

    def of_commit(self, branches: Collection[str]) -> date:
        """The latest of the branches that reach a commit: each of them must agree."""
        return max(map(self.of_branch, branches), default=NEVER)

    def is_potential(self, committed: date, branches: Collection[str]) -> bool:
        """Whether a commit may have what the rules match now and did not match before."""
        return committed > self.of_commit(branches)
