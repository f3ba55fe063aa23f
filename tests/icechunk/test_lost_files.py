"""Files of a repository that somebody lost, or put back; and refs to what is in quarantine."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import icechunk
import pytest

from reclaim.engine.local.engine import LocalEngine
from reclaim.errors import Conflict, Partial, Refused, StorageUnavailable
from reclaim.model import SnapshotId
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.purge.purge import purge
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.run.undo.undo_run import Undone, undo_run
from reclaim.storage import ObjectStorage, Storage
from reclaim.stores.icechunk.held import HeldIcechunk
from reclaim.stores.icechunk.store import IcechunkStore
from reclaim.testing import StorageWrapper
from reclaim.urls import normalize
from tests.icechunk.repositories import FIRST, WrittenRepository
from tests.icechunk.test_apply import apply, contents, spec_2
from tests.icechunk.world import bury, candidates, plan

WINDOW = MoveToQuarantine(timedelta(days=7))


def set_aside(written: WrittenRepository) -> str:
    made = plan(written)
    store = IcechunkStore(str(written.folder))
    apply_plan(store, LocalEngine(), made.place, removal=WINDOW)
    return made.document.run


def undo(written: WrittenRepository, run: str) -> Undone:
    return undo_run(IcechunkStore(str(written.folder)), LocalEngine(), run)


@spec_2
def test_what_was_taken_out_is_written_down_no_more(tmp_path: Path) -> None:
    """The undo says what it could not do, and does it once the file is back."""
    written = WrittenRepository.create(tmp_path / "repository", 2)
    dead = bury(written)
    run = set_aside(written)
    document = written.folder / "_reclaim/withdrawn.json"
    kept = document.read_bytes()
    document.unlink()
    with pytest.raises(Partial, match=r"withdrawn\.json") as error:
        undo(written, run)
    assert all(any(one in line for line in error.value.details["waits"]) for one in dead)
    document.write_bytes(kept)
    assert undo(written, run).snapshots == len(dead)
    after = written.reopened()
    for number, snapshot in enumerate(dead):
        after.branch(f"back-{number}", snapshot)


@spec_2
def test_what_was_never_listed_comes_back_without_an_entry(tmp_path: Path) -> None:
    """As the snapshot of a commit that was not finished: there is nothing to put into ``repo``."""
    written = WrittenRepository.create(tmp_path / "repository", 2)
    dead = bury(written)
    set_aside(written)
    orphan = written.folder / "snapshots" / dead[0]
    quarantined = next(written.folder.glob(f"_reclaim/quarantine/*/snapshots/{dead[0]}"))
    orphan.write_bytes(quarantined.read_bytes())
    purge(IcechunkStore(str(written.folder)), LocalEngine(), older_than=timedelta(0))
    written.age()
    run = set_aside(written)
    assert not orphan.exists()
    assert undo(written, run).left == ()
    assert orphan.exists()


@spec_2
@pytest.mark.parametrize("changed", [True, False])
def test_repo_is_lost(tmp_path: Path, changed: bool) -> None:
    """Refs of spec 1 that an upgrade left tell nothing of what was committed since."""
    written = WrittenRepository.create(tmp_path / "repository", 1)
    written.write(1)
    icechunk.upgrade_icechunk_repository(
        written.reopened().repository, dry_run=False, delete_unused_v1_files=False
    )
    written = written.reopened()
    written.write(2)
    written.age()
    before = contents(written)
    repo = written.folder / "repo"
    kept = repo.read_bytes()
    repo.unlink()
    if not changed:
        for backup in (written.folder / "overwritten").iterdir():
            backup.unlink()
    with pytest.raises(Refused, match="has no file repo"):
        plan(written)
    repo.write_bytes(kept)
    assert contents(written.reopened()) == before


def test_a_branch_made_right_after_the_last_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In spec 1 nothing keeps a writer from it: the purge brings it back, whole."""
    written = WrittenRepository.create(tmp_path / "repository", 1)
    dead = bury(written)
    before = contents(written)
    promote = HeldIcechunk.promote

    def promote_late(held: HeldIcechunk) -> int:
        promoted = promote(held)
        written.reopened().branch("late", dead[1])
        return promoted

    monkeypatch.setattr(HeldIcechunk, "promote", promote_late)
    set_aside(written)
    monkeypatch.undo()
    done = purge(IcechunkStore(str(written.folder)), LocalEngine(), older_than=timedelta(0))
    assert done is not None
    assert done.summary()["rescued"]
    after = written.reopened()
    assert [one.id for one in after.repository.ancestry(branch="late")][:2] == dead[::-1]
    assert contents(after)["{'branch': 'late'}"]["a"] == [3] * 8
    assert contents(after)["{'branch': 'main'}"] == before["{'branch': 'main'}"]


@spec_2
def test_an_older_repo_is_put_back(tmp_path: Path) -> None:
    """A branch in it is at what is in quarantine: the purge brings that back."""
    written = WrittenRepository.create(tmp_path / "repository", 2)
    written.write(1)
    written.branch("side", written.tip())
    written.write(2, branch="side")
    older = (written.folder / "repo").read_bytes()
    written.repository.delete_branch("side")
    written.age()
    set_aside(written)
    (written.folder / "repo").write_bytes(older)
    done = purge(IcechunkStore(str(written.folder)), LocalEngine(), older_than=timedelta(0))
    assert done is not None
    assert done.summary()["rescued"]
    assert contents(written.reopened())["{'branch': 'side'}"]["a"] == [2] * 8


class CommitsAfterSwap(StorageWrapper):
    """A storage in which others commit right after ``repo`` was replaced for the first time."""

    def __init__(self, written: WrittenRepository) -> None:
        super().__init__(ObjectStorage.open(normalize(str(written.folder.parent))))
        self._values = [70, 71, 72]
        self._written = written

    def swap(self, address: str, data: bytes, *, version: str) -> None:
        super().swap(address, data, version=version)
        while self._values:
            self._written.write(self._values.pop())


@spec_2
def test_a_log_that_the_library_has_cut_short(tmp_path: Path) -> None:
    """Our write is found in it all the same, and the backup that it names stays."""
    config = icechunk.RepositoryConfig(
        inline_chunk_threshold_bytes=0, num_updates_per_repo_info_file=1
    )
    written = WrittenRepository.create(tmp_path / "repository", 2, config)
    bury(written)
    written.repository.save_config()
    made = plan(written)
    apply(written, made, CommitsAfterSwap(written))
    log = list(written.reopened().repository.ops_log())
    assert {one.backup_path for one in log if one.backup_path} <= written.names("overwritten")
    assert sum("GCRan" in str(one.kind) for one in log) == 1


def test_a_file_with_the_name_of_a_snapshot_further_below(
    written: WrittenRepository, spec: int
) -> None:
    """As a copy that somebody keeps there: neither its age nor what is in it counts."""
    dead = bury(written)
    young = written.folder / "snapshots" / dead[1]
    stray = written.folder / "snapshots/kept" / dead[1]
    stray.parent.mkdir()
    # With the age of another time, and the parents of another snapshot.
    stray.write_bytes((written.folder / "snapshots" / written.tip()).read_bytes())
    os.utime(stray, (1, 1))
    os.utime(young)
    taken = candidates(plan(written))
    assert not any(taken.values())
    before = contents(written)
    main = [one.id for one in written.repository.ancestry(branch="main")]
    above = written.folder / "snapshots/kept" / main[0]
    above.write_bytes((written.folder / "snapshots" / FIRST).read_bytes())
    os.utime(young, (1, 1))
    apply(written, plan(written))
    after = written.reopened()
    assert [one.id for one in after.repository.ancestry(branch="main")] == main
    assert contents(after) == before


@spec_2
def test_it_becomes_read_only_between_plan_and_apply(tmp_path: Path) -> None:
    written = WrittenRepository.create(tmp_path / "repository", 2)
    bury(written)
    made = plan(written)
    read_only = icechunk.RepoAvailability.read_only
    status = icechunk.RepoStatus(read_only, limited_availability_reason="audit")
    written.repository.set_status(status)
    before = written.objects()
    with pytest.raises(Refused, match="is read only: audit"):
        apply(written, made)
    assert written.objects() == before


@spec_2
def test_what_a_run_left_is_not_cleaned_while_it_is_read_only(tmp_path: Path) -> None:
    written = WrittenRepository.create(tmp_path / "repository", 2)
    dead = bury(written)
    store = IcechunkStore(str(written.folder))
    with store.lock("died") as held:
        held.begin()
        assert held.condemn({SnapshotId(one): "a rule" for one in dead}) == len(dead)
    written.reopened().repository.set_status(
        icechunk.RepoStatus(icechunk.RepoAvailability.read_only)
    )
    before = written.objects()
    with pytest.raises(Refused, match="is read only"):
        store.clean()
    assert written.objects() == before
    written.reopened().repository.set_status(icechunk.RepoStatus(icechunk.RepoAvailability.online))
    store.clean()
    after = written.reopened()
    for number, snapshot in enumerate(dead):
        after.branch(f"back-{number}", snapshot)


@spec_2
def test_it_is_upgraded_between_plan_and_apply(tmp_path: Path) -> None:
    written = WrittenRepository.create(tmp_path / "repository", 1)
    bury(written)
    made = plan(written)
    store = IcechunkStore(str(written.folder))
    icechunk.upgrade_icechunk_repository(written.reopened().repository, dry_run=False)
    before = written.objects()
    with pytest.raises(Conflict, match="was upgraded"):
        apply_plan(store, LocalEngine(), made.place, removal=WINDOW)
    assert written.objects() == before


@spec_2
def test_a_parent_that_does_not_come_back(tmp_path: Path) -> None:
    """What came back without it stays below the ancestor that stands in, whatever ends later."""
    written = WrittenRepository.create(tmp_path / "repository", 2)
    written.write(1)
    written.branch("side", written.tip())
    line = [written.write(value, "s", branch="side") for value in (2, 3, 4, 5)]
    written.repository.reset_branch("side", line[1])
    written.age()
    run = set_aside(written)
    next(written.folder.glob(f"_reclaim/quarantine/*/snapshots/{line[2]}")).unlink()
    with pytest.raises(Partial):
        undo(written, run)
    written = written.reopened()
    written.branch("saved", line[3])
    written.repository.delete_branch("side")
    history = [one.id for one in written.repository.ancestry(branch="saved")]
    assert history[:3] == [line[3], line[1], line[0]]
    purge(IcechunkStore(str(written.folder)), LocalEngine(), older_than=timedelta(0))
    for _ in range(2):
        written.age()
        apply(written, plan(written))
    after = written.reopened()
    assert [one.id for one in after.repository.ancestry(branch="saved")] == history
    # Taken and brought back once more, it is where it was.
    after.repository.delete_branch("saved")
    after.branch("kept", line[1])
    after.age()
    again = set_aside(after)
    assert undo(after, again).left == ()
    after = after.reopened()
    after.branch("saved", line[3])
    assert [one.id for one in after.repository.ancestry(branch="saved")] == history


class FailsToMove(StorageWrapper):
    """A storage that does not move some objects out of quarantine at first."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.failing = True

    def move(self, source: str, target: str, **how: Any) -> None:
        chunk = "/chunks/" in source and source[-1] in "0G" and source[-2] < "G"
        if self.failing and "/quarantine/" in source and ("/snapshots/" in source or chunk):
            raise StorageUnavailable("slow down")
        super().move(source, target, **how)


def test_a_rescue_that_was_cut_short(written: WrittenRepository, spec: int) -> None:
    """The next purge brings the rest back, although the manifest is at home by then."""
    written.write(1)
    written.branch("side", written.tip())
    written.write(6, "e", branch="side", chunks=16)
    before = contents(written)
    ref = written.folder / ("repo" if spec > 1 else "refs/branch.side/ref.json")
    kept = ref.read_bytes()
    written.repository.delete_branch("side")
    written.age()
    set_aside(written)
    ref.parent.mkdir(parents=True, exist_ok=True)
    ref.write_bytes(kept)
    storage = FailsToMove(ObjectStorage.open(normalize(str(written.folder.parent))))
    engine = LocalEngine(lambda _url: storage)
    for failing in (True, False):
        storage.failing = failing
        store = IcechunkStore(str(written.folder), storage=storage)
        with suppress(Partial):
            purge(store, engine, older_than=timedelta(0), opener=lambda _url: storage)
    assert contents(written.reopened()) == before


@spec_2
def test_logs_that_an_ancestor_of_what_is_promised_needs(tmp_path: Path) -> None:
    """Its parent expired before: the log of that is needed once the child is back."""
    written = WrittenRepository.create(tmp_path / "repository", 2)
    written.write(1)
    written.branch("side", FIRST)
    expired = written.write(2, "x", branch="side")
    bound = datetime.now(UTC)
    parent, child = (written.write(value, "p", branch="side") for value in (3, 4))
    written.reopened().repository.expire_snapshots(bound)
    written = written.reopened()
    written.age()
    apply(written, plan(written))
    written = written.reopened()
    written.repository.reset_branch("side", parent)
    written.age()
    run = set_aside(written)
    written = written.reopened()
    written.repository.delete_branch("side")
    apply(written, plan(written))
    assert expired in written.names("transactions")
    assert undo(written, run).snapshots == 1
    after = written.reopened()
    assert "/x" in str(after.repository.diff(from_snapshot_id=FIRST, to_snapshot_id=child))
