"""Edits of small histories, one rule each."""

from __future__ import annotations

from itertools import permutations, product

import pytest

from reclaim.errors import Corrupt
from reclaim.history import TouchedBase, build, expire
from reclaim.model import Ref, RefKind, SnapshotId
from tests.history.trees import branch, snapshot, tag, tree

pytestmark = pytest.mark.fast


def kept(names: str) -> frozenset[SnapshotId]:
    return frozenset(SnapshotId(name) for name in names.split())


# what it shows | history | tip | kept besides origins | edited snapshot, new parents
TABLE = """
a line                          | o: ; x: o; k: x               | k | k       | k: o
two expired in a row            | o: ; x: o; y: x; k: y         | k | k       | k: o
kept parents stay               | o: ; j: o; k: j               | k | j k     |
in place and in order           | o: ; p: ; q: ; x: o p; k: q x | k | k       | k: q o p
depth first                     | o: ; p: ; q: ; x: o; y: x p; k: y q | k | k | k: o p q
no duplicates                   | o: ; x: o; y: o; k: x y       | k | k       | k: o
ancestors of others go          | o: ; j: o; x: j; y: o; k: x y | k | j k     | k: j
but never the first             | o: ; j: o; x: o; y: j; k: x y | k | j k     | k: o j
a kept parent can go too        | o: ; b: o; c: b; x: c; a: ; k: a b x | k | a b c k | k: a c
an ancestor of a kept parent    | o: ; j: o; y: o; k: j y       | k | j k     | k: j
found through a third           | o: ; i: o; j: i; x: i; y: j; a: ; k: a x y | k | a i j k | k: a j
ancestor by second parent only  | o: ; p: ; i: p; j: o i; x: i; y: j; k: y x | k | i j k | k: j
first on the right | o: ; i: o; j: i; x: i; y: j; z: x y; p: ; w: p z; k: w | k | i j k | k: p j
an expired tip                  | o: ; x: o; y: x               | y |         |
"""


@pytest.mark.parametrize(
    "row", TABLE.strip().splitlines(), ids=lambda row: row.split("|")[0].strip()
)
def test_edits(row: str) -> None:
    _, history, tip, stays, expected = (cell.strip() for cell in row.split("|"))
    edit = expire(tree(history.replace(";", "\n"), branch("main", tip)), kept(stays))
    found = "; ".join(f"{one}: {' '.join(new)}" for one, new in edit.reparent.items())
    assert found == expected


FORK = """
    o:
    base: o
    m1: base
    f1: base
    m2: m1
    f2: f1
"""
REFS = (branch("main", "m2"), branch("feature", "f2"))


def test_a_base_that_goes_is_named() -> None:
    edit = expire(tree(FORK, *REFS), kept("m2 m1 f2 f1"))
    assert edit.touched_bases == (TouchedBase("feature", SnapshotId("base"), SnapshotId("o")),)


def test_a_branch_that_is_deleted_has_no_base_to_touch() -> None:
    history = tree(FORK, *REFS)
    edit = expire(history, kept("m2"), delete_expired_branches=True)
    assert [ref.name for ref in edit.delete_refs] == ["feature"]
    assert edit.touched_bases == ()


def test_a_base_behind_an_expired_tip_stays() -> None:
    assert expire(tree(FORK, *REFS), kept("m2")).touched_bases == ()


def test_only_a_branch_can_be_the_default_one() -> None:
    odd = Ref("main", RefKind.TAG, SnapshotId("m2"), default=True)
    edit = expire(tree(FORK, odd, REFS[1]), kept("m2 f2"), keep_bases_of=REFS)
    assert edit.reparent
    assert edit.touched_bases == ()
    assert edit.kept_bases == {}


def test_a_base_can_be_kept_and_says_for_whom() -> None:
    edit = expire(tree(FORK, *REFS), kept("m2 f2"), keep_bases_of=REFS)
    assert edit.kept_bases == {"base": ("feature",)}
    assert edit.reparent == {"m2": ("base",), "f2": ("base",)}
    assert edit.touched_bases == ()


def test_an_edit_below_the_base_touches_nothing() -> None:
    history = tree("o:\n x: o\n base: x\n m: base\n f: base", branch("main", "m"), branch("b", "f"))
    edit = expire(history, kept("base m f"))
    assert edit.reparent == {"base": ("o",)}
    assert edit.touched_bases == ()


def test_a_branch_that_is_deleted_keeps_no_base() -> None:
    history = tree(FORK, *REFS, branch("at-base", "base"))
    edit = expire(history, kept("m2 m1"), delete_expired_branches=True, keep_bases_of=history.refs)
    assert [ref.name for ref in edit.delete_refs] == ["at-base", "feature"]
    assert edit.kept_bases == {}
    busy = expire(
        history,
        kept("m2 m1"),
        delete_expired_branches=True,
        busy={"feature"},
        keep_bases_of=history.refs,
    )
    # The base of the one that stays is where the other points, which so stays as well.
    assert busy.delete_refs == ()
    assert busy.kept_bases == {"base": ("at-base", "feature")}


def test_the_default_branch_and_busy_ones_are_never_deleted() -> None:
    history = tree("o:\n x: o", branch("main", "x"), branch("b", "x"), branch("c", "x"))
    edit = expire(history, kept(""), delete_expired_branches=True, busy={"b"})
    assert [ref.name for ref in edit.delete_refs] == ["c"]
    assert edit.unreachable == ()


def test_tags_and_branches_are_deleted_on_their_own_request() -> None:
    history = tree("o:\n x: o", branch("main", "o"), branch("b", "x"), tag("t", "x"))
    only_tags = expire(history, kept(""), delete_expired_tags=True)
    assert [ref.name for ref in only_tags.delete_refs] == ["t"]
    assert [ref.name for ref in only_tags.expired_tips] == ["b", "t"]
    assert only_tags.unreachable == ()
    only_branches = expire(history, kept(""), delete_expired_branches=True)
    assert [ref.name for ref in only_branches.delete_refs] == ["b"]


@pytest.mark.parametrize(("at", "deleted"), [("t", []), ("young", ["v1", "v2"])])
def test_a_tag_above_what_is_kept_stays(at: str, deleted: list[str]) -> None:
    """Clocks ran backwards: the tags are at what is old, and below it is something young."""
    history = tree(
        "o:\n main: o\n young: o\n t: young",
        branch("main", "main"),
        branch("other", at),
        tag("v1", "t"),
        tag("v2", "t"),
    )
    stays = kept("main young")
    edit = expire(history, stays, delete_expired_tags=True, delete_expired_branches=True)
    assert [ref.name for ref in edit.delete_refs] == deleted
    assert not {"young"}.intersection(edit.unreachable)


def test_an_origin_alone_keeps_no_tag() -> None:
    history = tree("o:\n main: o\n p:\n t: p", branch("main", "main"), tag("v1", "t"))
    edit = expire(history, kept("o main p"), delete_expired_tags=True)
    assert [ref.name for ref in edit.delete_refs] == ["v1"]


def test_a_limit_hides_no_expired_tip() -> None:
    history = tree("o:\n x: o\n y: o", branch("main", "y"), branch("b", "x"))
    edit = expire(history, kept("y"), limit=[history.refs[0]])
    assert [ref.name for ref in edit.expired_tips] == ["b"]


def test_what_no_ref_reaches_is_not_edited() -> None:
    edit = expire(tree("o:\n x: o\n k: x", branch("main", "o")), kept("k"))
    assert edit.reparent == {}
    assert edit.unreachable == ("k", "x")


def test_equal_times_stand_by_id_and_refs_by_rank() -> None:
    snapshots = [snapshot(name, "", 0) for name in "abc"]
    refs = [branch("main", "a"), branch("b", "b"), branch("c", "c"), tag("a", "a")]
    for names, heads in product(permutations(snapshots), permutations(refs)):
        history = build(names, heads)
        assert history.snapshots == tuple(snapshots)
        assert history.refs == tuple(refs)


@pytest.mark.parametrize(
    ("snapshots", "at", "message"),
    [
        ([("a", "", 0), ("b", "z", 1)], "b", "missing a snapshot: z"),
        ([("a", "", 0)], "z", "the branch main points to z"),
        ([("a", "b", 1), ("b", "a", 2), ("c", "b", 3)], "c", "b is part of a cycle of parents"),
        ([("a", "a", 1)], "a", "a is part of a cycle of parents"),
        ([("a", "", 0), ("a", "", 1)], "a", "two snapshots with the same id"),
    ],
)
def test_a_history_with_holes_is_refused(
    snapshots: list[tuple[str, str, int]], at: str, message: str
) -> None:
    with pytest.raises(Corrupt, match=message):
        build([snapshot(*row) for row in snapshots], [branch("main", at)])
