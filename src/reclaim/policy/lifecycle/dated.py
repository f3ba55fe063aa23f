"""Rules on one day: dates in the place of days."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from reclaim.policy.lifecycle.rules import LifecyclePolicy

EVERY_BRANCH = ""
"""In the place of a branch: every branch for which the rule has no days of its own."""


@dataclass(frozen=True, slots=True)
class DatedRule:
    """A rule for one branch on one day: entries created on or before its date go."""

    rule_id: str
    prefix: str
    branch: str
    date_to_be_deleted: date


@dataclass(frozen=True, slots=True)
class CurrentRule:
    """The latest date of a prefix on a branch, and up to which date earlier runs deleted there."""

    prefix: str
    branch: str
    date_to_be_deleted: date
    last_deleted: date | None


def date_rules(policy: LifecyclePolicy, today: date) -> list[DatedRule]:
    """The enabled rules as they are on a day, which is a day of UTC."""
    return [
        DatedRule(rule.id, rule.prefix, branch, today - timedelta(days=days))
        for rule in policy.enabled_rules
        for branch, days in (
            *(((EVERY_BRANCH, rule.days),) if rule.days is not None else ()),
            *rule.branch_days.items(),
        )
    ]
