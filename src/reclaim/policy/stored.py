"""A policy as it is stored with a repository: a document with a version and a checksum.

It is never guessed what a stored policy says. One of an unknown version or that is damaged is an
error: without its rules a run would keep other snapshots than somebody has asked for.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import yaml

from reclaim.errors import Corrupt, InvalidInput, UnknownVersion
from reclaim.model import instant_text
from reclaim.policy.parse import policy_document, read_policy, require_rules
from reclaim.policy.rules import Policy

FORMAT = 1
"""Grows whenever a policy can say something that an older Reclaim does not know."""
SET_AGAIN = "set it again with `reclaim policy set`, or remove it with `reclaim policy unset`"


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
    return json.dumps(
        {
            "format": FORMAT,
            "policy": stored.text,
            "sha256": _hash(stored.text),
            "set_at": instant_text(stored.set_at),
            "set_by": stored.set_by,
        }
    )


def decode_stored(document: str, *, repository: str) -> StoredPolicy:
    """The policy in a document that was stored with a repository; anything else is an error."""
    try:
        body = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise _damaged(repository, "it is not JSON") from error
    if not isinstance(body, dict) or not isinstance(body.get("format"), int):
        raise _damaged(repository, "it has no version")
    if body["format"] != FORMAT:
        raise UnknownVersion(
            f"the policy stored with {repository} has version {body['format']}; this Reclaim knows "
            f"version {FORMAT}",
            hint=f"upgrade Reclaim, or {SET_AGAIN}",
        )
    text, set_by = _text(body, "policy", repository), _text(body, "set_by", repository)
    if body.get("sha256") != _hash(text):
        raise _damaged(repository, "its text is not the one that was stored")
    try:
        set_at = datetime.fromisoformat(_text(body, "set_at", repository))
        policy = require_rules(read_policy(text, source="its text"))
    except (ValueError, InvalidInput) as error:
        raise _damaged(repository, error) from error
    return StoredPolicy(policy, text, set_at, set_by)


def _text(body: dict[str, Any], name: str, repository: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise _damaged(repository, f"{name} is not a text")
    return value


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _damaged(repository: str, why: object) -> Corrupt:
    return Corrupt(f"the policy stored with {repository} is damaged: {why}", hint=SET_AGAIN)
