"""Rules matching no ref: a mistyped name, or a deleted ref."""

from __future__ import annotations

from collections.abc import Iterable

from reclaim.model import Ref
from reclaim.policy.rules import Match, Policy


def unmatched_rules(policy: Policy, refs: Iterable[Ref]) -> tuple[Match, ...]:
    """Return the entries of a policy matching no ref at all, in policy order.

    Entries whose refs are all decided by earlier entries are not included.
    """
    known = tuple(refs)
    return tuple(match for match, _ in policy.matches if not any(map(match, known)))


def unmatched_sentences(policy: Policy, refs: Iterable[Ref]) -> tuple[str, ...]:
    """Return a warning for each entry matching no ref."""
    return tuple(
        f"the rule for {match.kind or 'branch or tag'} {match.glob} matches no ref"
        for match in unmatched_rules(policy, refs)
    )
