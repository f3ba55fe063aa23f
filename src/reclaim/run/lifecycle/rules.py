"""The lifecycle rules stored with a store, and its lifecycle runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from reclaim.errors import NotFound, Refused
from reclaim.model import RefKind
from reclaim.policy.lifecycle import (
    LifecyclePolicy,
    StoredLifecycle,
    decode_lifecycle,
    encode_lifecycle,
)
from reclaim.run_record import RunRecord
from reclaim.stores.abilities import ShowsHistory, TakesReferenced
from reclaim.stores.base import Store


@dataclass(frozen=True, slots=True)
class LifecycleRun:
    """Run of lifecycle rules, from its record."""

    run: RunRecord
    today: str
    """Reference day for the dates of the rules."""
    rules: tuple[str, ...]
    """Ids of the enabled rules."""
    mode: str
    held: int
    """Addresses matched by a rule but held."""

    @classmethod
    def of(cls, run: RunRecord) -> LifecycleRun | None:
        """Return None for other runs."""
        recorded = run.lifecycle
        if recorded is None:
            return None
        return cls(run, recorded.today, recorded.rules, recorded.mode, recorded.held)


def keeping_lifecycle(store: Store) -> TakesReferenced:
    """Return a store with support for lifecycle rules. Refuse others."""
    if not isinstance(store, TakesReferenced):
        raise Refused(
            f"{store.kind} stores have no lifecycle rules",
            hint="only repositories of a catalog have them",
        )
    return store


def find_lifecycle(store: Store) -> StoredLifecycle:
    """Return the rules stored with a store. Raise an error if there are none, or if they are
    unreadable."""
    document = keeping_lifecycle(store).stored_lifecycle()
    if document is None:
        raise nothing_stored(store)
    return decode_lifecycle(document, repository=store.name)


def has_rules(store: Store) -> bool:
    """Whether lifecycle rules are stored with a store."""
    return (
        not store.deleted
        and isinstance(store, TakesReferenced)
        and store.stored_lifecycle() is not None
    )


def has_enabled_rule(store: Store) -> bool:
    """Whether any stored lifecycle rule is enabled."""
    return has_rules(store) and bool(find_lifecycle(store).policy.enabled_rules)


def nothing_stored(store: Store) -> NotFound:
    """Error for a store without lifecycle rules."""
    return NotFound(
        f"no lifecycle rules are stored with {store.name}",
        hint="store rules with `reclaim lifecycle set`; without rules nothing expires",
    )


def store_lifecycle(
    store: Store, text: str, policy: LifecyclePolicy, *, set_by: str
) -> StoredLifecycle:
    """Store rules with a store, replacing its current rules."""
    keeping = keeping_lifecycle(store)
    stored = StoredLifecycle(policy, text, store.clock.now(), set_by)
    keeping.store_lifecycle(encode_lifecycle(stored))
    return stored


def find_notes(store: Store, policy: LifecyclePolicy) -> Sequence[str]:
    """Notes on questionable rules: disabled rules, and rules for missing branches."""
    notes = [
        f"the rule {rule.id} is disabled and does nothing"
        for rule in policy.rules
        if not rule.enabled
    ]
    if isinstance(store, ShowsHistory):
        refs = store.current_history().refs
        existing = {ref.name for ref in refs if ref.kind is RefKind.BRANCH}
        notes += [
            f"the rule {rule.id} names the branch {branch}, which does not exist yet"
            for rule in policy.enabled_rules
            for branch in rule.branch_days
            if branch not in existing
        ]
    return notes


def find_runs(store: Store) -> Sequence[LifecycleRun]:
    """Lifecycle runs, newest first."""
    keeping_lifecycle(store)
    return [
        lifecycle_run for run in store.runs() if (lifecycle_run := LifecycleRun.of(run)) is not None
    ]
