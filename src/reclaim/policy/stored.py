"""A policy as it is stored with a repository; see ``stored_text`` for its document."""

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
    """A policy, the text that it was read from, and who stored it when."""

    policy: Policy
    text: str
    set_at: datetime
    set_by: str


def text_of(policy: Policy) -> str:
    """The text of a policy that was given without one, as a file would have it."""
    document = {name: part for name, part in policy_document(policy).items() if part}
    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    return text


def encode_stored(stored: StoredPolicy) -> str:
    """The document to store. A policy without any rule is refused: it would say nothing."""
    require_rules(stored.policy)
    if read_policy(stored.text) != stored.policy:
        raise InvalidInput("the text of the policy says something else than the policy")
    return _KIND.encode(StoredText(stored.text, stored.set_at, stored.set_by))


def decode_stored(document: str, *, repository: str) -> StoredPolicy:
    """The policy in a document that was stored with a repository; anything else is an error."""
    stored = _KIND.decode(document, repository=repository)
    try:
        policy = require_rules(read_policy(stored.text, source="its text"))
    except InvalidInput as error:
        raise _KIND.unreadable(repository, error) from error
    except ValueError as error:
        raise _KIND.damaged(repository, error) from error
    return StoredPolicy(policy, stored.text, stored.set_at, stored.set_by)
