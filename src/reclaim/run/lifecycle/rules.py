"""The lifecycle rules that are stored with a store, and the runs that were made by them."""

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
    """A run that deleted by lifecycle rules, as its record tells."""

    run: RunRecord
    today: str
    """The day that the dates of its rules were counted from."""
    rules: tuple[str, ...]
    """The ids of the rules that were enabled."""
    mode: str
    held: int
    """Addresses that a rule matched and that something held."""

    @classmethod
    def of(cls, run: RunRecord) -> LifecycleRun | None:
        """None if it was made by no lifecycle rules."""
        noted = run.lifecycle
        if noted is None:
            return None
        return cls(run, noted.today, noted.rules, noted.mode, noted.held)


def keeping_lifecycle(store: Store) -> TakesReferenced:
    """A store that has lifecycle rules; any other is refused."""
    if not isinstance(store, TakesReferenced):
        raise Refused(
            f"{store.kind} stores have no lifecycle rules",
            hint="they are for repositories of a catalog",
        )
    return store


def find_lifecycle(store: Store) -> StoredLifecycle:
    """The rules that are stored with a store; none, or some that cannot be read, is an error."""
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
    """Whether at least one of the lifecycle rules that are stored with a store is enabled."""
    return has_rules(store) and bool(find_lifecycle(store).policy.enabled_rules)


def nothing_stored(store: Store) -> NotFound:
    """The error for a store without lifecycle rules."""
    return NotFound(
        f"no lifecycle rules are stored with {store.name}",
        hint="store some with `reclaim lifecycle set`; without rules nothing expires",
    )


def store_lifecycle(
    store: Store, text: str, policy: LifecyclePolicy, *, set_by: str
) -> StoredLifecycle:
    """Store rules with a store, in place of those that there are."""
    keeping = keeping_lifecycle(store)
    stored = StoredLifecycle(policy, text, store.clock.now(), set_by)
    keeping.store_lifecycle(encode_lifecycle(stored))
    return stored


def find_notes(store: Store, policy: LifecyclePolicy) -> Sequence[str]:
    """Notes on doubtful rules: those of branches that are not there, and those that are off."""
    notes = [
        f"the rule {rule.id} is disabled and does nothing"
        for rule in policy.rules
        if not rule.enabled
    ]
    if isinstance(store, ShowsHistory):
        refs = store.current_history().refs
        there = {ref.name for ref in refs if ref.kind is RefKind.BRANCH}
        notes += [
            f"the rule {rule.id} names the branch {branch}, which is not there yet"
            for rule in policy.enabled_rules
            for branch in rule.branch_days
            if branch not in there
        ]
    return notes


def find_runs(store: Store) -> Sequence[LifecycleRun]:
    """The runs that were made by lifecycle rules, the newest first."""
    keeping_lifecycle(store)
    return [found for run in store.runs() if (found := LifecycleRun.of(run)) is not None]
