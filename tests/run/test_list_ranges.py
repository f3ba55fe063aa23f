"""Key ranges that are listed several at a time: all of them, and errors as they are."""

from __future__ import annotations

from itertools import islice

import pytest

from reclaim.engine.tasks.listing import list_ranges
from reclaim.errors import Unavailable
from reclaim.storage import KeyRange, ObjectStorage
from reclaim.testing.faults import FaultyStorage

RANGES = [KeyRange(f"folder-{number}") for number in range(20)]


@pytest.fixture
def storage() -> ObjectStorage:
    made = ObjectStorage.open("memory://")
    for keys in RANGES:
        for number in range(3):
            made.put(f"{keys.prefix}/{number}", b"x")
    return made


def test_every_object_of_every_range_is_listed_once(storage: ObjectStorage) -> None:
    assert storage.at_once > 1
    listed = [
        address
        for batch in list_ranges(storage, RANGES)
        for address in batch.column("address").to_pylist()
    ]
    assert sorted(listed) == sorted(one.address for one in storage.list())
    assert list(list_ranges(storage, [])) == []


def test_an_error_of_one_range_is_the_error(storage: ObjectStorage) -> None:
    def fault(call: str, address: str) -> None:
        if "folder-7" in address:
            raise Unavailable(f"{call} {address}")

    with pytest.raises(Unavailable, match="folder-7"):
        list(list_ranges(FaultyStorage(storage, fault), RANGES))


def test_a_listing_can_be_given_up(storage: ObjectStorage) -> None:
    listing = list_ranges(storage, RANGES * 20)
    assert len(list(islice(listing, 3))) == 3
    listing.close()  # type: ignore[attr-defined]
