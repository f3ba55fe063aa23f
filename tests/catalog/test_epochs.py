"""Epochs: what leaves one, several writers at once, and databases that are not the newest."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete

from reclaim.catalog import Branch, Catalog, Repository, addresses
from reclaim.catalog.collection.clones import copies
from reclaim.catalog.collection.clones.epochs import LOOKS, Epochs, check_epoch
from reclaim.catalog.database.schema import epoch_writers
from reclaim.errors import MergeConflict, StorageAhead, StorageUnavailable
from reclaim.storage import Payload, Storage
from reclaim.testing import FakeClock, StorageWrapper
from tests.catalog import raw
from tests.conftest import Backend


def epochs_left(repo: Repository) -> list[int]:
    return [int(a.rsplit("/", 1)[1]) for a in sorted(raw.objects(repo)) if "/epoch/" in a]


def test_an_epoch_is_left_by_opening_and_closing(backend: Backend, repo: Repository) -> None:
    assert epochs_left(repo) == []
    for expected in (2, 4, 6):
        with backend.open() as other:
            other.repository("sales").branch("main").put("a", b"x")
            assert epochs_left(repo) == [expected - 1]
        assert epochs_left(repo) == [expected]


@pytest.mark.parametrize("name", [".DS_Store", ".nfs000001", "12.part", "\u00b2"])
def test_a_stray_file_among_the_epochs_is_left_alone(backend: Backend, name: str) -> None:
    repo = backend.init().create_repository("sales")
    stray = addresses.epoch(repo.uid, 1).rpartition("/")[0] + "/" + name
    repo._workspace.storage.put(stray, b"\xff")
    for _ in range(2):
        with backend.open() as other:
            other.repository("sales").branch("main").put("a", b"x")
            copies.check_epoch(other.workspace("sales"))
    assert repo._workspace.storage.get(stray) == b"\xff"


def test_an_epoch_is_left_by_each_commit_merge_and_revert(repo: Repository, main: Branch) -> None:
    main.put("a", b"x")
    assert epochs_left(repo) == [1]
    main.commit("one")
    assert epochs_left(repo) == [2]
    other = repo.create_branch("other")
    other.put("b", b"y")
    other.commit("two")
    assert epochs_left(repo) == [3]
    main.merge("other")
    assert epochs_left(repo) == [4]
    main.revert("main", parent=1)
    assert epochs_left(repo) == [5]
    main.commit("nothing", allow_empty=True)
    assert epochs_left(repo) == [6]


def test_an_epoch_is_left_once_a_minute_while_a_partition_is_written(
    repo: Repository, main: Branch, clock: FakeClock
) -> None:
    left = []
    for _ in range(3):
        main.put("a", b"x")
        main.put("b", b"x")
        left.append(epochs_left(repo))
        clock.advance(seconds=61)
    assert left == [[1], [2], [3]]


def test_a_restored_backup_of_the_database_is_noticed(embedded: Backend, tmp_path: Path) -> None:
    catalog = embedded.init()
    repo = catalog.create_repository("sales")
    repo.branch("main").put("a", b"x")
    catalog.close()
    file = Path(embedded.location) / "catalog.db"
    shutil.copy(file, tmp_path / "backup.db")
    for _ in range(2):
        with embedded.open() as later:
            later.repository("sales").branch("main").put("b", b"y")
    shutil.copy(tmp_path / "backup.db", file)
    for _ in range(5):
        # However often it is tried: a refusal leaves everything as it was.
        with embedded.open() as restored, pytest.raises(StorageAhead, match="newer copy"):
            restored.repository("sales").branch("main").put("c", b"z")


def test_two_clones_of_a_database_cannot_both_write(embedded: Backend, tmp_path: Path) -> None:
    embedded.init().create_repository("sales")
    embedded.close()
    clone = tmp_path / "clone"
    shutil.copytree(embedded.location, clone)
    shutil.rmtree(clone / "objects")
    (clone / "objects").symlink_to(Path(embedded.location) / "objects")
    with embedded.open() as first, Catalog.open(clone, clock=embedded.clock) as second:
        first.repository("sales").branch("main").put("a", b"x")
        for _ in range(3):
            with pytest.raises(StorageAhead):
                second.repository("sales").branch("main").put("b", b"y")
        first.repository("sales").branch("main").put("a", b"x")


def test_two_clones_that_open_at_once_are_noticed(embedded: Backend) -> None:
    """Both have counted the same epoch; the storage takes only one of them."""
    catalog = embedded.init()
    repo = catalog.create_repository("sales")
    workspace = repo._workspace
    other = addresses.epoch(repo.uid, 1)
    write_marker = Epochs.write_marker

    def late(*args: Any) -> None:
        workspace.storage.put(other, b"the clone's partition")
        write_marker(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Epochs, "write_marker", late)
        with pytest.raises(StorageAhead):
            repo.branch("main").put("a", b"x")
    with pytest.raises(StorageAhead):
        repo.branch("main").put("a", b"x")


class BeforeEpoch(StorageWrapper):
    """Does something once, when an epoch was counted and is about to be left."""

    def __init__(self, inner: Storage, work: Callable[[], object]) -> None:
        super().__init__(inner)
        self._work: Callable[[], object] | None = work

    def put(self, address: str, data: Payload, *, create: bool = False) -> None:
        if "/epoch/" in address and self._work is not None:
            work, self._work = self._work, None
            work()
        super().put(address, data, create=create)


def check(repo: Repository) -> None:
    check_epoch(repo._workspace.database, repo._workspace.storage, repo.uid)


def test_an_epoch_may_be_left_after_a_later_one(backend: Backend, repo: Repository) -> None:
    """Two instances commit at once, and the second to count is the first to leave its epoch."""
    repo.create_branch("other")
    first, second = repo.branch("main"), backend.open().repository("sales").branch("other")
    for branch in (first, second):
        branch.put("a", b"x")
    storage = repo._workspace.partitions.epochs
    slow = BeforeEpoch(storage._storage, lambda: second.commit("two"))
    storage._storage = slow
    first.commit("one")
    # The later one is left by its owner's next commit, the earlier one by that of its own.
    assert epochs_left(repo) == [3, 4]
    check(repo)
    second.put("a", b"y")
    second.commit("three")
    first.put("a", b"y")
    first.commit("four")
    assert epochs_left(repo) == [5, 6]
    check(repo)
    with backend.open() as third:
        third.repository("sales").branch("main").put("b", b"z")
        assert epochs_left(repo) == [7]
    first.put("a", b"z")
    first.commit("five")
    check(repo)


def test_threads_of_an_instance_leave_one_epoch(repo: Repository, main: Branch) -> None:
    """The thread that is late removes its own, for a later one is there."""
    left = repo._workspace.partitions.epochs
    left.write_marker(repo.uid, 8, "late")
    left.write_marker(repo.uid, 7, "early")
    left.write_marker(repo.uid, 9, "later")
    assert epochs_left(repo) == [9]


def test_many_committers_do_not_take_each_other_for_copies(
    backend: Backend, repo: Repository
) -> None:
    catalogs = [backend.open() for _ in range(2)]
    names = [repo.create_branch(f"branch-{n}").name for n in range(4)]

    def work(n: int) -> None:
        branch = catalogs[n % 2].repository("sales").branch(names[n])
        for step in range(4):
            branch.put(f"a{step}", b"x")
            branch.commit(str(step))
        with backend.open() as fresh:
            fresh.repository("sales").branch(names[n]).put("b", b"x")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    check(repo)
    assert all(len(list(repo.log(name))) == 5 for name in names)
    assert len(epochs_left(repo)) <= 2 + 4


def test_epochs_that_go_while_they_are_read_are_read_again(repo: Repository, main: Branch) -> None:
    main.put("a", b"x")

    class Vanishing(StorageWrapper):
        looks = 0

        def get(self, address: str) -> bytes:
            self.looks += 1
            main.put("a", b"y")
            main.commit("meanwhile") if self.looks == 1 else None
            return super().get(address)

    storage = Vanishing(repo._workspace.storage)
    assert list(check_epoch(repo._workspace.database, storage, repo.uid)) == [2]
    assert storage.looks == 2


def test_epochs_that_go_whenever_they_are_read(repo: Repository, main: Branch) -> None:
    """It is not said that all is well."""
    main.put("a", b"x")

    class Restless(StorageWrapper):
        looks = 0

        def get(self, address: str) -> bytes:
            self.looks += 1
            super().delete(address)
            super().put(addresses.epoch(repo.uid, self.looks + 1), b"somebody")
            return super().get(address)

    storage = Restless(repo._workspace.storage)
    with pytest.raises(StorageUnavailable, match="during every read"):
        check_epoch(repo._workspace.database, storage, repo.uid)
    assert storage.looks == LOOKS


def test_an_older_epoch_of_an_unknown_writer_is_noticed(repo: Repository, main: Branch) -> None:
    main.put("a", b"x")
    main.commit("one")
    check(repo)
    repo._workspace.storage.put(addresses.epoch(repo.uid, 1), b"somebody")
    with pytest.raises(StorageAhead):
        check(repo)


def test_a_catalog_of_an_older_version_has_only_partitions(repo: Repository, main: Branch) -> None:
    """It did not note how far its writers had counted."""
    main.put("a", b"x")
    [partition] = [row.writer for row in raw.rows(repo, epoch_writers)]
    main.commit("one")
    repo._workspace.storage.put(addresses.epoch(repo.uid, 1), partition.encode())
    with repo._workspace.database.write() as connection:
        connection.execute(delete(epoch_writers))
    check(repo)
    main.put("a", b"y")
    main.commit("two")
    check(repo)


def test_a_merge_that_fails_withdraws_what_it_announced(repo: Repository, main: Branch) -> None:
    other = repo.create_branch("other")
    for branch in (main, other):
        branch.put("a", branch.name.encode())
        branch.commit("mine")
    for _ in range(2):
        with pytest.raises(MergeConflict):
            main.merge("other")
    assert "sealed" not in raw.token_states(repo).values()
    main.merge("other", prefer="source")
    assert main.get("a") == b"other"
    assert "sealed" not in raw.token_states(repo).values()
