"""Leases of open files while a run collects."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from reclaim.catalog import Branch, Repository
from reclaim.filesystem import ReclaimFileSystem, catalogs
from tests.catalog.leased import eventually, held
from tests.collect.helpers.world import NAME, World, bury
from tests.conftest import Backend


@pytest.fixture
def world(backend: Backend) -> World:
    return World.make(backend)


def test_a_run_leaves_the_commit_of_an_open_file(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    past = bury(world)
    fs: Any = ReclaimFileSystem(world.backend.location, skip_instance_cache=True)
    monkeypatch.setitem(catalogs._opened, fs._url, world.opened())
    path = f"{NAME}/{past.second}/y"
    with fs.open(path, cache_type="none") as file:
        assert file.read(3) == b"old"
        assert held(world.repo) == [past.second]
        world.apply(world.plan())
        assert file.read() == b" y"
    assert eventually(lambda: held(world.repo) == [])
    world.apply(world.plan())
    with pytest.raises(OSError, match="was removed by run") as info:
        fs.open(path)
    assert info.value.errno == errno.ESTALE
    root = f"{NAME}/{past.second}"
    for look in (
        fs.exists,
        fs.find,
        fs.ls,
        lambda path: fs.find(path, maxdepth=2),
        lambda path: list(fs.walk(path)),
    ):
        with pytest.raises(OSError, match="was removed by run") as info:
            look(root)
        assert info.value.errno == errno.ESTALE
    mapper = fs.get_mapper(root)
    with pytest.raises(OSError, match="was removed by run"):
        mapper.get("y")
    with pytest.raises(OSError, match="was removed by run"):
        fs.cp(root, f"{NAME}/main/copy", recursive=True)


def test_a_copy_and_a_download_hold_the_commit(
    fs: Any, repo: Repository, main: Branch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main.put("d/a", b"a")
    commit = main.commit("one").id
    seen: list[list[str]] = []
    for call in ("cp_file", "get_file"):
        monkeypatch.setattr(fs, call, lambda *_args, **_options: seen.append(held(repo)))
    fs.cp(f"sales/{commit}/d", "sales/main/e", recursive=True)
    fs.get(f"sales/{commit}/d", str(tmp_path / "d"), recursive=True)
    assert seen
    assert all(commits == [commit] for commits in seen)
    assert eventually(lambda: held(repo) == [])
    seen.clear()
    fs.cp("sales/main/d", "sales/main/e", recursive=True)
    assert seen
    assert not any(seen)


def test_a_lookup_and_a_branch_leave_no_lease(fs: Any, repo: Repository, main: Branch) -> None:
    main.put("a", b"a")
    repo.create_tag("v1", main.commit("one").id)
    with fs.open("sales/main/a") as file:
        assert file.read() == b"a"
        assert held(repo) == []
    assert fs.cat("sales/v1/a") == b"a"
    assert fs.find("sales/v1") == ["sales/v1/a"]
    assert eventually(lambda: held(repo) == [])
