"""The verdict on one address, given all that refers to it.

The run decides the same by columns; this is what it is held to.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from reclaim.policy.lifecycle.dated import EVERY_BRANCH, DatedRule


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A path under which commits have an address, and the branches that reach these.

    ``holders`` are tags, leases and staged entries, which hold what they reach whatever its age.
    """

    path: str
    created: date
    branches: frozenset[str]
    holders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AddressVerdict:
    """An address goes if nothing holds it and some rule matched; both are told."""

    matched: frozenset[str]
    held_by: tuple[str, ...]

    @property
    def goes(self) -> bool:
        return bool(self.matched) and not self.held_by


def matched_rules(
    rules: Iterable[DatedRule], path: str, created: date, branch: str
) -> frozenset[str]:
    """The rules that match a path on a branch; any of them is enough."""
    dates: dict[str, dict[str, date]] = {}
    for rule in rules:
        if path.startswith(rule.prefix) and rule.branch in (EVERY_BRANCH, branch):
            dates.setdefault(rule.rule_id, {})[rule.branch] = rule.date_to_be_deleted
    return frozenset(
        rule_id
        for rule_id, by_branch in dates.items()
        # The days of the branch itself replace those of every branch.
        if created <= by_branch.get(branch, by_branch.get(EVERY_BRANCH, date.min))
    )


def judge(rules: Sequence[DatedRule], occurrences: Iterable[Occurrence]) -> AddressVerdict:
    """The verdict on one address, by everything that refers to it.

    Of one path with several dates the latest counts.
    """
    latest = _latest_dates(found := list(occurrences))
    matched: set[str] = set()
    held_by: dict[str, None] = {}
    for one in found:
        held_by.update(dict.fromkeys(one.holders))
        for branch in sorted(one.branches):
            if told := matched_rules(rules, one.path, latest[one.path], branch):
                matched |= told
            else:
                held_by[f"{one.path} on the branch {branch}"] = None
    return AddressVerdict(frozenset(matched), tuple(held_by))


def _latest_dates(occurrences: Iterable[Occurrence]) -> Mapping[str, date]:
    latest: dict[str, date] = {}
    for one in occurrences:
        latest[one.path] = max(latest.get(one.path, date.min), one.created)
    return latest
