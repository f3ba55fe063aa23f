"""Groups by folder: bounded in number, exact in what they add up to."""

from __future__ import annotations

from itertools import product

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reclaim.engine.tasks import grouping
from reclaim.engine.tasks.grouping import GroupSums, Places, folders_of, limit_folders, with_parents

KEY = ("data", "old", "main")


def rows(*paths: str | None, branch: str = "main", size: int = 1) -> pa.Table:
    count = len(paths)
    return pa.table(
        {
            "kind": ["data"] * count,
            "reason": ["old"] * count,
            "belongs_to": [branch] * count,
            "folder": folders_of(pa.chunked_array([pa.array(paths, pa.string())])),
            "age": ["over 7 d"] * count,
            "size": pa.array([size] * count, pa.int64()),
        }
    )


def of(*paths: str | None, branch: str = "main", size: int = 1) -> GroupSums:
    places = Places()
    places.add_rows(rows(*paths, branch=branch, size=size))
    return places.tally


def folders(tally: GroupSums) -> dict[str, int]:
    found: dict[str, int] = {}
    for (_, _, _, folder, _), (objects, _) in tally.items():
        found[folder] = found.get(folder, 0) + objects
    return found


def test_the_folder_of_a_path() -> None:
    paths = ["a/b/c.txt", "a.txt", None, "x/", "1/2/3/4/5/6/7/8/9/10", "/a"]
    found = folders_of(pa.chunked_array([pa.array(paths, pa.string())])).to_pylist()
    assert found == ["a/b/", "/", "", "x/", "1/2/3/4/5/6/7/8/", "/"]


def test_what_a_folder_is_in() -> None:
    line = [("main", "a/b/"), ("main", "a/"), ("main", "/"), ("(others)", "/")]
    assert list(with_parents(("main", "a/b/"))) == line
    assert list(with_parents(("main", ""))) == [("main", ""), ("(others)", "")]


def test_few_folders_are_all_told_apart() -> None:
    tally = of("a/b/1", "a/b/2", "a/c/1", "top", None)
    assert folders(limit_folders(tally)) == {"a/b/": 2, "a/c/": 1, "/": 1, "": 1}


def test_days_become_months() -> None:
    days = [f"logs/{m:02}/{d:02}/x" for m, d in product(range(40), range(30))]
    found = folders(limit_folders(of(*days)))
    assert found == {f"logs/{month:02}/": 30 for month in range(40)}


def test_of_many_neighbours_the_largest_stay() -> None:
    places = Places()
    for number in range(200):
        places.add_rows(rows(f"{number:03}/x", size=number))
    found = folders(limit_folders(places.tally))
    largest = {f"{number:03}/": 1 for number in range(151, 200)}
    assert found == largest | {"/": 151}


def test_many_branches_are_counted_together() -> None:
    places = Places()
    for number in range(200):
        places.add_rows(rows("a/x", branch=f"b{number:03}", size=number))
    found = limit_folders(places.tally)
    branches = {branch for _, _, branch, _, _ in found}
    assert len({(branch, folder) for _, _, branch, folder, _ in found}) <= grouping.SHOWN
    assert "(others)" in branches
    assert "b199" in branches


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping, "COUNTED", 5)
    monkeypatch.setattr(grouping, "TOGETHER", 12)
    monkeypatch.setattr(grouping, "SHOWN", 4)


PATHS = st.lists(st.sampled_from("abc"), min_size=1, max_size=6).map("/".join)
BATCHES = st.lists(st.lists(PATHS, max_size=30), min_size=1, max_size=5)


@pytest.mark.usefixtures("narrow")
def test_no_number_is_a_part() -> None:
    """In whatever tasks objects are counted, a folder's number is that of all that is below it,
    but for what is told apart below."""

    @given(BATCHES)
    def check(batches: list[list[str]]) -> None:
        whole = Places()
        for batch in batches:
            part = Places()
            part.add_rows(rows(*batch))
            assert len({one[2:4] for one in part.tally}) <= 5
            assert all(where in {one[2:4] for one in part.tally} for _, where in part.listed())
            whole.add(part.tally, part.listed())
        assert len(whole.tally) <= 5
        for tally in (whole.tally, limit_folders(whole.tally, 4)):
            found = folders(tally)
            expected = dict.fromkeys(found, 0)
            for path in (path for batch in batches for path in batch):
                [folder] = folders_of(pa.chunked_array([[path]])).to_pylist()
                line = [one for _, one in with_parents(("main", folder))]
                expected[next(one for one in line if one in found)] += 1
            assert found == expected
        assert len(limit_folders(whole.tally, 4)) <= 4

    check()
