"""The folders of many addresses at once are those of each by itself."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reclaim.stores.catalog.folders import folders_of

FOLDERS = st.sampled_from(["branches/main/p1", "branches/main/p2", "branches/ä/p1", "a", "a/b", ""])
NAMES = st.sampled_from(["n1", "n2", "é", "/", "x/", "", "longer"])


@given(st.lists(st.tuples(FOLDERS, NAMES), max_size=8), st.integers(0, 2))
def test_folders(parts: list[tuple[str, str]], skipped: int) -> None:
    addresses = [f"{folder}/{name}" for folder, name in parts]
    array = pa.array(addresses, pa.string()).slice(min(skipped, len(addresses)))
    found = folders_of(array)
    if found is not None:
        expected = [address[: address.rindex("/") + 1] for address in array.to_pylist()]
        assert found.to_pylist() == expected
        assert len(set(found.dictionary.to_pylist())) == len(found.dictionary)


@pytest.mark.parametrize(
    "addresses",
    [
        ["main/p1/n1", "main/p2/n2", "main/p1/n3"],
        ["main/p1/n1", "work-1/p1/n2"],
        ["ä/p1/n1", "ä/p2/n2"],
        [],
    ],
)
def test_names_of_one_length_are_cut_at_one_place(addresses: list[str]) -> None:
    found = folders_of(pa.array(addresses, pa.string()))
    assert found is not None
    assert found.to_pylist() == [address[: address.rindex("/") + 1] for address in addresses]


@pytest.mark.parametrize("addresses", [["p1/n1", "p1/n22"], ["p1/", "p2/"], ["p1/n1", "p1//1"]])
def test_others_are_not(addresses: list[str]) -> None:
    assert folders_of(pa.array(addresses, pa.string())) is None
