"""Rules of a policy that are for no ref: a name that was mistyped, or a ref that is gone."""

from __future__ import annotations

from collections.abc import Iterable

from reclaim.model import Ref
from reclaim.policy.rules import Match, Policy


def unmatched_rules(policy: Policy, refs: Iterable[Ref]) -> tuple[Match, ...]:
    """The entries of a policy that match no ref at all, in its order.

    One that matches a ref for which an earlier entry decides is not among them.
    """
    known = tuple(refs)
    return tuple(match for match, _ in policy.matches if not any(map(match, known)))


def unmatched_sentences(policy: Policy, refs: Iterable[Ref]) -> tuple[str, ...]:
    """A warning for each of these entries."""
    return tuple(
        f"the rule for {match.kind or 'branch or tag'} {match.glob} matches no ref"
        for match in unmatched_rules(policy, refs)
    )
