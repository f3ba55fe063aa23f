"""Lifecycle rules as they are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LifecycleRule:
    """Days for what lies under a prefix; the empty prefix is everything.

    The days of a branch replace ``days`` for that branch. Without ``days`` the rule speaks for the
    branches in ``branch_days`` alone.
    """

    id: str
    prefix: str
    days: int | None = None
    branch_days: Mapping[str, int] = field(default_factory=dict)
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class LifecyclePolicy:
    """The rules of a repository. A path goes when any of them matches it."""

    rules: tuple[LifecycleRule, ...] = ()

    @property
    def enabled_rules(self) -> tuple[LifecycleRule, ...]:
        return tuple(rule for rule in self.rules if rule.enabled)

    @property
    def named_branches(self) -> frozenset[str]:
        """The branches that have days of their own in some enabled rule."""
        return frozenset(branch for rule in self.enabled_rules for branch in rule.branch_days)
