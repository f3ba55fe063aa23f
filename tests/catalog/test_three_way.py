"""Merges against a plain dict, with ranges of about three rows."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reclaim.catalog import Repository, Side
from reclaim.catalog.content import range_writer, ranges
from reclaim.errors import MergeConflict
from tests.catalog.saving import ADDED, CHANGED, REMOVED, kinds, save, shown
from tests.support.soak import MORE

_numbers = count()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "TARGET_ROWS", 3)
    for module in (ranges, range_writer):
        monkeypatch.setattr(module, "MAX_ROWS", 6)
    monkeypatch.setattr(range_writer, "BATCH", 5)


PATHS = st.sampled_from([f"{a}/{b}" for a in "abé" for b in "01234567"])
TREES = st.dictionaries(PATHS, st.sampled_from("xyz"), max_size=20)
EDITS = st.dictionaries(PATHS, st.sampled_from([None, "x", "y", "z"]), max_size=8)


def applied(tree: Mapping[str, str], edits: Mapping[str, str | None]) -> dict[str, str]:
    return {path: text for path, text in {**tree, **edits}.items() if text}


def three_way(
    base: Mapping[str, str], ours: Mapping[str, str], theirs: Mapping[str, str]
) -> tuple[dict[str, str | None], list[str]]:
    """What a merge is, said plainly: the changes to ours, and the paths in conflict."""
    changes: dict[str, str | None] = {}
    conflicts = []
    for path in sorted({*base, *ours, *theirs}):
        was, mine, other = base.get(path), ours.get(path), theirs.get(path)
        if other in (was, mine):
            continue
        changes[path] = other
        if mine != was:
            conflicts.append(path)
    return changes, conflicts


@pytest.mark.usefixtures("small")
@settings(max_examples=12 * MORE)
@given(base=TREES, left=EDITS, right=EDITS, prefer=st.sampled_from([None, *Side]))
@example(
    base={"a/0": "x", "a/1": "x"},
    left={"a/0": None, "a/1": "y"},
    right={"a/0": "y", "a/1": None},
    prefer=Side.SOURCE,
)
def test_a_merge_is_what_a_dict_would_say(
    repo: Repository,
    base: dict[str, str],
    left: dict[str, str | None],
    right: dict[str, str | None],
    prefer: Side | None,
) -> None:
    number = next(_numbers)
    target = repo.create_branch(f"target{number}", "main")
    save(target, base)
    source = repo.create_branch(f"source{number}", target.name)
    ours, theirs = applied(base, left), applied(base, right)
    save(target, {path: text for path, text in left.items() if text or path in base})
    save(source, {path: text for path, text in right.items() if text or path in base})
    assert shown(target) == ours
    assert shown(source) == theirs
    assert kinds(repo.diff(target.name, source.name)) == {
        path: CHANGED if path in ours and path in theirs else ADDED if path in theirs else REMOVED
        for path in {*ours, *theirs}
        if ours.get(path) != theirs.get(path)
    }
    changes, conflicts = three_way(base, ours, theirs)
    if conflicts and prefer is None:
        with pytest.raises(MergeConflict) as error:
            target.merge(source.name)
        assert error.value.details["paths"] == conflicts
        assert shown(target) == ours
        return
    target.merge(source.name, prefer=prefer)
    if prefer is Side.TARGET:
        changes = {path: text for path, text in changes.items() if path not in conflicts}
    assert shown(target) == applied(ours, changes)
    assert repo.commit(f"{target.name}^2") == repo.commit(source.name)
