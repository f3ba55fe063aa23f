"""Verdict on an address, given all references to it.

Runs reach the same verdict by columns; tests compare them with this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from reclaim.policy.lifecycle.dated import EVERY_BRANCH, DatedRule


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Path under which commits refer to an address, and the branches reaching these commits.

    ``holders`` are tags, leases and staged entries; they hold the entries they reach at any age.
    """

    path: str
    created: date
    branches: frozenset[str]
    holders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AddressVerdict:
    """Rules matching an address, and its holders.

    An address is deleted only if a rule matches and nothing holds it.
    """

    matched: frozenset[str]
    held_by: tuple[str, ...]

    @property
    def goes(self) -> bool:
        return bool(self.matched) and not self.held_by


def matched_rules(
    rules: Iterable[DatedRule], path: str, created: date, branch: str
) -> frozenset[str]:
    """Return the rules matching a path on a branch; any of them is enough."""
    dates: dict[str, dict[str, date]] = {}
    for rule in rules:
        if path.startswith(rule.prefix) and rule.branch in (EVERY_BRANCH, branch):
            dates.setdefault(rule.rule_id, {})[rule.branch] = rule.date_to_be_deleted
    return frozenset(
        rule_id
        for rule_id, by_branch in dates.items()
        # The branch's own days replace the days of every branch.
        if created <= by_branch.get(branch, by_branch.get(EVERY_BRANCH, date.min))
    )


def judge(rules: Sequence[DatedRule], occurrences: Iterable[Occurrence]) -> AddressVerdict:
    """Return the verdict on an address from all references to it.

    If a path has several dates, the latest counts.
    """
    latest = _latest_dates(references := list(occurrences))
    matched: set[str] = set()
    held_by: dict[str, None] = {}
    for reference in references:
        held_by.update(dict.fromkeys(reference.holders))
        for branch in sorted(reference.branches):
            if rule_ids := matched_rules(rules, reference.path, latest[reference.path], branch):
                matched |= rule_ids
            else:
                held_by[f"{reference.path} on the branch {branch}"] = None
    return AddressVerdict(frozenset(matched), tuple(held_by))


def _latest_dates(occurrences: Iterable[Occurrence]) -> Mapping[str, date]:
    latest: dict[str, date] = {}
    for occurrence in occurrences:
        latest[occurrence.path] = max(latest.get(occurrence.path, date.min), occurrence.created)
    return latest
