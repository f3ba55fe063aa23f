"""The roots of a repository: exactly what is live, from one snapshot, in bounded pieces."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from reclaim.catalog import Branch, Catalog, Import, Repository, Roots
from reclaim.catalog.collection.roots import observing
from reclaim.catalog.collection.roots.observing import HELD, PENDING, STAGED
from reclaim.catalog.database.schema import partitions
from reclaim.clock import SystemClock
from reclaim.errors import PlanRefused
from reclaim.storage import ObjectStorage, Storage, hashed_files
from reclaim.testing import FakeClock
from tests.catalog import raw
from tests.catalog.test_ledger import seal
from tests.conftest import Backend
from tests.support.servers import PostgreSQL


@pytest.fixture
def files() -> Storage:
    return ObjectStorage.open("memory://")


def held(files: Storage, roots: Roots, prefix: str = "") -> dict[str, str]:
    """Address → what holds it."""
    tables = [hashed_files.read(files, prefix + file) for file in roots.files]
    rows = pa.concat_tables([HELD.empty_table(), *tables]).to_pylist()
    assert len(rows) == roots.held
    return {row["address"]: row["held_by"] for row in rows}


def test_commits_refs_leases_and_partitions(
    repo: Repository, main: Branch, clock: FakeClock, files: Storage
) -> None:
    main.put("a", b"1")
    one = main.commit("one")
    repo.create_tag("v1", "main")
    dead = repo.create_branch("dead")
    dead.put("c", b"4")
    leased = dead.commit("leased")
    repo.delete_branch("dead")
    lease = repo.take_lease(leased.id, holder="reader", length=timedelta(hours=2))

    roots = repo.read_roots(files)
    snapshots = {str(snapshot.id): snapshot for snapshot in roots.history.snapshots}
    assert snapshots.keys() == {*one.parents, one.id, leased.id}
    assert snapshots[one.id].parents == one.parents
    assert snapshots[one.id].written_at == one.written_at
    assert roots.metaranges[one.id] == one.metarange
    refs = {ref.name: (ref.snapshot, ref.default) for ref in roots.history.refs}
    assert refs == {"main": (one.id, True), "v1": (one.id, False)}
    assert roots.leases == (lease,)
    assert roots.open == {row.id for row in raw.rows(repo, partitions)}
    assert (roots.closed, roots.overdue, roots.states) == (frozenset(), frozenset(), {})

    clock.advance(hours=2)
    assert repo.read_roots(files).leases == ()


def test_staged_sealed_and_pending_are_all_there(
    repo: Repository,
    main: Branch,
    clock: FakeClock,
    files: Storage,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Branch, "_tidy", lambda _: None)
    main.put("committed", b"0")
    main.commit("one")
    sealed = main.put("sealed", b"1").address
    seal(repo)
    staged = main.put("open", b"2").address
    main.delete("committed")
    main.stage_many([Import("elsewhere", "s3://lake/x", 1)])
    other = repo.create_branch("other")
    other.put("dropped", b"3")
    other.reset()
    pending = main.get_physical_address("pending").address
    used = main.get_physical_address("used")
    repo._workspace.storage.put(used.address, b"4")
    main.link_physical_address("used", used)

    lasting = {sealed: STAGED, staged: STAGED, used.address: STAGED}
    assert held(files, repo.read_roots(files)) == {**lasting, pending: PENDING}
    # A token whose time is over counts until a run has ended it.
    clock.advance(hours=7)
    assert held(files, repo.read_roots(files)) == lasting
    assert held(files, repo.read_roots(files, settled=True)) == {**lasting, pending: PENDING}


def test_addresses_go_to_files_of_bounded_size_below_the_prefix(
    repo: Repository, main: Branch, files: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "BATCH", 3)
    assert repo.read_roots(files, "empty/").files == ()
    main.put_many((f"a{n}", b"x") for n in range(8))
    main.get_physical_address("pending")
    roots = repo.read_roots(files, "some/where/")
    sizes = [hashed_files.read(files, f"some/where/{file}").num_rows for file in roots.files]
    assert sizes == [3, 3, 2, 1]
    assert len(held(files, roots, "some/where/")) == 9
    stored = {one.address for one in files.list("")}
    paths = {address for address in stored if address.startswith("some/where/paths/")}
    assert stored - paths == {f"some/where/{file}" for file in roots.files}
    assert len(paths) == 1


def test_a_file_that_was_changed_is_not_read(
    repo: Repository, main: Branch, files: Storage
) -> None:
    main.put("a", b"x")
    (file,) = repo.read_roots(files).files
    files.put(file, hashed_files.encode(HELD.empty_table()))
    with pytest.raises(PlanRefused, match="changed after it was written"):
        hashed_files.read(files, file)


def test_leases_are_judged_by_the_databases_clock(
    postgres: PostgreSQL, bucket: str, files: Storage
) -> None:
    """A collector whose own clock is three hours ahead still sees a valid lease."""
    from uuid import uuid4

    class Ahead(SystemClock):
        def now(self) -> datetime:
            return super().now() + timedelta(hours=3)

    url = postgres.new_database()
    with Catalog.init(url, storage=f"{bucket}/{uuid4().hex}", clock=Ahead()) as catalog:
        repo = catalog.create_repository("sales")
        repo.take_lease("main", holder="reader", length=timedelta(hours=2))
        roots = repo.read_roots(files)
        assert len(roots.leases) == 1
        assert abs(roots.read_at - datetime.now(UTC)) < timedelta(hours=1)


def test_they_are_read_from_one_snapshot(
    backend: Backend,
    repo: Repository,
    main: Branch,
    files: Storage,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A commit, a put and a lease that happen in the middle are seen not at all."""
    address = main.put("a", b"x").address
    head = repo.commit("main").id
    elsewhere = backend.open().repository("sales")
    write = hashed_files.write

    def interfering(storage: Storage, stem: str, table: pa.Table) -> tuple[str, str]:
        elsewhere.branch("main").commit("meanwhile")
        elsewhere.branch("main").put("b", b"y")
        elsewhere.take_lease(head, holder="reader", length=timedelta(hours=1))
        return write(storage, stem, table)

    monkeypatch.setattr(hashed_files, "write", interfering)
    roots = repo.read_roots(files)
    assert repo.commit("main").message == "meanwhile"
    assert [snapshot.id for snapshot in roots.history.snapshots] == [head]
    assert held(files, roots) == {address: STAGED}
    assert roots.leases == ()
