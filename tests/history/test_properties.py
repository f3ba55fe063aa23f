"""What holds for every edit of every history."""

from __future__ import annotations

import random
from operator import attrgetter
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reclaim.history import Edit, build, expire
from reclaim.model import History, Ref, RefKind, SnapshotId
from tests.history.graphs import histories, kept_in
from tests.history.trees import (
    ancestors,
    applied,
    chain,
    merge_base,
    oracle,
    parents_of,
)
from tests.support.soak import MORE

pytestmark = pytest.mark.fast

Case = tuple[History, frozenset[SnapshotId]]


@st.composite
def cases(draw: st.DrawFn, most: int = 14) -> Case:
    history = draw(histories(most))
    return history, cast(frozenset[SnapshotId], draw(kept_in(history)))


def members(case: Case) -> set[str]:
    """What must stay: kept or origin, and reached."""
    history, kept = case
    parents = parents_of(history)
    reached: set[str] = set().union(*(ancestors(parents, ref.snapshot) for ref in history.refs))
    return {one for one in reached if one in kept or not parents[one]}


def run(case: Case) -> tuple[Edit, History]:
    edit = expire(*case)
    return edit, applied(case[0], edit)  # build refuses circles


@given(cases())
@settings(max_examples=300 * MORE, deadline=None)
def test_it_is_what_the_definition_says(case: Case) -> None:
    assert expire(*case).reparent == oracle(*case)


@given(cases())
@settings(max_examples=100 * MORE, deadline=None)
def test_members_reach_each_other_as_before(case: Case) -> None:
    _, after = run(case)
    stay = members(case)
    before, later = parents_of(case[0]), parents_of(after)
    for one in stay:
        assert (
            ancestors(before, one) & stay == ancestors(later, one) == ancestors(later, one) & stay
        )


@given(cases())
@settings(max_examples=100 * MORE, deadline=None)
def test_the_first_parent_line_stays(case: Case) -> None:
    _, after = run(case)
    stay = members(case)
    for one in stay:
        line = [found for found in chain(parents_of(case[0]), one) if found in stay]
        assert chain(parents_of(after), one) == line


@given(cases())
@settings(max_examples=100 * MORE, deadline=None)
def test_tips_stay_and_expired_ones_with_their_ancestors(case: Case) -> None:
    edit, after = run(case)
    stay = members(case)
    before, later = parents_of(case[0]), parents_of(after)
    assert not {ref.snapshot for ref in after.refs} & set(edit.unreachable)
    assert edit.delete_refs == ()
    for ref in after.refs:
        assert (ref in edit.expired_tips) == (ref.snapshot not in stay)
    for one, parents in before.items():
        if one not in stay:
            assert later[one] == parents
            assert not any(one in new for new in edit.reparent.values())


@given(cases())
@settings(max_examples=100 * MORE, deadline=None)
def test_only_parents_and_marks_change(case: Case) -> None:
    edit, after = run(case)
    before = sorted(case[0].snapshots, key=attrgetter("id"))
    for one, later in zip(before, sorted(after.snapshots, key=attrgetter("id")), strict=True):
        assert (one.id, one.written_at) == (later.id, later.written_at)
        assert later.marked == (one.id in edit.reparent) == (one.parents != later.parents)


@given(cases())
@settings(max_examples=100 * MORE, deadline=None)
def test_the_second_time_changes_nothing(case: Case) -> None:
    edit, after = run(case)
    again = expire(after, case[1])
    assert again.empty
    assert set(again.unreachable) == set(edit.unreachable)


@given(histories())
@settings(max_examples=50 * MORE, deadline=None)
def test_nothing_is_edited_when_nothing_is_expired(history: History) -> None:
    edit = expire(history, history.numbers.keys())
    assert edit.empty
    assert edit.touched_bases == ()


@given(cases(), st.randoms())
@settings(max_examples=50 * MORE, deadline=None)
def test_the_order_in_which_things_come_does_not_matter(case: Case, chance: random.Random) -> None:
    history, kept = case
    snapshots, refs = list(history.snapshots), list(history.refs)
    chance.shuffle(snapshots)
    chance.shuffle(refs)
    assert expire(build(snapshots, refs), kept) == expire(history, kept)


@given(cases(), st.data())
@settings(max_examples=100 * MORE, deadline=None)
def test_ref_by_ref_ends_like_all_at_once(case: Case, data: st.DataObject) -> None:
    history, kept = case
    for ref in data.draw(st.permutations(history.refs)):
        edit = expire(history, kept, limit=[ref])
        reached = ancestors(parents_of(history), ref.snapshot)
        assert set(edit.reparent) <= reached
        history = applied(history, edit)
    assert parents_of(history) == parents_of(run(case)[1])


@given(cases())
@settings(max_examples=100 * MORE, deadline=None)
def test_unreachable_is_what_no_ref_reaches(case: Case) -> None:
    for delete in (False, True):
        edit = expire(*case, delete_expired_tags=delete, delete_expired_branches=delete)
        after = applied(case[0], edit)
        reached = [ancestors(parents_of(after), ref.snapshot) for ref in after.refs]
        assert set(edit.unreachable) == set(parents_of(after)) - set().union(*reached)


@given(cases(), st.sets(st.sampled_from(["main", "a", "b"])))
@settings(max_examples=100 * MORE, deadline=None)
def test_only_expired_refs_that_may_go_are_deleted(case: Case, busy: set[str]) -> None:
    edit = expire(*case, delete_expired_tags=True, delete_expired_branches=True, busy=busy)
    stay, parents = members(case), parents_of(case[0])

    def may_go(ref: Ref) -> bool:
        free = ref.kind is RefKind.TAG or (ref.name != "main" and ref.name not in busy)
        return free and ref.snapshot not in stay

    others = [ancestors(parents, ref.snapshot) for ref in case[0].refs if not may_go(ref)]
    lost = {one for one in case[1] if parents[one]}.difference(*others)
    for ref in case[0].refs:
        needed = lost & ancestors(parents, ref.snapshot)
        assert (ref in edit.delete_refs) == (may_go(ref) and not needed)


@given(cases())
@settings(max_examples=100 * MORE, deadline=None)
def test_what_is_kept_stays_in_reach(case: Case) -> None:
    edit = expire(*case, delete_expired_tags=True, delete_expired_branches=True)
    before = parents_of(case[0])
    reached = set().union(*(ancestors(before, ref.snapshot) for ref in case[0].refs))
    lost = reached.intersection(edit.unreachable)
    assert not [one for one in case[1] & lost if before[one]]


@given(cases())
@settings(max_examples=150 * MORE, deadline=None)
def test_touched_bases_are_those_that_neither_side_reaches(case: Case) -> None:
    edit, after = run(case)
    order = [str(one.id) for one in case[0].snapshots]
    main = next(ref.snapshot for ref in case[0].refs if ref.default)
    before, later = parents_of(case[0]), parents_of(after)
    expected = []
    for ref in case[0].refs:
        if ref.default or ref.kind is RefKind.TAG:
            continue
        base = merge_base(before, order, main, ref.snapshot)
        if base is None:
            continue
        if base not in ancestors(later, main) | ancestors(later, ref.snapshot):
            expected.append((ref.name, base, merge_base(later, order, main, ref.snapshot)))
    assert [(one.branch, one.before, one.after) for one in edit.touched_bases] == expected


@given(cases())
@settings(max_examples=100 * MORE, deadline=None)
def test_kept_bases_stay_the_bases(case: Case) -> None:
    history, kept = case
    branches = [ref for ref in history.refs if ref.kind is RefKind.BRANCH]
    edit = expire(history, kept, keep_bases_of=branches)
    assert edit.touched_bases == ()
    assert edit.reparent == oracle(history, kept | edit.kept_bases.keys())
    order = [str(one.id) for one in history.snapshots]
    main = next(ref.snapshot for ref in history.refs if ref.default)
    wanted: dict[str, list[str]] = {}
    for ref in sorted(branches, key=lambda ref: ref.name):
        base = merge_base(parents_of(history), order, main, ref.snapshot)
        if base is not None and not ref.default:
            wanted.setdefault(base, []).append(ref.name)
    assert edit.kept_bases == {base: tuple(names) for base, names in wanted.items()}


@given(cases(most=40))
@settings(max_examples=75 * MORE, deadline=None)
def test_larger_graphs_agree_as_well(case: Case) -> None:
    assert expire(*case).reparent == oracle(*case)
