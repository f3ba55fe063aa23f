"""Reading ahead: in order, no more at once than a storage takes, and no more than fits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from reclaim.errors import Corrupt
from reclaim.storage import ObjectStorage, Storage
from reclaim.storage import read_ahead as ahead
from reclaim.storage.read_ahead import read_ahead
from reclaim.testing import StorageWrapper

AT_ONCE = 4


@pytest.fixture
def disk(tmp_path: Path) -> Storage:
    return ObjectStorage.open(tmp_path.as_uri())


@pytest.fixture
def bucket(disk: Storage) -> Storage:
    """A storage that takes several requests at once."""
    wrapped = StorageWrapper(disk)
    wrapped.reads_at_once = AT_ONCE
    return wrapped


class Reads:
    """Counts what is being read; a read goes on when as many wait as may, or no more come."""

    def __init__(self, together: int) -> None:
        self._barrier = threading.Barrier(together)
        self._lock = threading.Lock()
        self.now = self.most = self.all = 0

    def __call__(self, item: int) -> int:
        with self._lock:
            self.now += 1
            self.all += 1
            self.most = max(self.most, self.now)
        self._barrier.wait(timeout=60)
        with self._lock:
            self.now -= 1
        return item * 10


def test_as_many_at_once_as_a_storage_takes(bucket: Storage) -> None:
    reads = Reads(AT_ONCE)
    assert list(read_ahead(bucket, reads, range(20))) == [item * 10 for item in range(20)]
    assert reads.most == AT_ONCE


def test_one_after_the_other_on_a_disk(disk: Storage) -> None:
    reads = Reads(1)
    assert list(read_ahead(disk, reads, range(5))) == [0, 10, 20, 30, 40]
    assert reads.most == 1


def test_large_ones_are_not_read_ahead(bucket: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two fit, and one that is larger than all that fits is read alone."""
    monkeypatch.setattr(ahead, "ENTRIES_AHEAD", 200)
    sizes: Callable[[int], int] = lambda item: 100 if item else 1_000  # noqa: E731
    begun: list[int] = []

    def read(item: int) -> int:
        begun.append(item)
        return item

    found = read_ahead(bucket, read, [1, 2, 3, 0, 4], entries=sizes)
    assert next(found) == 1
    assert set(begun) <= {1, 2, 3}
    assert list(found) == [2, 3, 0, 4]


def test_a_failure_comes_in_its_turn_and_ends_all(bucket: Storage) -> None:
    begun: list[int] = []

    def read(item: int) -> int:
        begun.append(item)
        if item == 2:
            raise Corrupt("it is damaged")
        return item

    found = read_ahead(bucket, read, range(100))
    assert [next(found), next(found)] == [0, 1]
    with pytest.raises(Corrupt, match="damaged"):
        next(found)
    assert len(begun) <= 2 + 2 * AT_ONCE + 1
