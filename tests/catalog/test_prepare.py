"""Prepare: the export holds exactly what is live, from one snapshot, in bounded pieces."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from sqlalchemy import insert, update

from reclaim.catalog import Branch, Catalog, Prepared, Repository
from reclaim.catalog.collection import prepare
from reclaim.catalog.database.schema import CommitState, leases
from reclaim.clock import to_micros
from reclaim.errors import AlreadyExists, Corrupt
from reclaim.model import Ref
from reclaim.storage import ObjectStorage
from reclaim.testing import FakeClock
from reclaim.testing.servers import PostgreSQL
from tests.catalog import raw
from tests.conftest import Backend


def table(repo: Repository, prepared: Prepared, name: str) -> list[dict[str, Any]]:
    storage = repo._workspace.storage
    if prepared.url != storage.url:
        storage = ObjectStorage.open(prepared.url)
    found: list[dict[str, Any]] = []
    for stored in sorted(s.address for s in storage.list(f"{prepared.prefix}{name}")):
        found += pq.read_table(io.BytesIO(storage.get(stored))).to_pylist()
    return found


def lease(repo: Repository, commit: str, clock: FakeClock, length: timedelta) -> None:
    with repo._workspace.database.write() as connection:
        connection.execute(
            insert(leases).values(
                id=f"lease-{commit}",
                repo_uid=repo.uid,
                commit_id=commit,
                holder="reader",
                refreshed_at=to_micros(clock.now()),
                length=length // timedelta(microseconds=1),
            )
        )


def test_live_commits_carry_the_classes_that_reach_them(
    repo: Repository, main: Branch, clock: FakeClock
) -> None:
    main.put("a", b"1")
    one = main.commit("one")
    repo.create_tag("v1", "main")
    other = repo.create_branch("other")
    other.put("b", b"2")
    two = other.commit("two")
    main.put("a", b"3")
    three = main.commit("three")
    dead = repo.create_branch("dead")
    dead.put("c", b"4")
    leased = dead.commit("leased")
    dead.put("c", b"5")
    unreachable = dead.commit("unreachable")
    repo.delete_branch("dead")
    lease(repo, leased.id, clock, timedelta(hours=2))

    prepared = repo.prepare()
    rows = {row["id"]: row for row in table(repo, prepared, "commits")}
    classes = {
        commit: {prepared.classes[number] for number in row["classes"]}
        for commit, row in rows.items()
    }
    origin = repo.commit("main~2").id
    every = {"default branch", "branch", "tag", "lease"}
    assert classes == {
        origin: every,
        one.id: every,
        two.id: {"branch"},
        three.id: {"default branch", "lease"},
        leased.id: {"lease"},
    }
    assert unreachable.id not in rows
    assert rows[three.id]["metarange"] == three.metarange
    assert rows[three.id]["parents"] == [one.id]
    assert rows[three.id]["written_at"] == three.written_at
    assert prepared.commits == 5
    refs = {row["name"]: row["commit"] for row in table(repo, prepared, "refs")}
    assert refs == {"main": three.id, "other": two.id, "v1": one.id}
    assert [row["commit"] for row in table(repo, prepared, "leases")] == [leased.id]


def test_a_lapsed_lease_keeps_nothing(repo: Repository, main: Branch, clock: FakeClock) -> None:
    other = repo.create_branch("other")
    other.put("a", b"1")
    commit = other.commit("one")
    repo.delete_branch("other")
    lease(repo, commit.id, clock, timedelta(hours=2))
    clock.advance(hours=2)
    prepared = repo.prepare()
    assert commit.id not in {row["id"] for row in table(repo, prepared, "commits")}
    assert prepared.leases == 0


def test_refs_can_be_put_into_classes(repo: Repository, main: Branch) -> None:
    repo.create_branch("feature-1")
    repo.create_branch("feature-2")

    def classify(ref: Ref) -> str:
        return ref.name.split("-")[0]

    prepared = repo.prepare(classify=classify)
    assert prepared.classes == ("feature", "main")
    assert table(repo, prepared, "commits")[0]["classes"] == [0, 1]


def test_staged_sealed_and_pending_are_all_there(
    repo: Repository, main: Branch, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Branch, "_tidy", lambda _: None)
    main.put("committed", b"0")
    main.commit("one")
    sealed = main.put("sealed", b"1").address
    from tests.catalog.test_ledger import seal

    seal(repo)
    staged = main.put("open", b"2").address
    main.delete("committed")
    other = repo.create_branch("other")
    other.put("dropped", b"3")
    other.reset()
    pending = main.get_physical_address("pending").address
    used = main.get_physical_address("used")
    repo._workspace.storage.put(used.address, b"4")
    main.link_physical_address("used", used)

    prepared = repo.prepare()
    rows = {row["path"]: row for row in table(repo, prepared, "staged")}
    assert {path: row["address"] for path, row in rows.items()} == {
        "sealed": sealed,
        "open": staged,
        "committed": None,
        "used": used.address,
    }
    assert {row["state"] for row in rows.values()} == {"open", "sealed"}
    assert rows["sealed"]["branch"] == "main"
    assert [row["address"] for row in table(repo, prepared, "tokens")] == [pending]
    partitions = table(repo, prepared, "partitions")
    assert [row["state"] for row in partitions] == ["open"]
    assert prepared.staged == 4


def test_the_summary_is_written_last_and_counts(
    repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prepare, "BATCH", 3)
    main.put_many((f"a{n}", b"x") for n in range(8))
    prepared = repo.prepare(run_id="run-1")
    assert prepared.prefix == f"repos/{repo.uid}/_reclaim/runs/run-1/prepared/"
    assert prepared.staged == 8
    names = {a.removeprefix(prepared.prefix) for a in raw.objects(repo) if "/runs/" in a}
    assert {f"staged/part-{n:05d}.parquet" for n in range(3)} <= names
    summary = json.loads(repo._workspace.storage.get(prepared.prefix + "prepared.json"))
    assert summary["staged"] == 8
    assert summary["read_at"] == prepared.read_at.isoformat()


def test_it_goes_where_the_caller_says(repo: Repository, main: Branch, tmp_path: Path) -> None:
    main.put("a", b"x")
    prepared = repo.prepare(destination=str(tmp_path / "out"))
    assert (tmp_path / "out" / "prepared.json").is_file()
    assert [row["path"] for row in table(repo, prepared, "staged")] == ["a"]
    assert not any("/runs/" in address for address in raw.objects(repo))


def test_two_exports_are_never_mixed(repo: Repository, main: Branch, tmp_path: Path) -> None:
    main.put("a", b"x")
    prepared = repo.prepare(run_id="run-1", destination=str(tmp_path / "out"))
    summary = json.loads((tmp_path / "out" / "prepared.json").read_text())
    assert sorted(summary["files"]) == sorted(
        str(file.relative_to(tmp_path / "out")) for file in (tmp_path / "out").rglob("*.parquet")
    )
    assert prepared.staged == 1
    with pytest.raises(AlreadyExists, match="something at"):
        repo.prepare(destination=str(tmp_path / "out"))
    repo.prepare(run_id="run-1")
    with pytest.raises(AlreadyExists):
        repo.prepare(run_id="run-1")


def test_leases_are_judged_by_the_databases_clock(
    postgres: PostgreSQL, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collector whose own clock is three hours ahead still sees a valid lease."""
    from uuid import uuid4

    from reclaim.clock import SystemClock

    class Ahead(SystemClock):
        def now(self) -> datetime:
            return super().now() + timedelta(hours=3)

    url = postgres.new_database()
    with Catalog.init(url, storage=f"{bucket}/{uuid4().hex}", clock=Ahead()) as catalog:
        repo = catalog.create_repository("sales")
        now = FakeClock(datetime.now(UTC))
        lease(repo, repo.commit("main").id, now, timedelta(hours=2))
        assert repo.prepare().leases == 1


def test_a_history_with_a_hole_is_refused_and_leaves_no_summary(
    repo: Repository, main: Branch
) -> None:
    from reclaim.catalog.database.schema import commits

    main.put("a", b"x")
    main.commit("one")
    with repo._workspace.database.write() as connection:
        connection.execute(
            update(commits)
            .where(commits.c.parents == "[]")
            .values(state=CommitState.CONDEMNED, run_id="r")
        )
    with pytest.raises(Corrupt, match="not there"):
        repo.prepare()
    assert not any("prepared.json" in address for address in raw.objects(repo))


def test_it_reads_one_snapshot(backend: Backend, repo: Repository, main: Branch) -> None:
    """A commit and a put that happen in the middle are seen not at all."""
    from collections.abc import Iterable, Sequence

    from reclaim.catalog.collection.prepare import Export

    main.put("a", b"x")
    head = repo.commit("main").id
    other = backend.open().repository("sales").branch("main")
    write = Export.write

    def interfering(self: Export, name: str, schema: object, rows: Iterable[Sequence[Any]]) -> int:
        written = write(self, name, schema, rows)
        if name == "refs":
            other.commit("meanwhile")
            other.put("b", b"y")
        return written

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Export, "write", interfering)
        prepared = repo.prepare()
    assert repo.commit("main").message == "meanwhile"
    assert [row["id"] for row in table(repo, prepared, "commits")] == [head]
    assert [row["path"] for row in table(repo, prepared, "staged")] == ["a"]
