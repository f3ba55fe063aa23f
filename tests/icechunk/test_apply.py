"""Applying plans: what is left, what the library says of it, and writers that do not wait."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr

from reclaim.engine.local.engine import LocalEngine
from reclaim.errors import Conflict
from reclaim.model import SnapshotId
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine
from reclaim.run.undo.undo_run import undo_run
from reclaim.storage import ObjectStorage, Storage
from reclaim.stores.icechunk.store import IcechunkStore
from reclaim.testing.storage import StorageWrapper
from reclaim.urls import normalize
from tests.cli.conftest import CommandLine, bare, plain
from tests.icechunk.repositories import NEWEST_SPEC, WrittenRepository, bucket_storage
from tests.icechunk.world import DAY, build_randomly, bury, copied, plan
from tests.support.servers import SeaweedFS

__all__ = ["bare", "plain"]

spec_2 = pytest.mark.skipif(NEWEST_SPEC < 2, reason="the installed library writes spec 1 only")


def apply(written: WrittenRepository, made: WrittenPlan, storage: Storage | None = None) -> None:
    store = IcechunkStore(str(written.folder), storage=storage)
    apply_plan(store, LocalEngine(), made.place, removal=DELETE)


def told(written: WrittenRepository) -> dict[str, Any]:
    """What the library says of ``repo``, but for its log, whose times differ."""
    said = written.repository.inspect_repo_info()
    return {key: said[key] for key in said if key not in ("header", "latest_updates")}


def contents(written: WrittenRepository) -> dict[str, dict[str, Any]]:
    """The arrays at every branch and tag, as the library reads them."""
    repository = written.repository
    refs = [{"branch": one} for one in repository.list_branches()]
    refs += [{"tag": one} for one in repository.list_tags()]
    read: dict[str, dict[str, Any]] = {}
    for ref in refs:
        store = repository.readonly_session(**ref).store
        try:
            group = zarr.open_group(store, mode="r")
        except FileNotFoundError:
            read[str(ref)] = {}
            continue
        read[str(ref)] = {name: np.asarray(array[...]).tolist() for name, array in group.arrays()}
    return read


@pytest.mark.parametrize("seed", range(3))
def test_what_is_left_is_what_the_library_leaves(
    written: WrittenRepository, spec: int, seed: int
) -> None:
    build_randomly(written, Random(seed))
    before = contents(written)
    with copied(written) as copy:
        apply(written, plan(written))
        copy.repository.garbage_collect(datetime.now(UTC) - DAY)
        assert written.objects() == copy.objects()
        ours, theirs = written.reopened(), copy.reopened()
        assert contents(ours) == contents(theirs) == before
        for ref in ours.repository.list_branches():
            chains = [
                [(one.id, one.parent_id) for one in each.repository.ancestry(branch=ref)]
                for each in (ours, theirs)
            ]
            assert chains[0] == chains[1]
        if spec > 1:
            assert told(ours) == told(theirs)
            ours.write(99)
            logs = [[str(one.kind) for one in each.repository.ops_log()] for each in (ours, theirs)]
            # Without the commit of just now; where nothing was to be taken out, nothing was.
            assert [one for one in logs[0][1:] if "GCRan" not in one] == [
                one for one in logs[1] if "GCRan" not in one
            ]


class BeforeSwap(StorageWrapper):
    """A storage in which something happens once, right before an object is replaced."""

    def __init__(self, inner: Storage, call: Callable[[], object]) -> None:
        super().__init__(inner)
        self._calls = [call]

    def swap(self, address: str, data: bytes, *, version: str) -> None:
        if self._calls:
            self._calls.pop()()
        super().swap(address, data, version=version)


@spec_2
def test_a_commit_between_our_read_and_our_write(tmp_path: Path) -> None:
    written = WrittenRepository.create(tmp_path / "repository", 2)
    dead = bury(written)
    made = plan(written)
    storage = BeforeSwap(ObjectStorage.open(normalize(str(tmp_path))), lambda: written.write(77))
    apply(written, made, storage)
    after = written.reopened()
    assert contents(after)["{'branch': 'main'}"]["a"] == [77] * 8
    assert written.names("snapshots").isdisjoint(dead)
    for snapshot in dead:
        with pytest.raises(icechunk.IcechunkError, match="not found"):
            after.branch("late", snapshot)
    assert len({one.backup_path for one in after.repository.ops_log()}) == len(
        list(after.repository.ops_log())
    )
    # What was copied for a write that failed is not left behind.
    backups = {one.backup_path for one in after.repository.ops_log()} - {None}
    assert written.names("overwritten") == backups


@spec_2
def test_a_branch_that_is_made_before_a_snapshot_is_taken_out(tmp_path: Path) -> None:
    written = WrittenRepository.create(tmp_path / "repository", 2)
    first, second = bury(written)
    made = plan(written)
    storage = BeforeSwap(
        ObjectStorage.open(normalize(str(tmp_path))), lambda: written.branch("saved", first)
    )
    apply(written, made, storage)
    after = written.reopened()
    assert after.tip("saved") == first
    assert contents(after)["{'branch': 'saved'}"]["a"] == [2] * 8
    assert second not in written.names("snapshots")


class WrittenOver(StorageWrapper):
    """A storage on a disk, where somebody who has read an object before it was replaced writes it
    over, once."""

    def __init__(self, inner: Storage, call: Callable[[], object]) -> None:
        super().__init__(inner)
        self._calls = [call]

    def swap(self, address: str, data: bytes, *, version: str) -> None:
        before = self.get(address)
        super().swap(address, data, version=version)
        if self._calls:
            self.put(address, before)
            self._calls.pop()()


@spec_2
def test_a_repo_that_is_written_over(tmp_path: Path) -> None:
    """What was taken out is there again; it is taken out once more."""
    written = WrittenRepository.create(tmp_path / "repository", 2)
    dead = bury(written)
    storage = WrittenOver(ObjectStorage.open(normalize(str(tmp_path))), lambda: written.write(77))
    with IcechunkStore(str(written.folder), storage=storage).lock("run") as held:
        held.begin()
        held.condemn({SnapshotId(one): "a rule" for one in dead})
        after = written.reopened()
        for snapshot in dead:
            with pytest.raises(icechunk.IcechunkError, match="not found"):
                after.branch("late", snapshot)
    assert contents(after)["{'branch': 'main'}"]["a"] == [77] * 8


@spec_2
def test_a_repo_that_is_written_over_late(tmp_path: Path) -> None:
    """Somebody has made a branch there meanwhile: nothing is made terminal."""
    written = WrittenRepository.create(tmp_path / "repository", 2)
    first, second = map(SnapshotId, bury(written))
    before = (written.folder / "repo").read_bytes()
    with IcechunkStore(str(written.folder)).lock("run") as held:
        held.begin()
        assert held.condemn({first: "a rule", second: "a rule"}) == 2
        (written.folder / "repo").write_bytes(before)
        written.reopened().branch("saved", first)
        with pytest.raises(Conflict, match="is referenced again"):
            held.promote()
        held.abandon()
    assert written.reopened().tip("saved") == first


class LosesAnswer(StorageWrapper):
    """A storage that replaces an object, and says that it did not: the request was sent twice."""

    def __init__(self, inner: Storage, call: Callable[[], object]) -> None:
        super().__init__(inner)
        self._call = call

    def swap(self, address: str, data: bytes, *, version: str) -> None:
        super().swap(address, data, version=version)
        self._call()
        raise Conflict("it is not that version any more")


@spec_2
@pytest.mark.parametrize("written_since", [False, True])
def test_an_answer_that_is_lost(tmp_path: Path, written_since: bool) -> None:
    written = WrittenRepository.create(tmp_path / "repository", 2)
    dead = bury(written)
    commits: list[str] = []

    def commit() -> None:
        if written_since and not commits:
            commits.append(written.reopened().write(66))

    storage = LosesAnswer(ObjectStorage.open(normalize(str(tmp_path))), commit)
    apply(written, plan(written), storage)
    after = written.reopened()
    assert written.names("snapshots").isdisjoint(dead)
    log = list(after.repository.ops_log())
    assert {one.backup_path for one in log} - {None} == written.names("overwritten")
    assert len([one for one in log if "GCRan" in str(one.kind)]) == 1
    assert contents(after)["{'branch': 'main'}"]["a"] == [66 if written_since else 4] * 8


@spec_2
def test_logs_that_a_snapshot_in_quarantine_needs_stay(tmp_path: Path) -> None:
    """It has lost ancestors to an expiration, and comes back with an undo."""
    written = WrittenRepository.create(tmp_path / "repository", 2)
    written.branch("side", written.tip())
    ids = [written.write(value, branch="side") for value in range(3)]
    times = {info.id: info.written_at for info in written.repository.ancestry(branch="side")}
    written.repository.expire_snapshots(times[ids[2]])
    written.age(excluding=ids[:2])
    written.repository.delete_branch("side")
    store = IcechunkStore(str(written.folder))
    made = plan(written)
    run = apply_plan(
        store, LocalEngine(), made.place, removal=MoveToQuarantine(timedelta(days=7))
    ).run
    # Too young for that run, and of use to nobody but what it has in quarantine.
    written.age()
    assert set(ids[:2]) <= written.names("transactions")
    apply(written, plan(written))
    assert set(ids[:2]) <= written.names("transactions")
    undo_run(store, LocalEngine(), run)
    written.reopened().branch("back", ids[2])


class Died(Exception):
    """The process ends here."""


class DiesAfterSwap(StorageWrapper):
    """A storage that is not answered any more once it has replaced an object."""

    def swap(self, address: str, data: bytes, *, version: str) -> None:
        super().swap(address, data, version=version)
        raise Died


@spec_2
def test_a_run_that_dies_right_after_it_wrote_repo(tmp_path: Path) -> None:
    """What it took out is put back by the next one, as it was."""
    written = WrittenRepository.create(tmp_path / "repository", 2)
    dead = bury(written)
    before = told(written)
    dying = DiesAfterSwap(ObjectStorage.open(normalize(str(tmp_path))))
    with IcechunkStore(str(written.folder), storage=dying).lock("1") as held:
        held.begin()
        with pytest.raises(Died):
            held.condemn({SnapshotId(one): "a rule" for one in dead})
    with pytest.raises(icechunk.IcechunkError, match="not found"):
        written.reopened().branch("back", dead[1])
    with IcechunkStore(str(written.folder)).lock("2") as held:
        held.begin()
    after = written.reopened()
    assert told(after) == before
    after.branch("back", dead[1])


@spec_2
def test_a_snapshot_without_its_file_is_not_put_back(tmp_path: Path) -> None:
    """It was taken out by a run that died, and has been collected by somebody else since."""
    written = WrittenRepository.create(tmp_path / "repository", 2)
    first, second = map(SnapshotId, bury(written))
    store = IcechunkStore(str(written.folder))
    with store.lock("first") as held:
        held.begin()
        held.condemn({first: "a rule", second: "a rule"})
    (written.folder / "snapshots" / second).unlink()
    with store.lock("second") as held:
        held.begin()
    after = written.reopened()
    after.branch("back", first)
    with pytest.raises(icechunk.IcechunkError, match="not found"):
        after.branch("gone", second)


def test_what_comes_back_between_plan_and_apply(written: WrittenRepository) -> None:
    """A branch at what was dead, and a commit on it that uses its chunks."""
    first, second = bury(written)
    made = plan(written)
    written.branch("back", first)
    with written.session("back") as group:
        group["a"][0:2] = 55
    apply(written, made)
    after = written.reopened()
    assert contents(after)["{'branch': 'back'}"]["a"] == [55, 55, *[2] * 6]
    assert first in written.names("snapshots")
    assert second not in written.names("snapshots")


def test_a_collected_repository_goes_on_living(written: WrittenRepository, spec: int) -> None:
    bury(written)
    apply(written, plan(written))
    if spec == 1 and NEWEST_SPEC > 1:
        icechunk.upgrade_icechunk_repository(written.reopened().repository, dry_run=False)
    after = written.reopened()
    after.write(5)
    after.branch("more", after.tip())
    times = [info.written_at for info in after.repository.ancestry(branch="main")]
    after.repository.expire_snapshots(times[0])
    after.repository.garbage_collect(datetime.now(UTC) + timedelta(minutes=1))
    assert contents(after.reopened())["{'branch': 'more'}"]["a"] == [5] * 8


@pytest.mark.usefixtures("plain")
def test_in_a_bucket(
    bare: CommandLine, s3: SeaweedFS, spec: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    bucket = s3.new_bucket()

    written = WrittenRepository.create(tmp_path, spec, storage=bucket_storage(s3, bucket))
    written.write(1)
    written.branch("side", written.tip())
    dead = written.write(2, branch="side")
    written.repository.delete_branch("side")
    name = f"icechunk:{bucket}/data/repository"
    made = bare.ok("plan", name, "--min-age", "0s", "--json").json
    assert (made["dead"], made["candidates"]) == (1, 7)
    done = bare.ok("apply", made["plan"], "--store", name, "--yes", "--json").json
    assert (done["objects"], done["collected"], done["failed"]) == (7, 1, 0)
    after = written.reopened()
    if spec > 1:
        with pytest.raises(icechunk.IcechunkError, match="not found"):
            after.branch("late", dead)
    after.write(3)
    back = bare.ok("undo", done["run"], "--store", name, "--json").json
    assert (back["objects"], back["restored"]) == (7, 1)
    again = written.reopened()
    again.branch("back", dead)
    values: Any = zarr.open_group(again.repository.readonly_session("back").store, mode="r")["a"]
    assert np.array_equal(values[...], np.full(8, 2))
