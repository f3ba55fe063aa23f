"""The policy of a plan: given by the user, or stored with the store."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from reclaim.errors import Refused
from reclaim.policy import (
    Policy,
    StoredPolicy,
    decode_stored,
    encode_stored,
    require_rules,
)
from reclaim.run.expire.library_edit import find_library_edit
from reclaim.run.plan.decide import KEEPS_ALL
from reclaim.stores.abilities import EditsHistory, ExpiresItself
from reclaim.stores.base import Store


class PolicySource(StrEnum):
    """Origin of the policy of a plan."""

    GIVEN = "given"
    STORED = "stored"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class ChosenPolicy:
    """Policy of a plan, with its origin."""

    policy: Policy = KEEPS_ALL
    source: PolicySource = PolicySource.NONE


def choose_policy(given: Policy | None, stored: StoredPolicy | None) -> ChosenPolicy:
    """Choose the given policy, even without rules; otherwise the stored policy."""
    if given is not None:
        source = PolicySource.NONE if given == KEEPS_ALL else PolicySource.GIVEN
        return ChosenPolicy(given, source)
    if stored is not None:
        return ChosenPolicy(stored.policy, PolicySource.STORED)
    return ChosenPolicy()


def find_stored(store: Store) -> StoredPolicy | None:
    """Return the policy stored with a store. Raise an error if it is unreadable.

    A deleted store keeps nothing, so it has no policy.
    """
    if store.deleted:
        return None
    document = store.stored_policy()
    return None if document is None else decode_stored(document, repository=store.name)


def store_policy(store: Store, text: str, policy: Policy, *, set_by: str) -> StoredPolicy:
    """Store a policy with a store, replacing its current policy."""
    check_rules(store, policy)
    stored = StoredPolicy(policy, text, store.clock.now(), set_by)
    store.store_policy(encode_stored(stored))
    return stored


def check_rules(store: Store, policy: Policy) -> None:
    """Refuse a policy that cannot be planned for the store."""
    require_rules(policy)
    find_library_edit(store, policy, delete_expired_tags=False, delete_expired_branches=False)
    if not isinstance(store, ExpiresItself) and not issubclass(store.handle, EditsHistory):
        raise Refused(
            f"{store.kind} stores have no history to expire, so a policy has no effect",
            hint=f"unreachable {store.noun}s are collected without a policy",
        )
