"""Readable form of a policy."""

from __future__ import annotations

from collections.abc import Iterator

from reclaim.policy.rules import Match, Policy, Rules


def policy_lines(policy: Policy) -> Iterator[str]:
    """Yield a line for each match, in matching order, then a line for the default."""
    for match, rules in policy.matches:
        yield f"{match_words(match)}: {_rules(rules)}"
    yield f"default: {_rules(policy.default)}"


def match_words(match: Match) -> str:
    """Describe the refs matched by an entry."""
    return f"{match.kind} {match.glob}" if match.kind else match.glob


def _rules(rules: Rules) -> str:
    return "everything stays" if rules.empty else ", ".join(rules.all_sentences())
