"""Listings, writes and errors of the filesystem."""

from __future__ import annotations

import errno
import gc
import gzip
import pickle
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest

from reclaim.catalog import Branch, Catalog, Entry, RefReader, Repository
from reclaim.errors import Conflict, NotFound, NothingToCommit, StorageUnavailable
from reclaim.filesystem import ReclaimFileSystem
from reclaim.filesystem.os_errors import os_errors
from reclaim.storage import PIECE
from tests.conftest import Backend


def paths(main: Branch) -> list[str]:
    return [entry.path for entry in main.entries()]


def write_and_fail(opened: Any, data: bytes | str) -> None:
    with opened as file:
        file.write(data)
        raise ZeroDivisionError


@pytest.fixture
def tagged(fs: Any, repo: Repository, main: Branch) -> str:
    """A commit with the tag ``v1`` and three objects; the branch has another one."""
    for path in ("a.txt", "data/x=1/p.bin", "data/x=2/p.bin"):
        main.put(path, path.encode())
    commit = main.commit("one").id
    repo.create_tag("v1", commit)
    main.put("staged.txt", b"staged")
    return commit


def test_the_root_lists_repositories_and_a_repository_its_refs(
    fs: Any, catalog: Catalog, repo: Repository, tagged: str
) -> None:
    catalog.create_repository("other")
    repo.create_branch("team/fix")
    assert fs.ls("", detail=False) == ["other", "sales"]
    assert fs.ls("reclaim://sales", detail=False) == [
        "sales/main",
        "sales/team%2Ffix",
        "sales/v1",
    ]
    assert {info["ref"] for info in fs.ls("sales")} == {"branch", "tag"}
    assert fs.ls("sales/team%2Ffix", detail=False) == [
        "sales/team%2Ffix/a.txt",
        "sales/team%2Ffix/data",
    ]


@pytest.mark.parametrize("ref", ["main", "v1", "commit", "main~0"])
def test_every_kind_of_ref_is_listed_and_read(fs: Any, tagged: str, ref: str) -> None:
    root = f"sales/{tagged if ref == 'commit' else ref}"
    staged = [f"{root}/staged.txt"] if ref == "main" else []
    below = [f"{root}/data/x=1/p.bin", f"{root}/data/x=2/p.bin"]
    assert fs.ls(root, detail=False) == [f"{root}/a.txt", f"{root}/data", *staged]
    assert fs.find(root) == [f"{root}/a.txt", *below, *staged]
    assert fs.find(root, maxdepth=1) == [f"{root}/a.txt", *staged]
    assert fs.glob(f"{root}/data/*/p.bin") == below
    assert fs.find(f"{root}/data", withdirs=True) == sorted(
        [f"{root}/data", f"{root}/data/x=1", f"{root}/data/x=2", *below]
    )
    assert [folders for _, folders, _ in fs.walk(f"{root}/data")] == [["x=1", "x=2"], [], []]
    assert fs.cat_file(f"{root}/a.txt") == b"a.txt"
    assert fs.cat_file(f"{root}/a.txt", -3) == b"txt"
    assert fs.isdir(f"{root}/data")
    assert not fs.exists(f"{root}/dat")


def test_a_flat_find_and_a_walk_see_the_same(fs: Any, tagged: str) -> None:
    for path in ("sales/main", "sales/main/data", "sales/main/a.txt", "sales/main/none"):
        for withdirs in (False, True):
            flat = fs.find(path, withdirs=withdirs, detail=True)
            assert flat == fs.find(path, maxdepth=9, withdirs=withdirs, detail=True), path


def test_an_empty_branch_is_a_folder(fs: Any) -> None:
    assert fs.isdir("sales/main")
    assert fs.ls("sales/main") == []
    assert fs.find("sales/main", withdirs=True) == ["sales/main"]


def test_listings_are_never_stale(fs: Any, main: Branch) -> None:
    assert fs.ls("sales/main") == []
    main.put("a", b"1")
    assert fs.ls("sales/main", detail=False) == ["sales/main/a"]
    main.delete("a")
    assert fs.ls("sales/main") == []


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("none/main/a", "there is no repository 'none'"),
        ("sales/none/a", "none"),
        ("sales/main/none", "there is no object 'none' on main (list them with `reclaim ls`)"),
        ("sales/main/a//b", "contains '//'"),
        ("sales/0000000000/a", "0000000000"),
    ],
)
def test_a_missing_path_says_what_is_missing(fs: Any, path: str, said: str) -> None:
    with pytest.raises(FileNotFoundError) as info:
        fs.open(path)
    assert said in str(info.value)
    for read in (fs.info, fs.cat_file):
        with pytest.raises(FileNotFoundError):
            read(path)
    assert not fs.exists(path)


def test_folders_are_not_files(fs: Any, tagged: str) -> None:
    for path in ("sales/main/data", "sales/main", "sales"):
        with pytest.raises(IsADirectoryError):
            fs.open(path)
    for path in ("sales/main", "sales", ""):
        with pytest.raises(IsADirectoryError):
            fs.open(path, "wb")
    with pytest.raises(IsADirectoryError, match="recursive"):
        fs.rm("sales/main/data")


@pytest.mark.parametrize("ref", ["v1", "commit", "main~0"])
def test_only_branches_are_written(fs: Any, tagged: str, ref: str) -> None:
    root = f"sales/{tagged if ref == 'commit' else ref}"
    writes: list[Callable[[], object]] = [
        lambda: fs.open(f"{root}/new", "wb"),
        lambda: fs.rm(f"{root}/a.txt"),
        lambda: fs.rm(root, recursive=True),
        lambda: fs.mv(f"{root}/a.txt", f"{root}/b.txt"),
        lambda: fs.cp("sales/main/a.txt", f"{root}/new"),
        lambda: fs.commit(root, "no"),
    ]
    for write in writes:
        with pytest.raises(PermissionError, match="read-only"):
            write()
    with pytest.raises(PermissionError):
        fs.rm("sales", recursive=True)


def test_a_branch_that_is_not_there_is_noticed_before_the_first_byte(fs: Any) -> None:
    with pytest.raises(FileNotFoundError):
        fs.open("sales/none/a", "wb")
    with pytest.raises(OSError, match="//") as info:
        fs.open("sales/main/a//b", "wb")
    assert info.value.errno == errno.EINVAL
    with pytest.raises(OSError, match="write objects whole"):
        fs.open("sales/main/a", "ab")


def test_an_outage_is_not_a_missing_file(
    fs: Any, tagged: str, catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_name: str) -> None:
        raise StorageUnavailable("cannot read: 503", hint="try again")

    monkeypatch.setattr(catalog, "repository", fail)
    for look in (fs.exists, fs.isfile, fs.isdir, fs.find, fs.ls):
        with pytest.raises(OSError, match=r"503 \(try again\)") as info:
            look("sales/main/a.txt")
        assert info.value.errno == errno.EIO
    with pytest.raises(OSError, match="503"):
        fs.find("sales/main", maxdepth=1)
    with pytest.raises(OSError, match="503"):
        list(fs.walk("sales/main"))


def test_a_part_of_a_listing_is_an_error(
    fs: Any, tagged: str, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_off(_reader: Any, _prefix: str) -> Iterator[Entry]:
        yield main.stat("a.txt")
        raise NotFound("there is no branch 'main'")

    monkeypatch.setattr(RefReader, "entries", cut_off)
    with pytest.raises(FileNotFoundError, match="no branch"):
        fs.find("sales/main")


def test_a_file_appears_when_it_is_closed(fs: Any, main: Branch) -> None:
    for size in (3, 12 << 20):
        file = fs.open("sales/main/a", "wb")
        file.write(b"x" * size)
        before = main.stat("a").size if main.exists("a") else None
        assert before != size
        file.close()
        assert main.stat("a").size == size
        assert main.get("a") == b"x" * size


@pytest.mark.parametrize("mode", ["wb", "w"])
@pytest.mark.parametrize("compression", [None, "gzip"])
@pytest.mark.parametrize("size", [5, 12 << 20])
def test_an_error_leaves_nothing(
    fs: Any,
    main: Branch,
    mode: str,
    compression: str | None,
    size: int,
    tmp_path: Path,
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    written = "x" * size if mode == "w" else b"x" * size
    with pytest.raises(ZeroDivisionError):
        write_and_fail(fs.open("sales/main/a", mode, compression=compression), written)
    assert paths(main) == []
    assert list(tmp_path.glob("reclaim-*")) == []


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_a_file_that_is_never_closed_is_not_staged(
    fs: Any, main: Branch, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    seen: list[str] = []
    monkeypatch.setattr(
        "reclaim.filesystem.files.warnings.warn", lambda text, *_args, **_options: seen.append(text)
    )
    file = fs.open("sales/main/a", mode, block_size=4)
    file.write("12345678" if mode == "w" else b"12345678")
    file.flush()
    assert list(tmp_path.glob("reclaim-*"))
    del file
    gc.collect()
    assert seen == ["sales/main/a was not closed, and is not staged"]
    assert paths(main) == []
    assert list(tmp_path.glob("reclaim-*")) == []


def test_an_error_of_the_upload_is_raised_by_close(
    fs: Any, main: Branch, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def fail(*_args: Any) -> None:
        raise Conflict("the branch was deleted", hint="look")

    monkeypatch.setattr(Branch, "put", fail)
    file = fs.open("sales/main/a", "wb", block_size=4)
    file.write(b"12345678")
    with pytest.raises(OSError, match="the branch was deleted"):
        file.close()
    file.close()
    assert list(tmp_path.glob("reclaim-*")) == []


def test_a_full_disk_in_the_middle_stages_nothing(
    fs: Any, main: Branch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    file = fs.open("sales/main/a", "wb", block_size=4)
    file.write(b"12345678")
    write = Path.open

    def fail(path: Path, *args: Any) -> Any:
        if path.name.startswith("reclaim-"):
            raise OSError(errno.ENOSPC, "no space left")
        return write(path, *args)

    with monkeypatch.context() as full:
        full.setattr(Path, "open", fail)
        with pytest.raises(OSError, match="no space left"):
            file.write(b"abcdefgh")
    file.close()
    assert paths(main) == []
    assert list(tmp_path.glob("reclaim-*")) == []


def test_text_and_compression(fs: Any, main: Branch) -> None:
    with fs.open("sales/main/a.txt", "w", encoding="latin-1", newline="") as file:
        file.write("ä\n")
    assert main.get("a.txt") == "ä\n".encode("latin-1")
    with fs.open("sales/main/a.gz", "wt", compression="infer") as file:
        file.write("text")
    assert gzip.decompress(main.get("a.gz")) == b"text"
    with fs.open("sales/main/b", "wb", compression="zip") as file:
        file.write(b"zip")
    assert main.get("b")[:2] == b"PK"
    assert fs.open("sales/main/a.gz", "rt", compression="infer").read() == "text"


def test_exclusive_creation(fs: Any, main: Branch, tmp_path: Path) -> None:
    first = fs.open("sales/main/a", "xb")
    first.write(b"1")
    fs.pipe("sales/main/a", b"2")
    with pytest.raises(FileExistsError, match="there is an object 'a' on main already"):
        first.close()
    (tmp_path / "local").write_bytes(b"3")
    with pytest.raises(FileExistsError):
        fs.put_file(str(tmp_path / "local"), "sales/main/a", mode="create")
    assert main.get("a") == b"2"


def test_files_of_a_transaction_appear_together(
    fs: Any, main: Branch, backend: Backend, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "local").write_bytes(b"local")
    with fs.transaction:
        fs.pipe("sales/main/a", b"a")
        fs.put_file(str(tmp_path / "local"), "sales/main/b")
        with fs.open("sales/main/c", "w") as file:
            file.write("c")
        file = fs.open("sales/main/d", "wb")
        file.write(b"d")
        file.close()
        with fsspec.open("reclaim://sales/main/e", "wb", catalog=backend.location) as file:
            file.write(b"e")
        assert paths(main) == []
    assert {path: main.get(path) for path in paths(main)} == {
        "a": b"a",
        "b": b"local",
        "c": b"c",
        "d": b"d",
        "e": b"e",
    }
    assert list(tmp_path.glob("reclaim-*")) == []
    fs.pipe("sales/main/f", b"f")
    assert main.get("f") == b"f"


def test_a_transaction_that_fails_leaves_nothing(
    fs: Any, main: Branch, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def fail() -> None:
        with fs.transaction:
            fs.pipe("sales/main/a", b"a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with fs.transaction:
        fs.pipe("sales/main/b", b"b")
        with pytest.raises(ZeroDivisionError):
            write_and_fail(fs.open("sales/main/c", "wb"), b"c")
    assert paths(main) == ["b"]
    assert list(tmp_path.glob("reclaim-*")) == []


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_a_transaction_with_an_open_file_stages_nothing(fs: Any, main: Branch, mode: str) -> None:
    def leave_open() -> Any:
        with fs.transaction:
            fs.pipe("sales/main/a", b"a")
            return fs.open("sales/main/b", mode)

    with pytest.raises(ValueError, match="sales/main/b is open at the end"):
        leave_open()
    gc.collect()
    assert paths(main) == []
    fs.pipe("sales/main/a", b"a")
    assert paths(main) == ["a"]


def test_a_failed_transaction_stages_no_file(
    fs: Any, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: Any) -> None:
        raise StorageUnavailable("cannot write: 503")

    monkeypatch.setattr(Branch, "put_many", fail)
    with pytest.raises(OSError, match="503"), fs.transaction:
        fs.pipe("sales/main/a", b"a")
    monkeypatch.undo()
    assert paths(main) == []


def test_commit(fs: Any, repo: Repository, main: Branch) -> None:
    fs.pipe("sales/main/a", b"a")
    commit = fs.commit("sales/main", "one", committer="me")
    assert repo.log("main")[0] == commit
    assert commit.committer == "me"
    with pytest.raises(NothingToCommit):
        fs.commit("reclaim://sales/main", "two")


def test_copy_and_move(
    fs: Any, catalog: Catalog, repo: Repository, main: Branch, tagged: str, calls: Counter[str]
) -> None:
    created = main.stat("a.txt").created_at
    fs.mv("sales/main/a.txt", "sales/main/b.txt")
    assert main.stat("b.txt").created_at == created
    assert not main.exists("a.txt")
    calls.clear()
    fs.cp("sales/main/b.txt", "sales/main/c.txt")
    assert main.stat("c.txt").address == main.stat("b.txt").address
    fs.cp("sales/v1/a.txt", "sales/main/a.txt")
    assert calls["put"] == 0
    fs.mv("sales/main/data", "sales/main/moved", recursive=True)
    assert fs.find("sales/main/moved") == [
        "sales/main/moved/x=1/p.bin",
        "sales/main/moved/x=2/p.bin",
    ]
    assert not fs.exists("sales/main/data")
    other = catalog.create_repository("other").branch("main")
    fs.cp("sales/v1/data", "other/main/", recursive=True)
    assert paths(other) == ["data/x=1/p.bin", "data/x=2/p.bin"]
    with pytest.raises(FileNotFoundError):
        fs.cp("sales/main/none", "sales/main/d")
    with pytest.raises(FileNotFoundError):
        fs.mv("sales/main/none", "sales/main/d")


def test_remove(fs: Any, main: Branch, tagged: str) -> None:
    fs.rm(["sales/main/a.txt", "sales/main/staged.txt"])
    fs.rm("sales/main/data/x=1", recursive=True)
    assert paths(main) == ["data/x=2/p.bin"]
    with pytest.raises(FileNotFoundError):
        fs.rm(["sales/main/data/x=2/p.bin", "sales/main/none"])
    fs.rm("sales/main", recursive=True)
    assert paths(main) == []
    assert fs.find("sales/v1")


def test_digests_are_the_key_of_a_file(fs: Any, main: Branch, tagged: str) -> None:
    before = fs.ukey("sales/main/a.txt"), fs.checksum("sales/main/a.txt")
    assert before[0] == main.stat("a.txt").checksum
    assert before == (fs.ukey("sales/v1/a.txt"), fs.checksum("sales/v1/a.txt"))
    main.put("a.txt", b"other")
    assert fs.ukey("sales/main/a.txt") != before[0]
    assert fs.checksum("sales/main/a.txt") != before[1]
    assert fs.modified("sales/main/a.txt") == main.stat("a.txt").created_at
    assert fs.ukey("sales/main/data")


def test_ranges_are_single_requests(fs: Any, main: Branch, calls: Counter[str]) -> None:
    main.put("big", bytes(range(256)) * (PIECE // 64))
    main.commit("one")
    size = main.stat("big").size
    calls.clear()
    assert fs.cat_file("sales/main/big", 10, 20) == bytes(range(10, 20))
    assert calls["get_range"] == 1
    assert len(fs.cat_file("sales/main/big")) == size
    assert calls["get_range"] == 2
    with fs.open("sales/main/big", cache_type="none") as file:
        for start in (size - 8, 0, 1000):
            file.seek(start)
            assert file.read(8) == (bytes(range(256)) * 2)[start % 256 :][:8]
    assert calls["get_range"] == 5
    with fs.open("sales/main/big") as file:
        file.seek(-8, 2)
        assert file.read() == bytes(range(248, 256))
        assert file.read() == b""
    assert calls["get_range"] == 6
    assert {call for call in calls if call not in ("get_range",)} <= {"get", "head"}
    assert calls["stream"] == calls["reader"] == 0
    assert fs.cat_ranges(["sales/main/big"] * 2, [0, 5], [2, 7]) == [b"\0\1", b"\5\6"]
    assert calls["get_range"] == 8


def test_an_open_file_of_a_branch_stays_the_same(fs: Any, main: Branch) -> None:
    main.put("a", b"1" * 100)
    with fs.open("sales/main/a", cache_type="none") as file:
        assert file.read(10) == b"1" * 10
        main.put("a", b"2" * 50)
        assert file.read() == b"1" * 90
    assert fs.cat_file("sales/main/a") == b"2" * 50


def test_a_pickled_filesystem_has_the_same_catalog(
    fs: Any, backend: Backend, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    main.put("a", b"abc")
    again = pickle.loads(pickle.dumps(fs))
    assert again == fs
    assert hash(again) == hash(fs)
    assert again.cat("sales/main/a") == b"abc"
    with fs.open("sales/main/a") as file:
        file.seek(1)
        assert pickle.loads(pickle.dumps(file)).read() == b"bc"
    monkeypatch.setenv("RECLAIM_CATALOG", backend.location)
    default = ReclaimFileSystem(skip_instance_cache=True)
    assert default == fs
    monkeypatch.delenv("RECLAIM_CATALOG")
    assert ReclaimFileSystem(skip_instance_cache=True) != fs
    assert pickle.loads(pickle.dumps(default)) == fs
    with fs.open("sales/main/b", "wb") as file, pytest.raises(RuntimeError):
        pickle.dumps(file)


def test_threads_share_a_filesystem(fs: Any, main: Branch) -> None:
    def work(number: int) -> None:
        fs.pipe(f"sales/main/{number}", str(number).encode())
        assert fs.cat(f"sales/main/{number}") == str(number).encode()

    threads = [threading.Thread(target=work, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(paths(main)) == 8


def test_a_forked_process_is_told(fs: Any, main: Branch, monkeypatch: pytest.MonkeyPatch) -> None:
    main.put("a", b"a")
    with fs.open("sales/main/a") as file:
        monkeypatch.setattr("reclaim.filesystem.catalogs._forked", True)
        with pytest.raises(RuntimeError, match="spawn"):
            file.read()
    with pytest.raises(RuntimeError, match="spawn"):
        fs.ls("")


def test_a_catalog_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="reclaim init"):
        ReclaimFileSystem(tmp_path / "none", skip_instance_cache=True).ls("")


def test_closed_files_and_other_errors(fs: Any, main: Branch) -> None:
    main.put("a", b"a")
    file = fs.open("sales/main/a")
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.read()
    with pytest.raises(OSError, match="changed") as info, os_errors("x"):
        raise Conflict("changed")
    assert info.value.errno == errno.EBUSY
