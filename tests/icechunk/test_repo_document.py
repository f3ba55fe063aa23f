"""Writing ``repo``: the library reads what we write, and goes on with it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr

from reclaim.errors import Conflict, UnknownVersion
from reclaim.model import SnapshotId
from reclaim.stores.icechunk.envelope import FileType
from reclaim.stores.icechunk.repo_document import RepoDocument, backup_name
from reclaim.stores.icechunk.repo_file import decode_repo
from reclaim.stores.icechunk.repo_schema import UPDATES
from tests.icechunk.later_version import with_fields
from tests.icechunk.repositories import FIRST, NEWEST_SPEC, WrittenRepository

pytestmark = pytest.mark.skipif(NEWEST_SPEC < 2, reason="the installed library writes spec 1 only")


@pytest.fixture
def spec() -> int:
    return 2


def document(written: WrittenRepository) -> RepoDocument:
    return RepoDocument.read((written.folder / "repo").read_bytes(), "repo")


def replace(written: WrittenRepository, changed: RepoDocument) -> WrittenRepository:
    """Put a document in the place of ``repo``, as a collection does, and open it anew."""
    before, now = (written.folder / "repo").read_bytes(), datetime.now(UTC)
    name = backup_name(now, bytes(range(12)))
    (written.folder / "overwritten" / name).write_bytes(before)
    (written.folder / "repo").write_bytes(changed.updated(now, name).encode())
    return written.reopened()


def told(written: WrittenRepository) -> dict[str, Any]:
    said: dict[str, Any] = written.repository.inspect_repo_info()
    return {key: value for key, value in said.items() if key != "header"}


def everything(written: WrittenRepository) -> list[str]:
    """Do everything that leaves a trace in ``repo``; the snapshots that nothing reaches."""
    repository = written.repository
    old = [written.write(value) for value in (7, 8)]
    first = written.write(1)
    times = {info.id: info.written_at for info in repository.ancestry(branch="main")}
    assert repository.expire_snapshots(times[first]) == set(old)
    written.branch("side", first)
    dead = [written.write(value, branch="side") for value in (2, 3)]
    repository.reset_branch("side", first)
    repository.create_tag("v1", first)
    repository.create_tag("gone", first)
    repository.delete_tag("gone")
    written.branch("gone", first)
    repository.delete_branch("gone")
    repository.set_metadata({"owner": "a team", "number": 3})
    repository.save_config()
    session = repository.writable_session("main")
    session.commit("empty", metadata={"by": "a test"}, allow_empty=True)
    written.write(4)
    session = repository.writable_session("main")
    zarr.open_group(session.store, mode="a").require_group("amended")
    session.amend("amended")
    for flag in repository.feature_flags():
        repository.set_feature_flag(flag.name, True)
    for availability in ("read_only", "online"):
        value = getattr(icechunk.RepoAvailability, availability)
        repository.set_status(icechunk.RepoStatus(value, limited_availability_reason="a while"))
    live = {
        info.id
        for branch in repository.list_branches()
        for info in repository.ancestry(branch=branch)
    } | {info.id for info in repository.ancestry(tag="v1")}
    unreached = {info.id for info in decode_repo(_bytes(written), "repo").snapshots} - live
    assert unreached >= set(dead)
    return sorted(unreached)


def _bytes(written: WrittenRepository) -> bytes:
    return (written.folder / "repo").read_bytes()


def test_every_field_is_carried_over(written: WrittenRepository) -> None:
    everything(written)
    before = told(written)
    (written.folder / "repo").write_bytes(document(written).encode())
    assert told(written.reopened()) == before


def test_snapshots_are_taken_out(written: WrittenRepository) -> None:
    dead = everything(written)
    before, log = told(written), list(map(str, written.repository.ops_log()))
    after = replace(written, document(written).without(list(map(SnapshotId, dead))))
    said = told(after)
    assert [one["id"] for one in said["snapshots"]] == [
        one["id"] for one in before["snapshots"] if one["id"] not in dead
    ]
    for one in said["snapshots"]:
        assert one in before["snapshots"]
    for key in before.keys() - {"snapshots", "latest_updates"}:
        assert said[key] == before[key]
    latest, second, *others = said["latest_updates"]
    assert latest["update_type"] == {"type": "GCRanUpdate"}
    assert "backup_path" not in latest
    assert second.pop("backup_path") in written.names("overwritten")
    assert [second, *others] == before["latest_updates"]
    assert len(list(after.repository.ops_log())) == len(log) + 1
    # Nobody can refer to them any more, although their files are there.
    for snapshot in dead:
        with pytest.raises(icechunk.IcechunkError, match="snapshot id not found"):
            after.branch(f"at-{snapshot}", snapshot)


def test_a_repository_goes_on_living(written: WrittenRepository) -> None:
    dead = everything(written)
    after = replace(written, document(written).without(list(map(SnapshotId, dead))))
    tip = after.write(7)
    after.repository.garbage_collect(datetime.now(UTC))
    assert written.names("snapshots").isdisjoint(dead)
    assert after.tip() == tip
    store = after.repository.readonly_session("main").store
    values: Any = zarr.open_group(store, mode="r")["a"]
    assert np.array_equal(values[...], np.full(8, 7))
    after.repository.expire_snapshots(datetime.now(UTC))
    assert FIRST in written.names("snapshots")


def test_snapshots_are_put_back(written: WrittenRepository) -> None:
    dead = everything(written)
    entries = document(written).entries()
    before = told(written)
    ids = list(map(SnapshotId, dead))
    after = replace(written, document(written).without(ids))
    back = document(after).with_entries({one: entries[one] for one in ids})
    after = replace(after, back)
    assert told(after)["snapshots"] == before["snapshots"]
    after.branch("back", dead[0])
    assert after.tip("back") == dead[0]


@pytest.mark.parametrize("by", ["branch", "tag", "child"])
def test_what_is_referred_to_is_not_taken_out(written: WrittenRepository, by: str) -> None:
    first = written.write(1)
    if by == "tag":
        written.repository.create_tag("v1", first)
    snapshot = first if by != "child" else FIRST
    if by != "branch":
        written.write(2)
    with pytest.raises(Conflict, match="is referenced by now"):
        document(written).without([SnapshotId(snapshot)])


def test_a_field_that_is_not_known_is_refused(written: WrittenRepository) -> None:
    data = with_fields(_bytes(written), FileType.REPO, {13: b""})
    with pytest.raises(UnknownVersion):
        RepoDocument.read(data, "repo")


def test_a_clock_that_is_ahead_holds_nobody_up(written: WrittenRepository) -> None:
    """The library refuses to write after an update of the future."""
    written.write(1)
    ahead = datetime.now(UTC) + timedelta(minutes=4)
    data = document(written).updated(ahead, backup_name(ahead, bytes(12))).encode()
    (written.folder / "repo").write_bytes(data)
    written.reopened().write(2)


def test_more_updates_than_the_library_keeps_in_one_file(tmp_path: Path) -> None:
    config = icechunk.RepositoryConfig(num_updates_per_repo_info_file=3)
    written = WrittenRepository.create(tmp_path / "repository", 2, config)
    written.write(1)
    log = 2
    for number in range(6):
        written = replace(written, document(written))
        log += 1
        assert len(list(written.repository.ops_log())) == log
        written.branch(f"b{number}", FIRST)
        log += 1
        assert len(list(written.repository.ops_log())) == log
    assert len(document(written).values[UPDATES]) < log
