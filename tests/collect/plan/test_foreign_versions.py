"""Buckets whose versions others change while a run has delete markers there."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from time import sleep
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from reclaim.catalog.database.schema import CommitState
from reclaim.engine.tasks import deleting, recall
from reclaim.engine.tasks.delete_markers import (
    UNKNOWN,
    Covered,
    CoverWithMarkers,
    PurgeCovered,
    RemoveMarkers,
)
from reclaim.engine.tasks.deleting import MISSING, RESTORED, Target
from reclaim.engine.tasks.notes import RETURNED, find_notes
from reclaim.engine.tasks.parts import Place, read_part
from reclaim.engine.tasks.quarantine import QUARANTINED, UNTOUCHED
from reclaim.errors import Conflict, Partial, Refused, VersioningOff
from reclaim.run.sweep.removal import DeleteMarkers
from reclaim.storage import ObjectStorage
from reclaim.storage.buckets import Bucket, open_bucket
from reclaim.storage.pace import Pace
from tests.collect.helpers.versioned import MARKERS, check_back, on, set_versioning, versions
from tests.collect.helpers.world import World, bury, commit_states
from tests.support.dying import Died
from tests.support.servers import SeaweedFS


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleting, "PAGE", 2)


def test_suspended_versioning_is_refused(s3: SeaweedFS, tmp_path: Path) -> None:
    bucket = s3.new_bucket()
    set_versioning(bucket, "Enabled")
    for world in on(f"{bucket}/catalog", tmp_path):
        bury(world)
        set_versioning(bucket, "Suspended")
        plan, before = world.plan(), world.there()
        assert plan.document.versioning == "suspended"
        with pytest.raises(Refused, match="it is suspended here"):
            world.apply(plan, removal=MARKERS)
        assert world.there() == before


def test_what_comes_back_counts_as_written_now(versioned_bucket: str) -> None:
    storage = ObjectStorage.open(f"{versioned_bucket}/{uuid4().hex}")
    storage.put("x", b"some bytes")
    before = storage.head("x").last_modified
    [taken] = CoverWithMarkers("notes/", "begun").page(storage, [Target("x", 10)], lambda: True)
    assert taken.identity
    sleep(1.1)
    for _ in range(2):
        RemoveMarkers().take_one(storage, Target("x", 10, taken.identity), lambda: True)
    assert storage.get("x") == b"some bytes"
    assert storage.head("x").last_modified > before
    [left] = open_bucket(storage.url).versions("x")
    assert left.latest
    assert not left.marker


def test_a_purge_by_identity(versioned: World) -> None:
    """What failed in one run, and another run then covered, is the other's."""
    world, past = versioned, bury(versioned)
    plan = world.plan()
    stuck = max(address for address in world.candidates(plan) if "/meta/" in address)
    cover = Bucket.cover

    def denied(self: Bucket, addresses: Sequence[str]) -> Any:
        markers, failed = cover(self, [one for one in addresses if one != stuck])
        return markers, failed | {one: "denied" for one in addresses if one == stuck}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bucket, "cover", denied)
        with pytest.raises(Partial):
            world.apply(plan, removal=DeleteMarkers(timedelta(days=1)))
    # Somebody else deletes it, which covers it with a marker that is nobody's of ours.
    Bucket.cover(open_bucket(world.storage.url), [stuck])
    world.clock.advance(days=2)
    assert world.purge() is not None
    assert versions(world)[stuck] == 1
    assert not (set(world.candidates(plan)) - {stuck}) & versions(world).keys()
    world.check()
    assert commit_states(world.repo)[past.keep] == CommitState.LIVE


def test_versioning_suspended_in_between(s3: SeaweedFS, tmp_path: Path) -> None:
    """Undo and purge ask first; once versions are kept again, all comes back."""
    bucket = s3.new_bucket()
    for world in on(f"{bucket}/catalog", tmp_path):
        # These are written before the bucket keeps versions, and have none of their own.
        past = bury(world)
        set_versioning(bucket, "Enabled")
        plan = world.plan()
        run = world.apply(plan, removal=MARKERS).run
        set_versioning(bucket, "Suspended")
        with pytest.raises(Refused, match="it is suspended here"):
            world.undo(run)
        world.clock.advance(MARKERS.keep)
        with pytest.raises(Refused, match="it is suspended here"):
            world.purge()
        kept = versions(world)
        assert all(kept[address] for address in world.candidates(plan))
        set_versioning(bucket, "Enabled")
        assert world.undo(run).left == ()
        check_back(world, past)


def test_the_current_version_is_never_deleted(versioned_bucket: str) -> None:
    """Whatever a journal says."""
    storage = ObjectStorage.open(f"{versioned_bucket}/{uuid4().hex}")
    storage.put("x", b"some bytes")
    [current] = open_bucket(storage.url).versions_of("x")
    identity = Covered(UNKNOWN, current.id, current.etag).identity
    for deleter in (PurgeCovered(), RemoveMarkers()):
        with suppress(Conflict):
            deleter.take_one(storage, Target("x", 10, identity), lambda: True)
        assert storage.get("x") == b"some bytes"
    assert (
        PurgeCovered().take_one(storage, Target("x", 10, identity), lambda: True).outcome
        == UNTOUCHED
    )


def test_other_bytes_over_a_marker_are_left(versioned: World) -> None:
    world, past = versioned, bury(versioned)
    plan = world.plan()
    run = world.apply(plan, removal=MARKERS).run
    home = next(one for one in sorted(world.candidates(plan)) if "/branches/" in one)
    [kept] = [one for one in open_bucket(world.storage.url).versions_of(home) if not one.marker]
    world.storage.put(home, b"?" * kept.size)
    with pytest.raises(Partial, match="holds other bytes"):
        world.undo(run)
    assert world.storage.get(home) == b"?" * kept.size
    assert kept.id in [one.id for one in open_bucket(world.storage.url).versions_of(home)]
    world.storage.delete(home)
    [newer] = [
        one for one in open_bucket(world.storage.url).versions_of(home) if one.latest and one.marker
    ]
    # A marker that is not the run's: it is taken off by whoever wrote it.
    open_bucket(world.storage.url).delete(
        [
            newer,
            *(
                one
                for one in open_bucket(world.storage.url).versions_of(home)
                if not one.marker and one.id != kept.id
            ),
        ]
    )
    assert world.undo(run).left == ()
    check_back(world, past)


def test_what_is_covered_is_not_covered_again(versioned_bucket: str) -> None:
    storage = ObjectStorage.open(f"{versioned_bucket}/{uuid4().hex}")
    storage.put("x", b"some bytes")
    outcomes = [
        CoverWithMarkers("notes/", "begun")
        .page(storage, [Target("x", 10)], lambda: True)[0]
        .outcome
        for _ in range(2)
    ]
    assert outcomes == [QUARANTINED, MISSING]
    markers = [one for one in open_bucket(storage.url).versions_of("x") if one.marker]
    assert len(markers) == 1


@pytest.mark.parametrize("when", ["before", "within"])
def test_a_bucket_that_is_suspended_while_markers_are_set(
    s3: SeaweedFS, tmp_path: Path, when: str
) -> None:
    """Nothing more is covered, and what was lost is told."""
    bucket = s3.new_bucket()
    storage = ObjectStorage.open(f"{bucket}/{uuid4().hex}")
    addresses = [f"store/{number}" for number in range(6)]
    for address in addresses:
        # Written before the bucket keeps versions: the one version that can be lost.
        storage.put(address, b"some bytes")
    set_versioning(bucket, "Enabled")
    cover, current = Bucket.cover, Bucket.current

    def covering(self: Bucket, named: Sequence[str]) -> Any:
        if when == "within":
            set_versioning(bucket, "Suspended")
        return cover(self, named)

    def looking(self: Bucket, address: str) -> Any:
        if when == "before" and address == addresses[2]:
            set_versioning(bucket, "Suspended")
        return current(self, address)

    rows = pa.table({"address": addresses, "size": [10] * 6, "kind": ["data"] * 6})
    rows = rows.append_column("reason", pa.array([""] * 6))
    format: Any = SimpleNamespace(prefix="store/", sequential=False)
    taken: list[str] = []

    def mark() -> None:
        for journal in deleting.delete(
            format,
            storage,
            rows,
            deleter=CoverWithMarkers("notes/", "begun"),
            in_time=lambda: True,
            pace=Pace(sleep=lambda _seconds: None),
        ):
            taken.extend(journal.column("address").to_pylist())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bucket, "cover", covering)
        patch.setattr(Bucket, "current", looking)
        with pytest.raises(VersioningOff) as stopped:
            mark()
    there = {one.address for one in storage.list("store")}
    if when == "within":
        assert (taken, stopped.value.details["lost"]) == ([], 2)
        assert addresses[0] in str(stopped.value)
    else:
        assert taken == addresses[:2]
    assert there == set(addresses[2:])


def test_a_copy_with_another_etag_is_known_again(
    versioned_bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Amazon's copy of what was uploaded in parts has another etag than that."""
    storage = ObjectStorage.open(f"{versioned_bucket}/{uuid4().hex}")
    bucket = open_bucket(storage.url)
    parts = b"B" * (9 * 1024 * 1024)
    storage.put("x", iter([parts]))
    target = Target("x", len(parts))
    [taken] = CoverWithMarkers("notes/", "begun").page(storage, [target], lambda: True)
    delete = Bucket.delete

    def copied(_self: Bucket, source: str, goal: str, _size: int, **version: str) -> None:
        origin = next(one for one in bucket.versions_of(source) if one.id == version["VersionId"])
        assert "-" in origin.etag
        storage.put(goal, parts)

    def dying(self: Bucket, versions: Sequence[Any]) -> None:
        delete(self, versions)
        if not versions[0].marker:
            raise Died

    monkeypatch.setattr(Bucket, "_copy", copied)
    notes = Place(storage.url, "undo/returned/")
    undo = RemoveMarkers(notes)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Bucket, "delete", dying)
        with pytest.raises(Died):
            undo.page(storage, [replace(target, identity=taken.identity or "")], lambda: True)
    [note] = find_notes(storage, "undo", RETURNED)
    [row] = recall.journaled(read_part(storage, note)).to_pylist()
    assert row["rank"] < 0
    again = replace(target, identity=row["identity"])
    assert [one.outcome for one in undo.page(storage, [again], lambda: True)] == [RESTORED]
    assert [(one.latest, one.marker) for one in bucket.versions_of("x")] == [(True, False)]
    storage.put("x", b"?" * len(parts))
    with pytest.raises(Conflict, match="holds other bytes"):
        undo.page(storage, [again], lambda: True)
