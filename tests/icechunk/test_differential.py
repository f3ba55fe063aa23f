"""Collected by us, and by the library: of copies of a random repository the same is left.

Differences that are wanted are named here, and each is asserted.
"""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import icechunk
import numpy as np
import pytest
import zarr

from reclaim.engine.local.engine import LocalEngine
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.sweep.removal import DELETE
from reclaim.stores.icechunk.store import IcechunkStore
from tests.icechunk.random_repository import RandomRepository
from tests.icechunk.repositories import FOLDERS, NEWEST_SPEC, WrittenRepository
from tests.icechunk.world import DAY, bury, copied, plan
from tests.support.soak import MORE

pytestmark = pytest.mark.repeats(first=1)

SEEDS = 5 * MORE
ROUNDS = 1
KINDS = frozenset(
    {
        "array",
        "group",
        "overwrite",
        "append",
        "inline",
        "virtual",
        "split",
        "deleted array",
        "branch",
        "deleted branch",
        "tag",
        "deleted tag",
        "reset",
        "abandoned",
        "amended",
        "expired",
    }
)
"""The kinds of operations that there must be over all repositories of a spec."""
AMENDED = "amended"
"""The kind that there is in spec 2 alone."""
LEAST = 5
"""How often each of them must occur."""
LEAST_FREED = 0.1
"""How much of all objects must go."""

# Differences that are wanted, by name.
HAZARD = "what a young snapshot uses that nothing reaches stays, in spec 1 as well"
ANCESTORS = "the old ancestors of a young snapshot that nothing reaches stay as long"
UNFINISHED = "a young snapshot that repo does not list stays, with what it uses"
NO_ENTRY = "a collection that takes no snapshot out leaves no entry in the operations log"
BACKUPS = "each replaced repo is kept by both, one for each entry of the log"


@dataclass
class Tally:
    """What happened over all repositories."""

    operations: Counter[str] = field(default_factory=Counter)
    objects: int = 0
    freed: int = 0


def expire(ours: WrittenRepository, theirs: WrittenRepository) -> None:
    """Expire the older half of main in both copies, with the same bound.

    Both by the library, which is also what ``--history-only`` calls.
    """
    ages = sorted(info.written_at for info in ours.repository.ancestry(branch="main"))
    for each in (ours, theirs):
        each.repository.expire_snapshots(ages[len(ages) // 2])


def collect(written: WrittenRepository) -> None:
    apply_plan(
        IcechunkStore(str(written.folder)), LocalEngine(), plan(written).place, removal=DELETE
    )


def count(objects: dict[str, set[str]]) -> int:
    return sum(map(len, objects.values()))


def refs_of(repository: Any) -> list[dict[str, str]]:
    branches = [{"branch": name} for name in sorted(repository.list_branches())]
    return branches + [{"tag": name} for name in sorted(repository.list_tags())]


def contents(repository: Any) -> dict[str, dict[str, list[int]]]:
    """The arrays at every branch and tag, however deep, as the library reads them."""
    read: dict[str, dict[str, list[int]]] = {}
    for ref in refs_of(repository):
        store = repository.readonly_session(**ref).store
        try:
            group = zarr.open_group(store, mode="r")
        except FileNotFoundError:
            read[str(ref)] = {}
            continue
        members = group.members(max_depth=None)
        read[str(ref)] = {
            name: np.asarray(member[...]).tolist()
            for name, member in members
            if isinstance(member, zarr.Array)
        }
    return read


def ancestries(repository: Any) -> dict[str, list[tuple[str, str | None, str]]]:
    return {
        str(ref): [(one.id, one.parent_id, one.message) for one in repository.ancestry(**ref)]
        for ref in refs_of(repository)
    }


def told(repository: Any) -> dict[str, Any]:
    """What the library says of ``repo``, but for its log, of which ids and times differ."""
    said = repository.inspect_repo_info()
    return {key: said[key] for key in said if key not in ("header", "latest_updates")}


def listed(repository: Any) -> set[str]:
    """The snapshots that ``repo`` lists; in spec 1, which has no such file, none."""
    if NEWEST_SPEC < 2 or repository.spec_version < 2:
        return set()
    return {one["id"] for one in repository.inspect_repo_info()["snapshots"]}


def log(repository: Any) -> list[str]:
    """The kinds of the operations in the log, newest first."""
    return [type(one.kind).__name__ for one in repository.ops_log()]


def differ(folder: Path, spec: int, seed: int, tally: Tally) -> None:
    """Build one repository, and collect one copy of it by us and another by the library."""
    made = RandomRepository(folder, spec, seed)
    made.build(ROUNDS)
    tally.operations += made.counts
    before = contents(made.written.repository)
    ours = made.written
    theirs = WrittenRepository(folder / "theirs", None)
    shutil.copytree(ours.folder, theirs.folder)
    theirs.repository = made.open(theirs.folder)
    there = ours.objects()
    if seed % 2 == 0:
        collect_both(made, ours, theirs, spec)
    expire(ours, theirs)
    tally.operations["expired"] += 1
    collect_both(made, ours, theirs, spec)
    assert contents(ours.repository) == before
    tally.objects += count(there)
    tally.freed += count(there) - count(ours.objects())
    live_on(made, ours, spec, upgraded_first=bool(seed % 2))


def collect_both(
    made: RandomRepository, ours: WrittenRepository, theirs: WrittenRepository, spec: int
) -> None:
    """Collect one copy by us and the other by the library; the same must be left."""
    known = listed(ours.repository)
    logs = [log(each.repository) if spec > 1 else [] for each in (ours, theirs)]
    collect(ours)
    theirs.repository.garbage_collect(datetime.now(UTC) - DAY)
    ours.repository, theirs.repository = made.open(ours.folder), made.open(theirs.folder)
    assert ours.objects() == theirs.objects()
    assert contents(ours.repository) == contents(theirs.repository)
    assert ancestries(ours.repository) == ancestries(theirs.repository)
    if spec > 1:
        assert told(ours.repository) == told(theirs.repository)
        entry = [] if listed(ours.repository) == known else ["GCRan"]
        assert log(ours.repository) == [*entry, *logs[0]], NO_ENTRY
        assert log(theirs.repository) == ["GCRan", *logs[1]]
        kept = [len(each.names("overwritten")) for each in (ours, theirs)]
        assert kept[0] == len(log(ours.repository)) - 1, BACKUPS
        assert kept[1] == len(log(theirs.repository)) - 1, BACKUPS


def live_on(
    made: RandomRepository, written: WrittenRepository, spec: int, *, upgraded_first: bool
) -> None:
    """What we collected goes on living: it is written to, expired, collected, and upgraded, before
    all that or after it."""
    upgrades = spec == 1 and NEWEST_SPEC > 1
    if upgrades and upgraded_first:
        upgrade(made, written)
    with written.session("main", "later") as group:
        group.create_array("later", shape=(400,), chunks=(100,), dtype="i4")[...] = 7
    written.branch("later", written.tip())
    before = contents(written.repository)
    times = [info.written_at for info in written.repository.ancestry(branch="main")]
    written.repository.expire_snapshots(times[0])
    written.repository.garbage_collect(datetime.now(UTC) + timedelta(minutes=1))
    written.repository = made.open(written.folder)
    assert contents(written.repository) == before
    written.age()
    collect(written)
    assert contents(made.open(written.folder)) == before
    assert {folder for folder in FOLDERS if not written.names(folder)} == set()
    if upgrades and not upgraded_first:
        upgrade(made, written)
        assert contents(written.repository) == before
        collect(written)
        assert contents(made.open(written.folder)) == before


def upgrade(made: RandomRepository, written: WrittenRepository) -> None:
    icechunk.upgrade_icechunk_repository(made.open(written.folder), dry_run=False)
    written.repository = made.open(written.folder)


def test_what_is_left_is_what_the_library_leaves(tmp_path: Path, spec: int) -> None:
    tally = Tally()
    for seed in range(SEEDS):
        differ(tmp_path / str(seed), spec, seed, tally)
        shutil.rmtree(tmp_path / str(seed))
    kinds = KINDS if spec > 1 else KINDS - {AMENDED}
    assert {kind for kind, times in tally.operations.items() if times >= LEAST} == kinds
    assert tally.freed >= LEAST_FREED * tally.objects


@pytest.mark.skipif(NEWEST_SPEC < 2, reason="the installed library writes spec 1 only")
def test_no_commit_of_spec_1_can_be_amended(tmp_path: Path) -> None:
    """So that there is nothing to compare: the library itself refuses."""
    written = WrittenRepository.create(tmp_path / "repository", 1)
    written.write(1)
    before = ancestries(written.repository)
    session = written.repository.writable_session("main")
    zarr.open_group(session.store, mode="a").require_array("b", shape=(2,), dtype="i4")[...] = 2
    with pytest.raises(icechunk.IcechunkError, match=r"requires .* at least version 2\.0"):
        session.amend("amended")
    assert ancestries(written.reopened().repository) == before


# Differences that are wanted


def more_than_theirs(written: WrittenRepository) -> dict[str, set[str]]:
    """What we leave of a repository, and the library does not."""
    with copied(written) as copy:
        copy.repository.garbage_collect(datetime.now(UTC) - DAY)
        theirs = copy.objects()
    collect(written)
    ours = written.objects()
    assert all(theirs[folder] <= ours[folder] for folder in FOLDERS)
    return {folder: ours[folder] - theirs[folder] for folder in FOLDERS}


def test_a_young_snapshot_that_nothing_reaches(written: WrittenRepository, spec: int) -> None:
    first, second = bury(written)
    used = {folder: written.objects()[folder] for folder in ("manifests", "chunks")}
    written.age(excluding={second})
    more = more_than_theirs(written)
    assert more["snapshots"] == {first}, ANCESTORS
    # The library leaves the young snapshot of spec 1, and none of what it uses.
    assert len(more["chunks"]) == {1: 8, 2: 4}[spec], HAZARD
    assert written.objects()["chunks"] == used["chunks"]
    assert written.objects()["manifests"] == used["manifests"]
    written.reopened().branch("back", second)
    assert contents(written.reopened().repository)["{'branch': 'back'}"]["a"] == [3] * 8


@pytest.mark.skipif(NEWEST_SPEC < 2, reason="the installed library writes spec 1 only")
def test_a_young_snapshot_that_repo_does_not_list(tmp_path: Path) -> None:
    written = WrittenRepository.create(tmp_path / "repository", 2)
    written.write(1)
    before = (written.folder / "repo").read_bytes()
    unfinished = written.write(2)
    (written.folder / "repo").write_bytes(before)
    written.age(excluding={unfinished})
    more = more_than_theirs(written.reopened())
    assert (len(more["chunks"]), len(more["manifests"])) == (4, 1), UNFINISHED


@pytest.mark.skipif(NEWEST_SPEC < 2, reason="the installed library writes spec 1 only")
def test_a_collection_that_takes_no_snapshot_out(tmp_path: Path) -> None:
    written = WrittenRepository.create(tmp_path / "repository", 2)
    written.write(1)
    (written.folder / "chunks" / ("0" * 20)).write_bytes(b"of no commit")
    written.age()
    before = log(written.repository)
    with copied(written) as copy:
        copy.repository.garbage_collect(datetime.now(UTC) - DAY)
        assert log(copy.reopened().repository) == ["GCRan", *before]
    collect(written)
    assert log(written.reopened().repository) == before, NO_ENTRY
    assert "0" * 20 not in written.names("chunks")
