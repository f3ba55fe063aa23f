"""A link inside the storage: the plan is refused by name, and nothing is deleted through it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from reclaim.errors import Partial, UnsafeFolder
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine, Removal
from reclaim.stores.catalog import CatalogStore
from reclaim.urls import path_of
from tests.collect.helpers.world import NAME, World, bury


def folder_of(world: World) -> Path:
    return Path(path_of(world.storage.url)) / "repos" / world.repo.uid


def files_in(*folders: Path) -> set[str]:
    """Every file, by its real name, but for what runs write for themselves."""
    found = (
        f"{folder}/{name}"
        for top in folders
        for folder, inside, names in os.walk(top)
        for name in (*names, *(one for one in inside if (Path(folder) / one).is_symlink()))
    )
    ours = ("/_reclaim/runs/", "/_reclaim/epoch/")
    return {path for path in found if not any(part in path for part in ours)}


@contextmanager
def refused(world: World, outside: Path, link: str) -> Iterator[None]:
    there = files_in(folder_of(world), outside)
    with pytest.raises(UnsafeFolder, match=link) as caught:
        yield
    assert caught.value.exit_code == 6
    assert caught.value.hint
    assert files_in(folder_of(world), outside) == there


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    outside = tmp_path / "outside"
    (outside / "part").mkdir(parents=True)
    (outside / "part" / "x").write_bytes(b"kept")
    return outside


Plant = Callable[[Path, Path], Path]


def a_branch(folder: Path, _outside: Path) -> Path:
    link = folder / "branches" / "alias"
    link.symlink_to("main")
    return link


def a_partition(folder: Path, outside: Path) -> Path:
    partition = next((folder / "branches" / "main").iterdir()).name
    link = folder / "branches" / "old" / partition
    if link.exists():
        link.rename(link.with_name("0" * 32))
    link.symlink_to(outside / "part")
    return link


def an_object(folder: Path, outside: Path) -> Path:
    link = next((folder / "branches" / "main").iterdir()) / ("0" * 32)
    link.symlink_to(outside / "part" / "x")
    return link


def a_container(folder: Path, _outside: Path) -> Path:
    link = folder / "_reclaim" / "meta" / ("0" * 32)
    link.symlink_to(next((folder / "_reclaim" / "meta").iterdir()))
    return link


LINKS = {
    "a branch": a_branch,
    "a partition": a_partition,
    "an object": an_object,
    "a container": a_container,
}


@pytest.mark.parametrize("link", LINKS)
def test_a_link_refuses_the_plan(local: World, outside: Path, link: str) -> None:
    bury(local)
    found = LINKS[link](folder_of(local), outside)
    with refused(local, outside, found.name):
        local.plan()
    found.unlink()
    local.check()


def test_a_link_in_a_deleted_repository(local: World, outside: Path) -> None:
    bury(local)
    (folder_of(local) / "anywhere").symlink_to(outside)
    catalog = local.opened()
    catalog.delete_repository(NAME)
    store = CatalogStore(next(one for one in catalog.workspaces() if one.deleted))
    local.age()
    with refused(local, outside, "anywhere"):
        local.plan(store=store)


@pytest.mark.parametrize("removal", [DELETE, MoveToQuarantine()], ids=["deletes", "sets aside"])
def test_a_link_that_is_put_there_after_the_plan(
    local: World, outside: Path, removal: Removal
) -> None:
    """What the plan lists is looked for under a link: left, and named as failed."""
    bury(local)
    plan = local.plan()
    doomed = [address for address in local.candidates(plan) if "/branches/" in address]
    partition = folder_of(local).parents[1] / doomed[0].rpartition("/")[0]
    partition.rename(outside / "moved")
    partition.symlink_to(outside / "moved")
    there = files_in(outside)
    with pytest.raises(Partial):
        local.apply(plan, removal=removal)
    assert files_in(outside) == there
    partition.unlink()
    (outside / "moved").rename(partition)
    local.check()
    local.apply(plan, removal=removal)
    assert local.there().isdisjoint(doomed)


def test_a_link_in_the_quarantine(local: World, outside: Path) -> None:
    """Undo goes by its journal and leaves the link; what it points at stays as well."""
    bury(local)
    before = local.there()
    run = local.apply(local.plan(), removal=MoveToQuarantine()).run
    link = folder_of(local) / "_reclaim" / "quarantine" / run / "branches" / "alias"
    link.symlink_to(outside)
    there = files_in(outside)
    local.undo(run)
    assert link.is_symlink()
    link.unlink()
    assert local.there() == before
    assert files_in(outside) == there


def test_a_link_in_the_quarantine_at_its_end(local: World, outside: Path) -> None:
    bury(local)
    run = local.apply(local.plan(), removal=MoveToQuarantine()).run
    link = folder_of(local) / "_reclaim" / "quarantine" / run / "branches" / "alias"
    link.symlink_to(outside)
    there = files_in(outside)
    local.clock.advance(days=8)
    with suppress(UnsafeFolder):
        local.purge()
    assert files_in(outside) == there
