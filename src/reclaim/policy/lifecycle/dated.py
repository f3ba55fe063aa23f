"""Lifecycle rules on a given day, with dates instead of days."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from reclaim.policy.lifecycle.rules import LifecyclePolicy

EVERY_BRANCH = ""
"""Stands for every branch without days of its own in the rule."""


@dataclass(frozen=True, slots=True)
class DatedRule:
    """Rule for a branch on a given day: entries created on or before its date match."""

    rule_id: str
    prefix: str
    branch: str
    date_to_be_deleted: date


@dataclass(frozen=True, slots=True)
class CurrentRule:
    """Latest date of a prefix on a branch, and the date up to which earlier runs deleted there."""

    prefix: str
    branch: str
    date_to_be_deleted: date
    last_deleted: date | None


def date_rules(policy: LifecyclePolicy, today: date) -> list[DatedRule]:
    """Return the enabled rules with dates, for a day in UTC."""
    return [
        DatedRule(rule.id, rule.prefix, branch, today - timedelta(days=days))
        for rule in policy.enabled_rules
        for branch, days in (
            *(((EVERY_BRANCH, rule.days),) if rule.days is not None else ()),
            *rule.branch_days.items(),
        )
    ]
