"""History edits by the store's own library.

A plan predicts the edit, so that it can be reviewed; only the request can be chosen. An apply
predicts again from the current history, and calls the library only if the prediction removes no
unplanned snapshot. The result is read from the store afterwards: if the library removed less, more
stays; snapshots it removed beyond the plan or the prediction are spared, with all their
dependencies, until a later plan names them (decision 0037).
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
"""Number of examples in a message."""


def find_library_edit(
    store: Store, policy: Policy, *, delete_expired_tags: bool, delete_expired_branches: bool
) -> LibraryEdit | None:
    """Return the edit to request from the store's own library; None if the library is not involved.

    Refuse rules the library cannot express if nobody else can edit the history.
    """
    if policy.empty or store.deleted:
        return None
    if not isinstance(store, ExpiresItself):
        if issubclass(store.handle, EditsHistory):
            return None
        raise Refused(
            f"{store.kind} stores have no history to expire, or none that Reclaim can edit",
            hint=f"run without rules; unreachable {store.noun}s are collected without them",
        )
    flags = {
        "delete_expired_tags": delete_expired_tags,
        "delete_expired_branches": delete_expired_branches,
    }
    requested = [*_rules_as_text(policy), *(name for name, enabled in flags.items() if enabled)]
    expressible = store.expressible_rules()
    missing = [
        rule for rule in requested if rule.split()[0] not in expressible and rule not in expressible
    ]
    if not missing:
        return LibraryEdit(**flags)
    if issubclass(store.handle, EditsHistory):
        return None
    raise Refused(
        f"the library of {store.kind} stores edits the history, and does not support "
        f"{', '.join(missing)}",
        hint=f"use only supported rules: {', '.join(sorted(expressible))}",
        rules=missing,
    )


def check_library(store: Store) -> None:
    """Refuse to continue if the store's own library is not installed."""
    if isinstance(store, ExpiresItself):
        store.check_library()


def _rules_as_text(policy: Policy) -> Iterator[str]:
    """Rules of a policy as text, with their refs."""
    if policy.matches:
        yield BY_REF
    for match, rules in policy.matches:
        yield from (f"{rule} (for {match.glob})" for rule in rules.all_sentences())
    yield from policy.default.all_sentences()


def predicting(store: Store, expiration: Expiration) -> Predict:
    """Return a function that predicts the library's edit of a history."""
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
    """Let the library edit the history; return the predicted size of the edit."""
    if not isinstance(store, ExpiresItself) or not isinstance(held, HeldExpiration):
        raise PlanRefused(
            f"the plan needs the library of {store.name} to edit its history, which is not "
            "supported here",
            hint="make a new plan",
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
        f"refs of {store.name} changed faster than its library could expire them",
        hint="nothing was changed; apply it again when fewer branches and tags are being made",
    )


def _check_reviewed(
    store: Store, edit: Edit, released: frozenset[SnapshotId], planned: PlannedSnapshots
) -> None:
    """Refuse to call a library for an unreviewed edit."""
    unplanned = sorted(released - planned.released)
    refs = [ref.name for ref in edit.delete_refs if ref not in planned.delete_refs]
    if unplanned or refs:
        raise PlanRefused(
            f"the history has changed since the plan, and the library of {store.name} would "
            f"remove unplanned refs or {store.noun}s: " + _some([*refs, *unplanned]),
            hint="nothing was changed; make a new plan",
        )


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:SHOWN])
    return shown if len(names) <= SHOWN else f"{shown} and {len(names) - SHOWN} more"
