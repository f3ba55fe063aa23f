"""Put, get, stat and exists, on every back end."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

import pytest

from reclaim import storage
from reclaim.catalog import Branch, Repository
from reclaim.catalog.staging import uploads
from reclaim.errors import InvalidInput, NotFound, ReclaimError
from reclaim.testing import FakeClock
from tests.catalog import raw


def test_an_object_reads_back_as_it_was_put(main: Branch, clock: FakeClock) -> None:
    entry = main.put("a/b.csv", b"hello", content_type="text/csv", metadata={"k": "v"})
    assert main.get("a/b.csv") == b"hello"
    assert b"".join(main.stream("a/b.csv")) == b"hello"
    found = main.stat("a/b.csv")
    assert found == entry
    assert (found.size, found.content_type, found.metadata) == (5, "text/csv", {"k": "v"})
    assert found.created_at == clock.now()
    assert main.exists("a/b.csv")
    assert not main.exists("a/b")


def test_files_and_streams_can_be_put(main: Branch, tmp_path: Path) -> None:
    file = tmp_path / "file.bin"
    file.write_bytes(b"0123456789")
    assert main.put("from-file", file).checksum == main.put("from-bytes", b"0123456789").checksum
    main.put("from-stream", io.BytesIO(b"0123456789"))
    assert main.get("from-file") == main.get("from-stream") == b"0123456789"


class Stream:
    """The pieces of an object as an open file."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def read(self, _size: int) -> bytes:
        return next(self._pieces, b"")


def test_an_upload_whose_source_fails_leaves_nothing(
    repo: Repository, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "PIECE", 6 * 1024 * 1024)
    monkeypatch.setattr(storage, "PIECE", 6 * 1024 * 1024)
    before = raw.objects(repo)

    class Broken:
        left = 3

        def read(self, size: int) -> bytes:
            self.left -= 1
            if not self.left:
                raise OSError(5, "the disk it lies on has a fault")
            return bytes(size)

    with pytest.raises(ReclaimError, match="has a fault"):
        main.put("a", cast(IO[bytes], Broken()))
    assert {a for a in raw.objects(repo) - before if "/epoch/" not in a} == set()
    assert not main.exists("a")


def test_a_large_file_goes_in_pieces(
    main: Branch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "PIECE", 6 * 1024 * 1024)
    monkeypatch.setattr(storage, "PIECE", 6 * 1024 * 1024)
    data = bytes(range(256)) * (13 * 1024 * 1024 // 256)
    file = tmp_path / "large"
    file.write_bytes(data)
    entry = main.put("large", file)
    assert entry.size == len(data)
    assert main.get("large") == data
    # What is being read may itself come from the storage.
    main.put("again", cast(IO[bytes], Stream(main.stream("large"))))
    assert main.get("again") == data


def test_an_empty_object_is_an_object(main: Branch) -> None:
    main.put("empty", b"")
    main.commit("empty")
    assert main.get("empty") == b""
    assert main.stat("empty").size == 0


def test_the_last_put_counts(main: Branch) -> None:
    main.put("a", b"one")
    main.put("a", b"two")
    assert main.get("a") == b"two"
    main.commit("first")
    main.put("a", b"three")
    assert main.get("a") == b"three"


def test_many_objects_go_in_batches(
    main: Branch, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(uploads, "TOGETHER", 7)
    seen: list[str] = []
    count = main.put_many(
        ((f"many/{n:03d}", str(n).encode()) for n in range(40)),
        progress=lambda entry: seen.append(entry.path),
    )
    assert count == 40
    assert sorted(seen) == [f"many/{n:03d}" for n in range(40)]
    assert main.get("many/039") == b"39"
    with pytest.raises(InvalidInput, match="cannot read"):
        main.put_many([("a", tmp_path / "absent")])
    assert not main.exists("a")


def test_a_commit_does_not_see_later_changes(repo: Repository, main: Branch) -> None:
    main.put("a", b"one")
    first = main.commit("first")
    main.put("a", b"two")
    assert repo.at(first.id).get("a") == b"one"
    assert repo.at(first.id[:8]).get("a") == b"one"
    main.delete("a")
    assert repo.at(first.id).get("a") == b"one"
    assert not main.exists("a")


@pytest.mark.parametrize("read", ["stat", "get"])
def test_what_is_not_there_is_not_found(main: Branch, repo: Repository, read: str) -> None:
    for reader in (main, repo.at("main")):
        with pytest.raises(NotFound, match="no object 'absent' on main"):
            getattr(reader, read)("absent")
    for ref in ("nobranch", "0123456789abcdef", "main~7"):
        with pytest.raises(NotFound):
            getattr(repo.at(ref), read)("a")


def test_a_put_on_a_missing_branch_writes_nothing(repo: Repository) -> None:
    storage = repo._workspace.storage
    before = {stored.address for stored in storage.list()}
    with pytest.raises(NotFound, match="no branch 'nope'"):
        repo.branch("nope").put("a", b"x")
    assert {stored.address for stored in storage.list()} == before
