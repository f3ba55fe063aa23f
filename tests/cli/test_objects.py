"""put, get, ls, rm, cp, mv and stage."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from reclaim.catalog import Catalog, Import
from reclaim.catalog.staging import uploads
from tests.cli.conftest import CommandLine


@pytest.fixture
def tree(cli: CommandLine, catalog: Catalog) -> CommandLine:
    """``sales/main`` with a few objects in folders, uncommitted."""
    paths = ("a.txt", "data/1.csv", "data/2.csv", "data/deep/3.csv", "date.txt")
    catalog.repository("sales").branch("main").put_many([(path, path.encode()) for path in paths])
    return cli


def _paths(cli: CommandLine, place: str) -> list[str]:
    return [entry["path"] for entry in cli.ok("ls", "-r", place, "--json").json["entries"]]


# --- put ----------------------------------------------------------------------------------------


def test_put_a_file(cli: CommandLine, catalog: Catalog, tmp_path: Path) -> None:
    file = tmp_path / "x.csv"
    file.write_bytes(b"abc")
    said = cli.ok("put", str(file), "sales/main/x.csv").out
    assert said == "Put x.csv (3 B) on main.\n"
    entry = catalog.repository("sales").at("main").stat("x.csv")
    assert (entry.size, entry.content_type, entry.metadata) == (3, "", {})


def test_put_keeps_type_and_metadata(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    args = ("--content-type", "text/csv", "--meta", "a=1", "--meta", "b=x=y", "--json")
    document = cli.ok("put", str(tmp_path / "x"), "sales/main/x", *args).json
    assert document["content_type"] == "text/csv"
    assert document["metadata"] == {"a": "1", "b": "x=y"}
    assert document["checksum"].startswith("sha256:")


def test_put_stdin(cli: CommandLine, catalog: Catalog) -> None:
    cli.ok("put", "-", "sales/main/in", stdin=b"\x00\xff piped")
    assert catalog.repository("sales").at("main").get("in") == b"\x00\xff piped"


def test_put_a_folder(cli: CommandLine, catalog: Catalog, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "deep").mkdir(parents=True)
    (folder / "one").write_bytes(b"1")
    (folder / "deep" / "two").write_bytes(b"22")
    (folder / "link").symlink_to(folder / "one")
    (folder / "around").symlink_to(folder)
    os.mkfifo(folder / "pipe")
    document = cli.ok("put", "-r", str(folder), "sales/main/into", "--json").json
    assert (document["objects"], document["bytes"]) == (3, 4)
    assert sorted(document["skipped"]) == ["around", "pipe"]
    assert _paths(cli, "sales/main") == ["into/deep/two", "into/link", "into/one"]
    assert "Skipped links to folders and special files: " in (
        cli.ok("put", "-r", str(folder), "sales/main").out
    )
    assert "deep/two" in _paths(cli, "sales/main")


def test_a_folder_with_a_bad_name_uploads_nothing(cli: CommandLine, tmp_path: Path) -> None:
    """Also when the bad name comes after more files than are uploaded together."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(uploads.TOGETHER + 1):
        (folder / f"{number:05}").write_bytes(b"1")
    (folder / "z\n").write_bytes(b"1")
    cli.fails("invalid_path", 2, "put", "-r", str(folder), "sales/main")
    assert _paths(cli, "sales/main") == []


def test_put_an_empty_folder(cli: CommandLine, tmp_path: Path) -> None:
    assert cli.ok("put", "-r", str(tmp_path / "catalog" / "objects"), "sales/main").code == 0
    (tmp_path / "empty").mkdir()
    assert cli.ok("put", "-r", str(tmp_path / "empty"), "sales/main/x", "--json").json == {
        "repository": "sales",
        "branch": "main",
        "prefix": "x/",
        "objects": 0,
        "bytes": 0,
        "skipped": [],
    }


def test_what_put_refuses(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abc")
    here = str(tmp_path / "x")
    cli.fails("invalid_input", 2, "put", str(tmp_path / "none"), "sales/main/x")
    assert "-r" in cli.fails("invalid_input", 2, "put", str(tmp_path), "sales/main/x")["hint"]
    cli.fails("invalid_input", 2, "put", "-r", here, "sales/main/x")
    cli.fails("invalid_input", 2, "put", "-r", str(tmp_path), "sales/main", "--meta", "a=1")
    cli.fails("invalid_input", 2, "put", here, "sales/main/x", "--meta", "a")
    cli.fails("invalid_input", 2, "put", here, "sales")
    cli.fails("invalid_path", 2, "put", here, "sales/main")
    cli.fails("invalid_path", 2, "put", here, "sales/main/")
    cli.fails("invalid_path", 2, "put", here, "sales/main/folder/")
    cli.fails("invalid_path", 2, "put", here, "sales/main/../x")
    assert _paths(cli, "sales/main") == []


# --- get ----------------------------------------------------------------------------------------


def test_get_a_file(tree: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tree.ok("get", "sales/main/data/1.csv")
    assert (tmp_path / "1.csv").read_bytes() == b"data/1.csv"
    (tmp_path / "folder").mkdir()
    tree.ok("get", "sales/main/data/2.csv", "folder")
    assert (tmp_path / "folder" / "2.csv").read_bytes() == b"data/2.csv"
    document = tree.ok("get", "sales/main/a.txt", "1.csv", "--json").json
    assert document == {
        "path": "a.txt",
        "file": str(tmp_path / "1.csv"),
        "bytes": 5,
        "verified": None,
    }
    assert (tmp_path / "1.csv").read_bytes() == b"a.txt"


def test_get_to_stdout(tree: CommandLine) -> None:
    assert tree.ok("get", "sales/main/a.txt", "-").out == "a.txt"
    assert "JSON" in tree("get", "sales/main/a.txt", "-", "--json").error["message"]


def test_get_a_folder(tree: CommandLine, tmp_path: Path) -> None:
    target = tmp_path / "out"
    document = tree.ok("get", "-r", "sales/main/data", str(target), "--json").json
    assert (document["objects"], document["bytes"]) == (3, 35)
    found = {file.relative_to(target).as_posix() for file in target.rglob("*") if file.is_file()}
    assert found == {"1.csv", "2.csv", "deep/3.csv"}
    assert (target / "deep" / "3.csv").read_bytes() == b"data/deep/3.csv"
    assert tree.ok("get", "-r", "sales/main", str(tmp_path / "all"), "--json").json["objects"] == 5


def test_get_never_leaves_half_a_file(
    tree: CommandLine, location: Path, catalog: Catalog, tmp_path: Path
) -> None:
    address = catalog.repository("sales").at("main").stat("a.txt").address
    (location / "objects" / address).unlink()
    target = tmp_path / "out"
    target.mkdir()
    (target / "mine").write_bytes(b"mine")
    tree.fails("corrupt", 8, "get", "sales/main/a.txt", str(target / "mine"))
    tree.fails("corrupt", 8, "get", "sales/main/a.txt", str(target / "new"))
    assert [file.name for file in target.iterdir()] == ["mine"]
    assert (target / "mine").read_bytes() == b"mine"


def damage(catalog: Catalog, location: Path, path: str) -> None:
    """Change one bit of an object."""
    file = location / "objects" / catalog.repository("sales").at("main").stat(path).address
    data = bytearray(file.read_bytes())
    data[0] ^= 1
    file.write_bytes(data)


def test_get_compares_bytes_when_asked(
    tree: CommandLine, location: Path, catalog: Catalog, tmp_path: Path
) -> None:
    target = tmp_path / "out"
    said = tree.ok("get", "sales/main/a.txt", str(target), "--verify")
    assert "Its SHA-256 matches." in said.out
    document = tree.ok("get", "-r", "sales/main", str(tmp_path / "all"), "--verify", "--json").json
    assert (document["verified"], document["unverified"]) == (5, 0)

    damage(catalog, location, "a.txt")
    tree.ok("get", "sales/main/a.txt", str(tmp_path / "unseen"))
    error = tree.fails("corrupt", 8, "get", "sales/main/a.txt", str(target), "--verify")
    assert "the bytes of a.txt are damaged" in error["message"]
    assert target.read_bytes() == b"a.txt"
    tree.fails("corrupt", 8, "get", "sales/main/a.txt", str(tmp_path / "new"), "--verify")
    tree.fails("corrupt", 8, "get", "-r", "sales/main", str(tmp_path / "more"), "--verify")
    assert not (tmp_path / "new").exists()
    assert not (tmp_path / "more" / "a.txt").exists()
    assert tree("get", "sales/main/a.txt", "-", "--verify").code == 8


def test_get_says_what_could_not_be_verified(
    tree: CommandLine, location: Path, catalog: Catalog, tmp_path: Path
) -> None:
    (tmp_path / "outside").write_bytes(b"abc")
    main = catalog.repository("sales").branch("main")
    main.stage("elsewhere/x", str(tmp_path / "outside"))
    place, target = "sales/main/elsewhere/x", str(tmp_path / "out")
    document = tree.ok("get", place, target, "--verify", "--json").json
    assert document["verified"] is False
    assert "Not verified" in tree.ok("get", place, target, "--verify").out
    assert (
        "Not verified" in tree.ok("get", "-r", "sales/main", str(tmp_path / "all"), "--verify").out
    )
    (tmp_path / "outside").write_bytes(b"abcd")
    tree.fails("corrupt", 8, "get", place, target, "--verify")


def test_get_never_writes_outside_its_folder(tree: CommandLine, tmp_path: Path) -> None:
    target, outside = tmp_path / "out", tmp_path / "outside"
    target.mkdir()
    outside.mkdir()
    (target / "data").symlink_to(outside)
    tree.fails("refused", 6, "get", "-r", "sales/main", str(target))
    assert list(outside.iterdir()) == []
    (target / "data").unlink()
    (outside / "a.txt").write_bytes(b"mine")
    (target / "a.txt").unlink()
    (target / "a.txt").symlink_to(outside / "a.txt")
    tree.fails("refused", 6, "get", "-r", "sales/main", str(target))
    assert (outside / "a.txt").read_bytes() == b"mine"


def test_what_get_refuses(tree: CommandLine, tmp_path: Path) -> None:
    tree.fails("not_found", 3, "get", "sales/main/none", str(tmp_path / "x"))
    tree.fails("not_found", 3, "get", "-r", "sales/main/none", str(tmp_path / "x"))
    tree.fails("not_found", 3, "get", "sales/none/a.txt", str(tmp_path / "x"))
    assert "-r" in tree.fails("invalid_input", 2, "get", "sales/main/data")["hint"]
    tree.fails("invalid_input", 2, "get", "sales/main/a.txt", str(tmp_path / "no" / "folder"))
    tree.fails("invalid_input", 2, "get", "sales/main/a.txt", os.devnull)
    tree.fails("invalid_input", 2, "get", "-r", "sales/main", "-")
    assert not (tmp_path / "x").exists()


def test_an_object_and_a_folder_of_one_name(cli: CommandLine, tmp_path: Path) -> None:
    for path in ("a", "a/b"):
        cli.ok("put", "-", f"sales/main/{path}", stdin=b"x")
    cli.fails("invalid_input", 2, "get", "-r", "sales/main", str(tmp_path / "out"))


# --- ls -----------------------------------------------------------------------------------------


def test_ls_shows_one_level(tree: CommandLine) -> None:
    head, *lines = tree.ok("ls", "sales/main").out.splitlines()
    assert head.split() == ["size", "created", "(UTC)", "path"]
    rows = tree.ok("ls", "sales/main", "--no-header").out.splitlines()
    assert [row.split() for row in rows] == [line.split() for line in lines]
    assert [line.split()[-1] for line in lines] == ["a.txt", "data/", "date.txt"]
    assert lines[0].split()[0] == "5"
    assert len({len(line) - len(line.split()[-1]) for line in lines}) == 1
    listed = tree.ok("ls", "sales/main/da", "--json").json
    assert [entry["path"] for entry in listed["entries"]] == ["date.txt"]
    assert (listed["prefixes"], listed["after"]) == (["data/"], "")


def test_ls_recursive(tree: CommandLine) -> None:
    assert _paths(tree, "sales/main/data/") == ["data/1.csv", "data/2.csv", "data/deep/3.csv"]
    lines = tree.ok("ls", "-r", "sales/main", "--no-header").out.splitlines()
    assert [line.split()[-1] for line in lines] == _paths(tree, "sales/main")


def test_ls_pages(tree: CommandLine) -> None:
    seen: list[str] = []
    after = ""
    while True:
        page = tree.ok("ls", "sales/main", "--limit", "1", "--after", after, "--json").json
        seen += [entry["path"] for entry in page["entries"]] + page["prefixes"]
        after = page["after"]
        if not after:
            break
    assert seen == ["a.txt", "data/", "date.txt"]
    said = tree.ok("ls", "sales/main", "--limit", "2", "--no-header").out.splitlines()
    assert said[-1] == "There is more: add --after data/"
    assert len(said) == 3


def test_ls_of_more_than_a_page(cli: CommandLine, catalog: Catalog) -> None:
    branch = catalog.repository("sales").branch("main")
    branch.stage_many(
        Import(f"p/{number:05}", f"s3://elsewhere/{number}", number) for number in range(2_345)
    )
    lines = cli.ok("ls", "sales/main/p/", "--no-header").out.splitlines()
    assert [line.split()[-1] for line in lines] == [f"p/{number:05}" for number in range(2_345)]
    assert len(cli.ok("ls", "-r", "sales/main", "--json").json["entries"]) == 2_345


def test_ls_without_a_ref(tree: CommandLine) -> None:
    assert tree.ok("ls").out == tree.ok("repo", "list").out
    tree.ok("branch", "create", "sales/team%2Fdev")
    tree.ok("tag", "create", "sales/v1", "main")
    refs = tree.ok("ls", "sales", "--json").json["refs"]
    assert [(ref["name"], ref["kind"], ref["default"]) for ref in refs] == [
        ("main", "branch", True),
        ("team/dev", "branch", False),
        ("v1", "tag", False),
    ]
    assert "team/dev" in tree.ok("ls", "sales").out
    assert tree.ok("ls", "sales/team%2Fdev").out == ""


def test_what_ls_refuses(tree: CommandLine) -> None:
    tree.fails("not_found", 3, "ls", "none")
    tree.fails("not_found", 3, "ls", "sales/none")
    tree.fails("invalid_path", 2, "ls", "sales/main/../x")
    tree.fails("usage", 2, "ls", "sales/main", "--limit", "0")
    tree.fails("invalid_input", 2, "ls", "/main")


# --- rm, cp, mv, stage --------------------------------------------------------------------------


def test_rm(tree: CommandLine) -> None:
    tree.ok("rm", "sales/main/a.txt")
    assert "a.txt" not in _paths(tree, "sales/main")
    assert "-r" in tree.fails("invalid_input", 2, "rm", "sales/main/data")["hint"]
    document = tree.ok("rm", "-r", "sales/main/data", "--json").json
    assert document["deleted"] == ["data/1.csv", "data/2.csv", "data/deep/3.csv"]
    assert _paths(tree, "sales/main") == ["date.txt"]
    tree.fails("not_found", 3, "rm", "sales/main/a.txt")
    tree.fails("not_found", 3, "rm", "-r", "sales/main/data")
    tree.fails("invalid_path", 2, "rm", "sales/main/")


def test_rm_of_a_whole_branch_asks(tree: CommandLine) -> None:
    tree.fails("refused", 6, "rm", "-r", "sales/main")
    assert len(_paths(tree, "sales/main")) == 5
    tree.ok("rm", "-r", "sales/main", "--yes")
    assert _paths(tree, "sales/main") == []


def test_cp_inside_a_branch_shares_the_bytes(tree: CommandLine) -> None:
    copied = tree.ok("cp", "sales/main/a.txt", "sales/main/b.txt", "--json").json
    entries = tree.ok("ls", "-r", "sales/main", "--json").json["entries"]
    addresses = {entry["path"]: entry["address"] for entry in entries}
    assert copied["address"] == addresses["a.txt"] == addresses["b.txt"]


def test_cp_from_another_ref(tree: CommandLine) -> None:
    tree.ok("commit", "sales/main", "-m", "all")
    tree.ok("branch", "create", "sales/dev", "--from", "main")
    tree.ok("rm", "sales/main/a.txt")
    tree.ok("cp", "sales/dev/a.txt", "sales/main/back.txt")
    assert tree.ok("get", "sales/main/back.txt", "-").out == "a.txt"


def test_cp_to_another_repository(tree: CommandLine, catalog: Catalog) -> None:
    catalog.repository("sales").branch("main").put(
        "big", bytes(range(256)) * 50_000, content_type="x/y", metadata={"k": "v"}
    )
    tree.ok("repo", "create", "other")
    tree.ok("cp", "sales/main/big", "other/main/copy")
    copied = catalog.repository("other").at("main")
    assert copied.get("copy") == bytes(range(256)) * 50_000
    entry = copied.stat("copy")
    assert (entry.content_type, entry.metadata) == ("x/y", {"k": "v"})
    tree.ok("cp", "-r", "sales/main/data", "other/main/data2")
    assert copied.get("data2/deep/3.csv") == b"data/deep/3.csv"


def test_cp_recursive(tree: CommandLine) -> None:
    document = tree.ok("cp", "-r", "sales/main/data", "sales/main/again/", "--json").json
    assert document["copied"] == ["again/1.csv", "again/2.csv", "again/deep/3.csv"]
    tree.fails("invalid_input", 2, "cp", "-r", "sales/main/data", "sales/main/data/deep")
    tree.fails("invalid_input", 2, "cp", "-r", "sales/main", "sales/main/all")
    tree.fails("not_found", 3, "cp", "-r", "sales/main/none", "sales/main/all")
    tree.fails("invalid_input", 2, "cp", "sales/main/data", "sales/main/x")
    tree.fails("not_found", 3, "cp", "sales/main/a.txt", "sales/none/x")


def test_mv(tree: CommandLine) -> None:
    before = tree.ok("ls", "sales/main/a.txt", "--json").json["entries"][0]
    moved = tree.ok("mv", "sales/main/a.txt", "sales/main/z.txt", "--json").json
    assert {**moved, "path": "a.txt", "expired": None} == before
    assert "a.txt" not in _paths(tree, "sales/main")
    tree.ok("mv", "-r", "sales/main/data", "sales/main/moved")
    assert _paths(tree, "sales/main/moved/") == [
        "moved/1.csv",
        "moved/2.csv",
        "moved/deep/3.csv",
    ]
    assert _paths(tree, "sales/main/data/") == []


def test_what_mv_refuses(tree: CommandLine) -> None:
    tree.ok("branch", "create", "sales/dev")
    tree.fails("invalid_input", 2, "mv", "sales/main/a.txt", "sales/dev/a.txt")
    tree.fails("invalid_input", 2, "mv", "sales/main/data", "sales/main/x")
    tree.fails("invalid_input", 2, "mv", "-r", "sales/main/data/deep", "sales/main/data")
    tree.fails("not_found", 3, "mv", "sales/main/none", "sales/main/x")
    tree.fails("invalid_input", 2, "mv", "sales/main/a.txt", "sales/main/a.txt")
    assert len(_paths(tree, "sales/main")) == 5


def test_stage(cli: CommandLine, location: Path, catalog: Catalog, tmp_path: Path) -> None:
    (tmp_path / "outside.csv").write_bytes(b"outside")
    url = (tmp_path / "outside.csv").as_uri()
    assert cli.ok("stage", "sales/main/x", url, "--json").json["address"] == url
    assert cli.ok("get", "sales/main/x", "-").out == "outside"
    cli.fails("not_found", 3, "stage", "sales/main/y", (tmp_path / "none").as_uri())
    cli.fails("invalid_input", 2, "stage", "sales/main/y", "relative/file")
    cli.ok("put", "-", "sales/main/mine", stdin=b"mine")
    address = catalog.repository("sales").at("main").stat("mine").address
    owned = (location / "objects" / address).as_uri()
    cli.fails("owned_address", 6, "stage", "sales/main/y", owned)
    assert _paths(cli, "sales/main") == ["mine", "x"]
