"""A reviewed edit on the history that it was planned from, and on one with more refs."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from reclaim.history import build, expire
from reclaim.model import History, Lease, Ref, RefKind, Snapshot
from reclaim.policy import Policy, evaluate
from reclaim.run.expire.reviewed_edit import ReviewedEdit
from tests.history.graphs import histories
from tests.history.trees import ancestors, applied, parents_of
from tests.policy.test_properties import NOW, policies


@dataclass(frozen=True)
class Seen:
    snapshots: tuple[Snapshot, ...]
    refs: tuple[Ref, ...]
    busy: frozenset[str] = frozenset()
    returned: tuple[Lease, ...] = ()
    editor: str | None = None

    @property
    def count(self) -> int:
        return len(self.snapshots)


def review(policy: Policy, history: History, *, delete: bool) -> tuple[ReviewedEdit, object]:
    decisions = evaluate(policy, history, now=NOW)
    edit = expire(
        history,
        decisions.kept,
        delete_expired_tags=delete,
        delete_expired_branches=delete,
        keep_bases_of=decisions.keep_bases_of,
    )
    kept = decisions.with_bases(edit.kept_bases).kept
    released = frozenset(edit.unreachable)
    expired = history.numbers.keys() - kept
    return ReviewedEdit(policy, NOW, expired, released, edit.delete_refs), edit


@given(histories(), policies(), st.booleans())
def test_where_nothing_changed_it_is_the_edit_that_was_planned(
    history: History, policy: Policy, delete: bool
) -> None:
    reviewed, edit = review(policy, history, delete=delete)
    assert reviewed.decide(Seen(history.snapshots, history.refs)).edit == edit


@given(histories(), policies(), st.booleans(), st.data())
def test_a_new_ref_keeps_what_its_rules_keep(
    history: History, policy: Policy, delete: bool, data: st.DataObject
) -> None:
    """And nothing gets out of reach that the plan, or the policy now, leaves in reach."""
    reviewed, _ = review(policy, history, delete=delete)
    at = data.draw(st.sampled_from(history.snapshots)).id
    ref = Ref(data.draw(st.sampled_from(["new", "v9"])), RefKind.TAG, at)
    later = build(history.snapshots, (*history.refs, ref))
    edit = reviewed.decide(Seen(later.snapshots, later.refs)).edit
    kept = evaluate(policy, later, now=NOW).kept
    before, parents = parents_of(later), parents_of(applied(later, edit))
    assert kept & ancestors(before, at) <= ancestors(parents, at)
    assert ref not in edit.delete_refs
    stay = [one.snapshot for one in later.refs if one not in edit.delete_refs]
    reached = {one for tip in stay for one in ancestors(before, tip)}
    assert reached - {one for tip in stay for one in ancestors(parents, tip)} <= reviewed.released
