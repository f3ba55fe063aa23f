"""Policies stored with a repository; see ``stored_text`` for the document."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import yaml

from reclaim.errors import InvalidInput
from reclaim.policy.parse import policy_document, read_policy, require_rules
from reclaim.policy.rules import Policy
from reclaim.policy.stored_text import StoredText, TextKind

FORMAT = 1
SET_AGAIN = "set it again with `reclaim policy set`, or remove it with `reclaim policy unset`"
_KIND = TextKind("policy", "policy", FORMAT, SET_AGAIN)


@dataclass(frozen=True, slots=True)
class StoredPolicy:
    """Policy with its source text, and by whom and when it was stored."""

    policy: Policy
    text: str
    set_at: datetime
    set_by: str


def text_of(policy: Policy) -> str:
    """Return the text of a policy given without text, as a file would have it."""
    document = {name: part for name, part in policy_document(policy).items() if part}
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    return text


def encode_stored(stored: StoredPolicy) -> str:
    """Return the document to store. Refuse a policy without rules: it would have no effect."""
    require_rules(stored.policy)
    if read_policy(stored.text) != stored.policy:
        raise InvalidInput("the text of the policy does not match the policy")
    return _KIND.encode(StoredText(stored.text, stored.set_at, stored.set_by))


def decode_stored(document: str, *, repository: str) -> StoredPolicy:
    """Return the policy in a stored document; fail on any other document."""
    stored = _KIND.decode(document, repository=repository)
    try:
        policy = require_rules(read_policy(stored.text, source="its text"))
    except InvalidInput as error:
        raise _KIND.unreadable(repository, error) from error
    except ValueError as error:
        raise _KIND.damaged(repository, error) from error
    return StoredPolicy(policy, stored.text, stored.set_at, stored.set_by)
