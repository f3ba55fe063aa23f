"""Key ranges: however a folder is cut, each of its keys is listed exactly once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reclaim.errors import Refused
from reclaim.model import StoredObject
from reclaim.storage import KeyRange, ObjectStorage, Storage, spread
from reclaim.storage.bounded import Bounded
from reclaim.storage.key_range import shares

pytestmark = pytest.mark.fast

HEX = "0123456789abcdef"
NAMES = st.text("ab-0/é", min_size=1, max_size=4).filter(
    lambda name: all(part not in ("", ".", "..") for part in name.split("/"))
)
EDGES = st.lists(NAMES, max_size=4, unique=True)


def cut(folder: str, edges: Sequence[str]) -> list[KeyRange]:
    """A folder cut at some places."""
    keys = [f"{folder}/{edge}" for edge in sorted(edges)]
    return [
        KeyRange(folder, after, until)
        for after, until in zip(["", *keys], [*keys, ""], strict=True)
    ]


def listed(storage: Storage, ranges: Sequence[KeyRange]) -> Counter[str]:
    """What both kinds of listings give, which must be the same."""
    rows = Counter[str]()
    objects = Counter[str]()
    for keys in ranges:
        for batch in storage.batches(keys.prefix, after=keys.after, until=keys.until):
            rows.update(batch.column("address").to_pylist())
        found = storage.list(keys.prefix, after=keys.after, until=keys.until)
        objects.update(stored.address for stored in found)
    assert rows == objects
    return rows


def without_nesting(names: set[str]) -> set[str]:
    """Names of which none is a folder of another, as a disk wants it."""
    return {name for name in names if not any(other.startswith(f"{name}/") for other in names)}


@settings(max_examples=60)
@given(names=st.sets(NAMES, max_size=12), edges=EDGES)
def test_any_cut_lists_each_key_once(
    tmp_path_factory: pytest.TempPathFactory, names: set[str], edges: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("keys")
    keys = {f"f/{name}" for name in without_nesting(names)}
    for storage in (ObjectStorage.open("memory://"), ObjectStorage.open(folder.as_uri())):
        for key in (*keys, "e/before", "g/after", "f-/beside"):
            storage.put(key, b"")
        assert listed(storage, cut("f", edges)) == Counter(keys)


@pytest.mark.parametrize("pieces", [1, 2, 7, 16, 100])
def test_a_spread_folder_has_each_key_once(pieces: int) -> None:
    storage = ObjectStorage.open("memory://")
    ranges = list(spread("f", HEX, pieces))
    # The boundaries themselves, and names that begin with none of the letters.
    keys = {keys.until for keys in ranges if keys.until} | {"f/!", "f/~", "f/Z", "f/00", "f/ff"}
    for key in keys:
        storage.put(key, b"")
    assert len(ranges) == pieces
    assert listed(storage, ranges) == Counter(keys)


def test_a_key_at_a_boundary_belongs_to_the_range_that_ends_there() -> None:
    storage = ObjectStorage.open("memory://")
    storage.put("f/8", b"")
    first, second = cut("f", ["8"])
    assert listed(storage, [first]) == Counter(["f/8"])
    assert not listed(storage, [second])


@pytest.mark.parametrize("edges", [["a", "c"], ["b", "b0"], ["ba"], ["b/c"]])
def test_a_bucket_is_cut_like_any_other(bucket: str, edges: list[str]) -> None:
    """SeaweedFS lists folder by folder, not by whole keys."""
    storage = ObjectStorage.open(f"{bucket}/{uuid4().hex}")
    keys = {"f/a", "f/b-x", "f/b/c", "f/b/d", "f/b0", "f/ba", "f/c", "f/d/e"}
    for key in (*keys, "e/x", "g/x"):
        storage.put(key, b"")
    assert listed(storage, cut("f", edges)) == Counter(keys)


def test_a_flat_folder_of_a_bucket_is_cut_at_every_page(bucket: str) -> None:
    storage = ObjectStorage.open(f"{bucket}/{uuid4().hex}")
    keys = {f"f/{uuid4().hex}" for _ in range(40)}
    for key in keys:
        storage.put(key, b"")
    assert listed(storage, list(spread("f", HEX, 8))) == Counter(keys)


def test_on_a_disk_only_names_are_looked_at_outside_the_range(tmp_path: Path) -> None:
    """What is refused in one range does not stop the others, and is refused once."""
    storage = ObjectStorage.open(tmp_path.as_uri())
    storage.put("f/a", b"")
    (tmp_path / "f" / "x").symlink_to("a")
    first, second = cut("f", ["m"])
    assert listed(storage, [first]) == Counter(["f/a"])
    with pytest.raises(Refused, match="is a link"):
        listed(storage, [second])


def test_a_storage_that_lists_in_no_order_is_refused() -> None:
    def stored(*keys: str) -> Iterator[StoredObject]:
        head = ObjectStorage.open("memory://")
        for key in keys:
            head.put(key, b"")
            yield head.head(key)

    keys = KeyRange("f", "", "f/m")
    with pytest.raises(Refused, match="in order"):
        list(Bounded(keys).until_ended(stored("f/b", "f/a")))
    # One folder may stand where its own name stands, or where its keys would.
    assert len(list(Bounded(keys).until_ended(stored("f/b/c", "f/b-x", "f/c", "f/z")))) == 3


@given(
    pieces=st.lists(st.integers(1, 40), min_size=1, max_size=5),
    tasks=st.integers(1, 12),
    most=st.none() | st.integers(1, 12),
)
def test_shares_have_every_range_once_and_evenly(
    pieces: list[int], tasks: int, most: int | None
) -> None:
    ranges = [
        keys for number, count in enumerate(pieces) for keys in spread(f"f{number}", HEX, count)
    ]
    dealt = shares(ranges, tasks, pieces=most)
    assert len(dealt) <= tasks
    for number in range(len(pieces)):
        folder = [keys for share in dealt for keys in share if keys.prefix == f"f{number}"]
        ordered = sorted(folder, key=lambda keys: keys.after)
        edges = [(keys.after, keys.until) for keys in ordered]
        assert edges[0][0] == ""
        assert edges[-1][1] == ""
        assert all(first[1] == second[0] for first, second in pairwise(edges))
    sizes = [len(share) for share in dealt]
    assert max(sizes) - min(sizes) <= 1
