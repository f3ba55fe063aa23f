"""Retention policies: which snapshots stay, and why.

A *policy* assigns *rules* to refs by glob. *Age rules* apply to all ancestors of a ref, *counting
rules* to its first-parent chain. A *decision* states whether a snapshot stays and gives each
*reason* as a sentence. These modules read no clock and no store: callers pass the time and the
history.
"""

from reclaim.policy.duration import Duration
from reclaim.policy.evaluate import Decisions, evaluate
from reclaim.policy.lines import policy_lines
from reclaim.policy.parse import (
    from_options,
    parse_policy,
    policy_document,
    read_policy,
    require_rules,
)
from reclaim.policy.rules import Match, Policy, Rules
from reclaim.policy.stored import StoredPolicy, decode_stored, encode_stored
from reclaim.policy.unmatched import unmatched_rules, unmatched_sentences

__all__ = [
    "Decisions",
    "Duration",
    "Match",
    "Policy",
    "Rules",
    "StoredPolicy",
    "decode_stored",
    "encode_stored",
    "evaluate",
    "from_options",
    "parse_policy",
    "policy_document",
    "policy_lines",
    "read_policy",
    "require_rules",
    "unmatched_rules",
    "unmatched_sentences",
]
