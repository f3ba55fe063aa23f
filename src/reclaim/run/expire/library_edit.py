"""Edits of a history that the store's own library makes.

A plan predicts what the library will do, so that it can be read; what it is asked for is all that
can be chosen. An apply predicts again, on the history as it stands, and asks the library only if
nothing goes by it that the plan did not name. What it did is seen by observing the store again:
where it did less, more stays; what it did beyond the plan, or beyond that prediction, is spared,
with all that it needs, until a later plan names it (decision 0037).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reclaim.errors import OutOfTime, PlanRefused, Refused
from reclaim.history import Edit, build
from reclaim.model import SnapshotId
from reclaim.policy import Policy, evaluate
from reclaim.run.expire.edit_counts import count_edit
from reclaim.run.expire.library_notes import LibraryNotes
from reclaim.run.expire.reviewed_edit import ROUNDS
from reclaim.run.plan.decide import Predict, find_cut_off, find_released
from reclaim.run.plan.plan_document import LibraryEdit
from reclaim.run.plan.plan_snapshots import PlannedSnapshots
from reclaim.run_record import EditCounts
from reclaim.stores.abilities import BY_REF, EditsHistory, Expiration, ExpiresItself, HeldExpiration
from reclaim.stores.base import Held, Store

SHOWN = 3
"""How many of several things a sentence names."""


def find_library_edit(
    store: Store, policy: Policy, *, delete_expired_tags: bool, delete_expired_branches: bool
) -> LibraryEdit | None:
    """The edit to ask the store's own library for; None if it has no part in it.

    Refused when it cannot be asked for some rule, and nobody else can edit the history.
    """
    if policy.empty or store.deleted:
        return None
    if not isinstance(store, ExpiresItself):
        if issubclass(store.handle, EditsHistory):
            return None
        raise Refused(
            f"{store.kind} stores have no history to expire, or none that Reclaim can edit",
            hint=f"leave the rules out; unreachable {store.noun}s are collected without any",
        )
    flags = {
        "delete_expired_tags": delete_expired_tags,
        "delete_expired_branches": delete_expired_branches,
    }
    asked = [*_rules_asked(policy), *(name for name, is_asked in flags.items() if is_asked)]
    expressible = store.expressible_rules()
    missing = [one for one in asked if one.split()[0] not in expressible and one not in expressible]
    if not missing:
        return LibraryEdit(**flags)
    if issubclass(store.handle, EditsHistory):
        return None
    raise Refused(
        f"the library of {store.kind} stores edits their history, and does not support "
        f"{', '.join(missing)}",
        hint=f"use only what it supports: {', '.join(sorted(expressible))}",
        rules=missing,
    )


def check_library(store: Store) -> None:
    """Refuse to go on with an edit by the store's own library where that is not installed."""
    if isinstance(store, ExpiresItself):
        store.check_library()


def _rules_asked(policy: Policy) -> Iterator[str]:
    """Each rule of a policy in its words, with the refs that it is for."""
    if policy.matches:
        yield BY_REF
    for match, rules in policy.matches:
        yield from (f"{rule} (for {match.glob})" for rule in rules.all_sentences())
    yield from policy.default.all_sentences()


def predicting(store: Store, expiration: Expiration) -> Predict:
    """A prediction of what the library of a store will make of a history."""
    assert isinstance(store, ExpiresItself)
    library = store
    return lambda history, kept: library.predict_edit(history, kept, expiration)


def edit_by_library(
    store: Store,
    held: Held,
    expiration: Expiration,
    planned: PlannedSnapshots,
    notes: LibraryNotes,
) -> EditCounts:
    """Let the library edit the history; returns the size of the edit, by what was predicted."""
    if not isinstance(store, ExpiresItself) or not isinstance(held, HeldExpiration):
        raise PlanRefused(
            f"the plan lets the library of {store.name} edit its history, which it cannot do here",
            hint="plan it again",
        )
    check_library(store)
    for _ in range(ROUNDS):
        seen = held.read_history()
        history = build(seen.snapshots, seen.refs)
        kept = evaluate(expiration.policy, history, now=expiration.now).kept
        edit = store.predict_edit(history, kept, expiration)
        released = find_released(history, edit)
        _check_reviewed(store, edit, released, planned)
        stays = history.numbers.keys() - set(edit.unreachable) | find_cut_off(history, kept, edit)
        notes.predicted(planned.dead, stays, released, edits=not edit.empty)
        if edit.empty:
            return EditCounts()
        if held.expire_by_library(expiration, seen):
            return count_edit(edit, released)
        notes.unchanged()
    raise OutOfTime(
        f"refs of {store.name} changed faster than its library could be asked to expire them",
        hint="nothing was changed; apply it again when fewer branches and tags are being made",
    )


def _check_reviewed(
    store: Store, edit: Edit, released: frozenset[SnapshotId], planned: PlannedSnapshots
) -> None:
    """Refuse to ask a library for what nobody has reviewed."""
    unplanned = sorted(released - planned.released)
    refs = [ref.name for ref in edit.delete_refs if ref not in planned.delete_refs]
    if unplanned or refs:
        raise PlanRefused(
            "the history has changed since it was planned, and the library of "
            f"{store.name} would remove from it what the plan does not name: "
            + _some([*refs, *unplanned]),
            hint="nothing was changed; plan it again",
        )


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"
