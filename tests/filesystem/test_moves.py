"""Moves, copies and deletions: no file is lost, and refused calls change nothing."""

from __future__ import annotations

import errno
from typing import Any

import fsspec
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from pyarrow.fs import FSSpecHandler, PyFileSystem

from reclaim.catalog import Branch, Catalog, Repository
from reclaim.errors import NotFound
from tests.conftest import Backend

ROOT = "sales/main"


@pytest.fixture
def backend(embedded: Backend) -> Backend:
    return embedded


def contents(branch: Branch) -> dict[str, str]:
    return {entry.path: branch.get(entry.path).decode() for entry in branch.entries()}


def fill(fs: Any, *paths: str) -> dict[str, str]:
    """Stage files with their path as content."""
    for path in paths:
        fs.pipe_file(f"{ROOT}/{path}", path.encode())
    return {path: path for path in paths}


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("sales/main/a/x", "sales/main/a/x"),
        ("sales/main/a/x", "reclaim://sales/main/a/x"),
        ("sales/main/a/x", "/sales/main/a/x"),
        ("sales/main/a/x", "sales/main/a/x/"),
        ("sales/main/a/x", "sales/ma%69n/a/x"),
        ("sales/main/a/x", "sales/main/a"),
        ("sales/main/a/x", "sales/main/a/"),
        ("sales/main/a/*", "sales/main/a"),
        ("sales/main/a/*", "sales/main/a/"),
        ("sales/main/a", "sales/main/a"),
        ("sales/main/a", "reclaim://sales/main/a"),
        ("sales/main/a/", "sales/main/a"),
        ("sales/main/a", "sales/ma%69n/a"),
        ("sales/main/a", "sales/main/"),
        (["sales/main/a/x"], ["sales/main/a/x"]),
        (["sales/main/a/x"], ["reclaim://sales/main/a/x"]),
        (["sales/main/a/x"], "sales/main/a"),
    ],
)
def test_a_move_to_the_same_path_changes_nothing(
    fs: Any, main: Branch, source: Any, target: Any
) -> None:
    before = fill(fs, "a/x", "a/y")
    fs.mv(source, target, recursive=True)
    assert contents(main) == before


@pytest.mark.parametrize(
    ("source", "target", "said"),
    [
        ("sales/main/a", "sales/main/a/b", "below itself"),
        ("sales/main/a", "sales/main/a/x/b", "below itself"),
        ("sales/main/a/x", "sales/main/a/x/b", "below itself"),
        ("sales/main", "sales/main/b", "below itself"),
        (["sales/main/a/x", "sales/main/b/x"], "sales/main/c/", "target of two files"),
        ("sales/main/*/x", ["sales/main/c", "sales/main/c"], "target of two files"),
        (
            ["sales/main/a/x", "sales/main/b/x"],
            ["sales/main/b/x", "sales/main/a/x"],
            "a source and a target",
        ),
        (["sales/main/a"], ["sales/main/c"], "a folder"),
    ],
)
def test_a_move_that_would_lose_a_file_is_refused(
    fs: Any, main: Branch, source: Any, target: Any, said: str
) -> None:
    before = fill(fs, "a/x", "a/y", "b/x")
    with pytest.raises(OSError, match=said):
        fs.mv(source, target, recursive=True)
    assert contents(main) == before


def test_lists_of_different_length_are_refused(fs: Any, main: Branch) -> None:
    before = fill(fs, "a", "b")
    for call in (fs.mv, fs.cp):
        with pytest.raises(ValueError, match="2 sources, but 1 targets"):
            call([f"{ROOT}/a", f"{ROOT}/b"], [f"{ROOT}/c"])
    assert contents(main) == before


def test_a_folder_is_moved_with_recursive_only(fs: Any, main: Branch) -> None:
    before = fill(fs, "a/x")
    for source in ("sales/main/a", ["sales/main/a"], "sales/main/*"):
        with pytest.raises(IsADirectoryError, match="recursive"):
            fs.mv(source, "sales/main/b")
    assert contents(main) == before


def test_a_move_leaves_files_below_the_maximal_depth(fs: Any, main: Branch) -> None:
    fill(fs, "a/x", "a/b/y")
    fs.mv(f"{ROOT}/a", f"{ROOT}/z", recursive=True, maxdepth=1)
    assert contents(main) == {"a/b/y": "a/b/y", "z/x": "a/x"}


def test_a_move_of_a_folder_with_files(fs: Any, main: Branch) -> None:
    fill(fs, "a", "a/x", "ab/x")
    created = main.stat("a/x").created_at
    fs.mv(f"{ROOT}/a", f"{ROOT}/b", recursive=True)
    assert contents(main) == {"b": "a", "b/x": "a/x", "ab/x": "ab/x"}
    assert main.stat("b/x").created_at == created
    DirFileSystem(path=f"{ROOT}/b", fs=fs).mv("x", "y")
    assert contents(main) == {"b": "a", "b/y": "a/x", "ab/x": "ab/x"}


def test_a_move_to_another_branch(
    fs: Any, main: Branch, repo: Repository, catalog: Catalog
) -> None:
    fill(fs, "a/x", "a/y")
    branch = repo.create_branch("fix")
    fs.mv(f"{ROOT}/a", "sales/fix/b", recursive=True)
    assert contents(main) == {}
    assert contents(branch) == {"b/x": "a/x", "b/y": "a/y"}
    other = catalog.create_repository("other").branch("main")
    fs.mv(["sales/fix/b/x"], ["other/main/x"])
    assert contents(other) == {"x": "a/x"}
    assert contents(branch) == {"b/y": "a/y"}


@pytest.mark.parametrize("changed", ["a/x", "a/new"])
def test_a_move_keeps_writes_of_another_writer(
    fs: Any, main: Branch, repo: Repository, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    fill(fs, "a/x", "a/y")
    branch = repo.create_branch("fix")
    copy = fs.cp_file

    def copy_and_write(source: str, target: str) -> None:
        copy(source, target)
        main.put(changed, b"from another writer")

    monkeypatch.setattr(fs, "cp_file", copy_and_write)
    if changed == "a/new":
        fs.mv(f"{ROOT}/a", "sales/fix/b", recursive=True)
        assert contents(main) == {"a/new": "from another writer"}
    else:
        with pytest.raises(OSError, match="changed while it was moved") as info:
            fs.mv(f"{ROOT}/a", "sales/fix/b", recursive=True)
        assert info.value.errno == errno.EBUSY
        assert contents(main) == {"a/x": "from another writer", "a/y": "a/y"}
    assert contents(branch) == {"b/x": "a/x", "b/y": "a/y"}


def test_a_refused_target_moves_nothing(fs: Any, main: Branch, repo: Repository) -> None:
    before = fill(fs, "a", "b")
    sources = [f"{ROOT}/a", f"{ROOT}/b"]
    with pytest.raises(OSError, match="//"):
        fs.mv(sources, [f"{ROOT}/c", f"{ROOT}/c//d"])
    repo.create_tag("v1", main.commit("one").id)
    with pytest.raises(PermissionError, match="read-only"):
        fs.mv(sources, [f"{ROOT}/c", "sales/v1/d"])
    assert contents(main) == before


def test_the_path_of_a_file_is_not_a_glob(fs: Any, main: Branch) -> None:
    fill(fs, "p[1]", "p1")
    fs.rm_file(f"{ROOT}/p[1]")
    assert contents(main) == {"p1": "p1"}
    for delete in (fs.rm_file, fs._rm):
        with pytest.raises(FileNotFoundError):
            delete(f"{ROOT}/p[1]")
    assert contents(main) == {"p1": "p1"}
    fill(fs, "d[1]/x", "d1/x")
    with pytest.raises(IsADirectoryError):
        fs.rm_file(f"{ROOT}/d[1]")
    fs.mv(f"{ROOT}/d[1]", f"{ROOT}/e", recursive=True)
    assert contents(main) == {"p1": "p1", "d1/x": "d1/x", "e/x": "d[1]/x"}
    fill(fs, "p[1]")
    fs.mv(f"{ROOT}/p[1]", f"{ROOT}/q")
    assert contents(main) == {"p1": "p1", "d1/x": "d1/x", "e/x": "d[1]/x", "q": "p[1]"}
    fs.rm(f"{ROOT}/[pq]*")
    assert contents(main) == {"d1/x": "d1/x", "e/x": "d[1]/x"}


def test_deletions_of_libraries_are_literal(fs: Any, main: Branch) -> None:
    files = PyFileSystem(FSSpecHandler(fs))
    fill(fs, "z/[1]x", "z/1x", "c[1]/x", "c1/x", "k[1]", "k1")
    files.delete_file(f"{ROOT}/z/[1]x")
    files.delete_dir(f"{ROOT}/c[1]")
    del fs.get_mapper(ROOT)["k[1]"]
    assert contents(main) == {"z/1x": "z/1x", "c1/x": "c1/x", "k1": "k1"}
    fill(fs, "c[1]/x")
    fs.get_mapper(f"{ROOT}/c[1]").clear()
    assert contents(main) == {"z/1x": "z/1x", "c1/x": "c1/x", "k1": "k1"}


def test_a_recursive_copy_misses_no_file(
    fs: Any, main: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(fs, "a/x")

    def fail(*_args: Any, **_options: Any) -> None:
        raise NotFound("there is no object")

    monkeypatch.setattr(Branch, "copy", fail)
    with pytest.raises(FileNotFoundError, match="no object"):
        fs.cp(f"{ROOT}/a", f"{ROOT}/b", recursive=True)


@pytest.mark.parametrize("call", ["cp", "cp_file", "mv", "rm", "rm_file"])
def test_transactions_only_write(fs: Any, main: Branch, call: str) -> None:
    before = fill(fs, "a")
    arguments = [f"{ROOT}/a"] if call.startswith("rm") else [f"{ROOT}/a", f"{ROOT}/b"]
    with fs.transaction, pytest.raises(OSError, match="in a transaction") as info:
        getattr(fs, call)(*arguments)
    assert info.value.errno == errno.ENOTSUP
    assert contents(main) == before


def test_transactions_do_not_nest(fs: Any, main: Branch) -> None:
    def nest(begin: Any) -> None:
        with fs.transaction:
            fs.pipe_file(f"{ROOT}/a", b"a")
            begin()

    for begin in (fs.start_transaction, lambda: fs.transaction.__enter__()):
        with pytest.raises(RuntimeError, match="do not nest"):
            nest(begin)
        assert contents(main) == {}
    fs.start_transaction()
    fs.pipe_file(f"{ROOT}/a", b"a")
    fs.end_transaction()
    assert contents(main) == {"a": "a"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", ["w", "wb"])
def test_a_file_that_is_lost_fails_its_transaction(fs: Any, main: Branch, mode: str) -> None:
    def lose() -> None:
        with fs.transaction:
            fs.pipe_file(f"{ROOT}/a", b"a")
            opened = fs.open(f"{ROOT}/b", mode)
            opened.write("b" if mode == "w" else b"b")
            del opened

    with pytest.raises(ValueError, match="nothing was staged"):
        lose()
    assert contents(main) == {}


@pytest.mark.parametrize("mode", ["wt", "wb"])
@pytest.mark.parametrize("compression", [None, "gzip", "bz2", "xz"])
def test_an_error_in_the_block_of_fsspec_stages_nothing(
    fs: Any, main: Branch, backend: Backend, mode: str, compression: str | None
) -> None:
    def write(text: str, *, fail: bool = False) -> None:
        url = f"reclaim://{ROOT}/a"
        with fsspec.open(url, mode, compression=compression, catalog=backend.location) as file:
            file.write(text if mode == "wt" else text.encode())
            if fail:
                raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write("part", fail=True)
    assert contents(main) == {}
    try:
        raise KeyError
    except KeyError:
        write("whole")
    with fs.open(f"{ROOT}/a", "rt", compression=compression) as file:
        assert file.read() == "whole"
