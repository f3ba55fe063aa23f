"""Repositories of spec 2 that are checked in: decoded, planned and collected with any library."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import pytest

from reclaim.engine.local.engine import LocalEngine
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine
from reclaim.run.undo.undo_run import undo_run
from reclaim.stores.icechunk.repo_document import RepoDocument
from reclaim.stores.icechunk.repo_file import decode_repo
from reclaim.stores.icechunk.store import IcechunkStore
from tests.icechunk.samples import NAMES, extract, told
from tests.icechunk.world import candidates, plan


@pytest.fixture(params=NAMES)
def sample(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def test_what_the_library_said(sample: str, tmp_path: Path) -> None:
    decoded = decode_repo((extract(sample, tmp_path).folder / "repo").read_bytes(), "repo")
    said = told(sample)["repo"]
    assert [(one.id, one.parent, one.message) for one in decoded.snapshots] == [
        (one["id"], one.get("parent_id"), one["message"]) for one in said["snapshots"]
    ]
    assert [one.written_at for one in decoded.snapshots] == [
        datetime.fromisoformat(one["flushed_at"]) for one in said["snapshots"]
    ]
    assert (decoded.branches, decoded.tags) == (said["branches"], said["tags"])
    assert list(decoded.deleted_tags) == said["deleted_tags"]
    assert [one.backup for one in decoded.updates] == [
        one.get("backup_path") for one in said["latest_updates"]
    ]


def test_repo_is_written_as_it_was(sample: str, tmp_path: Path) -> None:
    data = (extract(sample, tmp_path).folder / "repo").read_bytes()
    again = RepoDocument.read(data, "repo").encode()
    assert decode_repo(again, "repo") == decode_repo(data, "repo")


def test_the_same_is_collected(sample: str, tmp_path: Path) -> None:
    written = extract(sample, tmp_path)
    expected = {folder: set(names) for folder, names in told(sample)["collected"].items()}
    made = plan(written)
    assert candidates(made) == expected
    before = written.objects()
    apply_plan(IcechunkStore(str(written.folder)), LocalEngine(), made.place, removal=DELETE)
    assert written.objects() == {folder: before[folder] - expected[folder] for folder in before}
    left = decode_repo((written.folder / "repo").read_bytes(), "repo")
    assert {one.id for one in left.snapshots} <= written.names("snapshots")


def test_what_was_collected_comes_back(sample: str, tmp_path: Path) -> None:
    written = extract(sample, tmp_path)
    before, repo = written.objects(), RepoDocument.read(_repo(written.folder), "repo")
    store, made = IcechunkStore(str(written.folder)), plan(written)
    removal = MoveToQuarantine(timedelta(days=7))
    run = apply_plan(store, LocalEngine(), made.place, removal=removal).run
    undo_run(store, LocalEngine(), run)
    assert written.objects() == before
    back = RepoDocument.read(_repo(written.folder), "repo")
    assert back.entries() == repo.entries()
    assert back.tips() == repo.tips()


def _repo(folder: Path) -> bytes:
    return (folder / "repo").read_bytes()
