"""Lifecycle rules stored with a repository; see ``stored_text`` for the document."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from reclaim.errors import InvalidInput
from reclaim.policy.lifecycle.parse import read_lifecycle
from reclaim.policy.lifecycle.rules import LifecyclePolicy
from reclaim.policy.stored_text import StoredText, TextKind

FORMAT = 1
_KIND = TextKind(
    "lifecycle policy",
    "rules",
    FORMAT,
    "set the rules again with `reclaim lifecycle set`",
)


@dataclass(frozen=True, slots=True)
class StoredLifecycle:
    """Lifecycle rules with their source text, and by whom and when they were stored."""

    policy: LifecyclePolicy
    text: str
    set_at: datetime
    set_by: str


def encode_lifecycle(stored: StoredLifecycle) -> str:
    """Return the document to store."""
    if read_lifecycle(stored.text) != stored.policy:
        raise InvalidInput("the text of the lifecycle rules does not match the rules")
    return _KIND.encode(StoredText(stored.text, stored.set_at, stored.set_by))


def decode_lifecycle(document: str, *, repository: str) -> StoredLifecycle:
    """Return the rules in a stored document; fail on any other document."""
    stored = _KIND.decode(document, repository=repository)
    try:
        policy = read_lifecycle(stored.text, source="their text")
    except (ValueError, InvalidInput) as error:
        raise _KIND.damaged(repository, error) from error
    return StoredLifecycle(policy, stored.text, stored.set_at, stored.set_by)
