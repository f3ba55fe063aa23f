"""Rules in plain words, for readers new to the policy format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from reclaim.policy.duration import Duration
from reclaim.policy.rules import Rules, second_text

UNITS = {"hourly": "hours", "daily": "days", "weekly": "weeks", "monthly": "months"}


def rules_in_words(rules: Rules, *, now: datetime, noun: str) -> Iterator[tuple[str, Rules]]:
    """Yield each rule as a sentence, with a policy of this rule alone."""
    alone = Rules()
    if rules.older_than is not None:
        cutoff = rules.cutoff(now)
        assert cutoff is not None
        age = (
            f" (younger than {rules.older_than})" if isinstance(rules.older_than, Duration) else ""
        )
        yield (
            f"keep every {noun} written at or after {second_text(cutoff)}{age}",
            replace(alone, older_than=rules.older_than),
        )
    if rules.keep_within is not None:
        yield (
            f"keep every {noun} written within {rules.keep_within} before the tip",
            replace(alone, keep_within=rules.keep_within),
        )
    for period, count in rules.counts():
        sentence = f"keep the last {count} {noun}s" if count > 1 else f"keep the last {noun}"
        if period != "last":
            unit = UNITS.get(period, "years")
            sentence = f"keep the newest {noun} in each of the last {count} {unit} that have one"
        count_alone: dict[str, Any] = {f"keep_{period}": count}
        yield sentence, replace(alone, **count_alone)
    if rules.keep_merge_bases:
        yield (
            "keep the merge base of each branch with the default branch",
            replace(alone, keep_merge_bases=True),
        )
