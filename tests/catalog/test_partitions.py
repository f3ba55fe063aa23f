"""Partitions: opening, renewing, rolling, closing, and the fence between writer and collector."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest

from reclaim.catalog import Branch, Catalog, Repository
from reclaim.catalog.database.schema import PartitionState
from reclaim.catalog.database.schema import partitions as partition_rows
from reclaim.catalog.staging import partitions
from reclaim.catalog.staging.partitions import Partitions, partition_id
from reclaim.errors import NotFound, StorageUnavailable, TransactionFailed
from reclaim.storage import Payload, Storage
from reclaim.testing import FakeClock, StorageWrapper
from tests.catalog import raw
from tests.catalog.raw import partition_of
from tests.conftest import Backend


def states(repo: Repository) -> dict[str, str]:
    return {row.id: row.state for row in raw.rows(repo, partition_rows)}


def test_bytes_go_into_an_open_partition_whose_row_came_first(
    backend: Backend, catalog: Catalog
) -> None:
    repo = catalog.create_repository("sales")
    seen: list[dict[str, str]] = []

    class Watch(StorageWrapper):
        def put(self, address: str, data: Payload, *, create: bool = False) -> None:
            if "/branches/" in address:
                assert states(repo)[partition_of(address)] == PartitionState.OPEN
                seen.append(states(repo))
            super().put(address, data, create=create)

    other = backend.open(wrap=Watch).repository("sales")
    entry = other.branch("main").put("a", b"x")
    assert len(seen) == 1
    assert entry.address.startswith(f"repos/{repo.uid}/branches/main/")


def test_containers_lie_in_the_partition_too(repo: Repository, main: Branch) -> None:
    entry = main.put("a", b"x")
    commit = main.commit("one")
    assert commit.metarange.startswith(f"repos/{repo.uid}/_reclaim/meta/")
    assert partition_of(commit.metarange) == partition_of(entry.address)


def test_newer_partitions_sort_first(clock: FakeClock) -> None:
    from reclaim.clock import to_micros

    now = to_micros(clock.now())
    ids = [partition_id(now + step, "instance") for step in (0, 1, 10**6, 10**12)]
    assert ids == sorted(ids, reverse=True)


def test_an_instance_keeps_its_partition_until_it_rolls(
    main: Branch, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "ROLL_OBJECTS", 3)
    first = [partition_of(main.put(f"a{n}", b"x").address) for n in range(3)]
    second = partition_of(main.put("b", b"x").address)
    assert len(set(first)) == 1
    assert second != first[0]
    clock.advance(partitions.ROLL_AGE + timedelta(seconds=1))
    assert partition_of(main.put("c", b"x").address) != second


def test_a_rolled_partition_is_closed_when_its_last_use_ends(
    repo: Repository, main: Branch, clock: FakeClock
) -> None:
    mine = repo._workspace.partitions
    with mine.use(repo.uid) as held:
        clock.advance(partitions.ROLL_AGE + timedelta(seconds=1))
        newer = partition_of(main.put("a", b"x").address)
        assert newer != held.id
        assert states(repo) == {held.id: PartitionState.OPEN, newer: PartitionState.OPEN}
    assert states(repo) == {held.id: PartitionState.CLOSED, newer: PartitionState.OPEN}


def test_closing_the_catalog_closes_its_partitions(backend: Backend, repo: Repository) -> None:
    other = backend.open()
    other.repository("sales").branch("main").put("a", b"x")
    assert list(states(repo).values()) == [PartitionState.OPEN]
    other.close()
    assert list(states(repo).values()) == [PartitionState.CLOSED]


def test_an_owner_renews(repo: Repository, main: Branch, clock: FakeClock) -> None:
    main.put("a", b"x")
    opened = raw.rows(repo, partition_rows)[0].renewed_at
    clock.advance(minutes=5)
    repo._workspace.partitions.renew()
    assert raw.rows(repo, partition_rows)[0].renewed_at == opened + 5 * 60 * 10**6


def test_renewing_cannot_reopen(repo: Repository, main: Branch, clock: FakeClock) -> None:
    before = partition_of(main.put("a", b"x").address)
    raw.close_partitions(repo)
    repo._workspace.partitions.renew()
    assert states(repo)[before] == PartitionState.CLOSED
    assert partition_of(main.put("b", b"x").address) != before


def test_a_writer_that_slept_gets_a_new_partition(
    repo: Repository, main: Branch, clock: FakeClock
) -> None:
    before = partition_of(main.put("a", b"x").address)
    clock.advance(minutes=20)
    raw.close_partitions(repo)
    after = partition_of(main.put("b", b"x").address)
    assert after != before
    assert main.get("b") == b"x"


class CloseAfterWrite(StorageWrapper):
    """A collector that closes the partition between the upload and the staging of it."""

    def __init__(self, inner: Storage, times: int, part: str = "/branches/") -> None:
        super().__init__(inner)
        self.times = times
        self.part = part
        self.repo: Repository | None = None
        self.orphans: list[str] = []
        self.lock = threading.Lock()

    def put(self, address: str, data: Payload, *, create: bool = False) -> None:
        super().put(address, data, create=create)
        with self.lock:
            if self.repo is not None and self.times and self.part in address:
                self.times -= 1
                self.orphans.append(address)
                raw.close_partitions(self.repo)


@pytest.fixture
def closing(backend: Backend, repo: Repository) -> tuple[CloseAfterWrite, Branch]:
    made: list[CloseAfterWrite] = []

    def wrap(storage: Storage) -> Storage:
        made.append(CloseAfterWrite(storage, times=1))
        return made[0]

    other = backend.open(wrap=wrap).repository("sales")
    made[0].repo = repo
    return made[0], other.branch("main")


def test_bytes_in_a_closed_partition_are_never_staged(
    closing: tuple[CloseAfterWrite, Branch],
) -> None:
    storage, main = closing
    storage.times = 99
    with pytest.raises(TransactionFailed, match="was closed while it was being written"):
        main.put("a", b"x")
    assert not main.exists("a")
    assert len(storage.orphans) == 2


def test_a_put_that_lost_its_partition_writes_once_more(
    closing: tuple[CloseAfterWrite, Branch],
) -> None:
    storage, main = closing
    entry = main.put("a", b"x")
    assert storage.orphans
    assert entry.address not in storage.orphans
    assert main.get("a") == b"x"


def test_a_commit_whose_partition_was_closed_does_not_land(
    closing: tuple[CloseAfterWrite, Branch], repo: Repository
) -> None:
    storage, main = closing
    repo.branch("main").put("a", b"x")
    head = repo.commit("main").id
    storage.part, storage.times = "/_reclaim/meta/", 99
    with pytest.raises(TransactionFailed, match="was closed"):
        main.commit("lost")
    assert repo.commit("main").id == head
    assert main.get("a") == b"x"
    storage.times = 1
    landed = main.commit("writes once more")
    assert repo.at(landed.id).get("a") == b"x"
    assert landed.metarange not in storage.orphans


def test_a_batch_of_puts_that_lost_its_partition_is_written_once_more(
    closing: tuple[CloseAfterWrite, Branch],
) -> None:
    storage, main = closing
    main.put_many([("a", b"x"), ("b", b"y")])
    assert storage.orphans
    assert (main.get("a"), main.get("b")) == (b"x", b"y")


def test_a_bytes_copy_into_a_closed_partition_is_never_staged(
    repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    main.put("a", b"x")
    main.commit("one")
    repo.create_branch("other")
    main.delete("a")
    main.commit("two")
    storage = repo._workspace.storage
    copy = storage.copy

    def copy_then_close(source: str, target: str) -> None:
        copy(source, target)
        raw.close_partitions(repo)

    with monkeypatch.context() as patch:
        patch.setattr(storage, "copy", copy_then_close)
        with pytest.raises(TransactionFailed, match="was closed"):
            main.copy("a", "b", source_ref="other")
    assert not main.exists("b")
    main.copy("a", "b", source_ref="other")
    assert main.get("b") == b"x"


def test_a_physical_address_needs_an_open_partition(
    repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    use = Partitions._current

    def current_then_closed(self: Partitions, repo_uid: str) -> partitions.Partition:
        found = use(self, repo_uid)
        raw.close_partitions(repo)
        return found

    monkeypatch.setattr(Partitions, "_current", current_then_closed)
    with pytest.raises(TransactionFailed, match="was closed"):
        main.get_physical_address("a")


def test_a_storage_that_fails_at_opening_leaves_a_closed_row(
    backend: Backend, repo: Repository
) -> None:
    class Down(StorageWrapper):
        def put(self, address: str, data: Payload, *, create: bool = False) -> None:
            raise StorageUnavailable("down")

    other = backend.open(wrap=Down).repository("sales")
    with pytest.raises(StorageUnavailable):
        other.branch("main").put("a", b"x")
    assert set(states(repo).values()) == {PartitionState.CLOSED}


def test_a_deleted_repository_opens_no_partition(catalog: Catalog, repo: Repository) -> None:
    catalog.delete_repository("sales")
    with pytest.raises(NotFound):
        repo.branch("main").put("a", b"x")
    with pytest.raises(NotFound, match="deleted"), repo._workspace.partitions.use(repo.uid):
        pass


def test_the_background_thread_renews(
    repo: Repository, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitions, "RENEW_EVERY", timedelta(milliseconds=20))
    workspace = repo._workspace
    mine = Partitions(workspace.database, workspace.storage, clock, workspace.home)
    renewed = threading.Event()
    renew = mine.renew

    def noticed() -> None:
        renew()
        renewed.set()

    monkeypatch.setattr(mine, "renew", noticed)
    with mine.use(repo.uid) as partition:
        clock.advance(minutes=3)
        assert renewed.wait(20)
    row = next(row for row in raw.rows(repo, partition_rows) if row.id == partition.id)
    assert row.renewed_at - row.opened_at == 3 * 60 * 10**6
    mine.close()
