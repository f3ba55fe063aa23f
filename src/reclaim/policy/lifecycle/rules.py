"""Lifecycle rules as users write them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LifecycleRule:
    """Number of days for a path prefix; the empty prefix matches everything.

    A branch's own days replace ``days`` for this branch. Without ``days`` the rule applies only to
    the branches in ``branch_days``.
    """

    id: str
    prefix: str
    days: int | None = None
    branch_days: Mapping[str, int] = field(default_factory=dict)
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class LifecyclePolicy:
    """Lifecycle rules of a repository. A path matches if any rule matches it."""

    rules: tuple[LifecycleRule, ...] = ()

    @property
    def enabled_rules(self) -> tuple[LifecycleRule, ...]:
        return tuple(rule for rule in self.rules if rule.enabled)

    @property
    def named_branches(self) -> frozenset[str]:
        """Branches with days of their own in an enabled rule."""
        return frozenset(branch for rule in self.enabled_rules for branch in rule.branch_days)
