"""Delete markers in a bucket that keeps versions: another way aside, and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from time import sleep
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import boto3  # type: ignore[import-untyped]
import pyarrow as pa
import pytest

from reclaim.catalog.database.schema import CommitState
from reclaim.engine.tasks import deleting, recall
from reclaim.engine.tasks.delete_markers import UNKNOWN, Covered, Expunge, Mark, Unmark
from reclaim.engine.tasks.deleting import MISSING, RESTORED, Target
from reclaim.engine.tasks.notes import COVERING, RETURNED, find_notes
from reclaim.engine.tasks.parts import Place, read_part
from reclaim.engine.tasks.quarantine import QUARANTINED, UNTOUCHED
from reclaim.errors import Conflict, Gone, Partial, PlanRefused, Refused, VersioningOff
from reclaim.model import INTENDED, LISTS, PLAN_DIGEST, VOUCHED, RunState
from reclaim.policy import from_options
from reclaim.run.journal import Journal
from reclaim.run.plan import Plan
from reclaim.run.removal import DeleteMarkers, MoveToQuarantine
from reclaim.storage import ObjectStorage
from reclaim.storage.buckets import Bucket, open_bucket
from reclaim.storage.pace import Pace
from reclaim.testing import FakeClock
from reclaim.testing.servers import SeaweedFS
from tests.collect.dying import dies
from tests.collect.forging import forget
from tests.collect.older import parentless
from tests.collect.test_promises import run_of
from tests.collect.world import Past, World, bury, commit_states, leftovers, whole
from tests.conftest import Backend
from tests.dying import Died, Work

MARKERS = DeleteMarkers()
STRIDE = 2


def set_versioning(url: str, status: str) -> None:
    client: Any = boto3.client("s3")
    name = url.removeprefix("s3://").partition("/")[0]
    client.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": status})


def on(storage: str, folder: Path) -> Iterator[World]:
    """A catalog with its database in a folder and its objects in a bucket."""
    backend = Backend("server", str(folder / "catalog"), storage, FakeClock())
    yield World.make(backend)
    backend.close()


@pytest.fixture(scope="session")
def versioned_bucket(s3: SeaweedFS) -> str:
    bucket = s3.new_bucket()
    set_versioning(bucket, "Enabled")
    return bucket


@pytest.fixture
def versioned(versioned_bucket: str, tmp_path: Path) -> Iterator[World]:
    yield from on(f"{versioned_bucket}/{uuid4().hex}", tmp_path)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleting, "PAGE", 2)


def versions(world: World) -> Counter[str]:
    """How many versions with bytes each object has, current or not."""
    found = open_bucket(world.storage.url).versions(f"repos/{world.repo.uid}/")
    return Counter(one.address for one in found if not one.marker)


def marked(world: World) -> set[str]:
    """The objects that a marker covers."""
    found = open_bucket(world.storage.url).versions(f"repos/{world.repo.uid}/")
    return {one.address for one in found if one.marker}


def check_back(world: World, past: Past) -> None:
    for commit, files in past.files.items():
        assert whole(world.other(), commit) == files
    assert leftovers(world.repo) == {}


def test_markers_are_set_and_taken_off(versioned: World) -> None:
    world, past = versioned, bury(versioned)
    before, kept = world.there(), versions(world)
    plan = world.plan()
    listed = set(world.candidates(plan))
    done = world.apply(plan, removal=MARKERS)
    assert done.requests == 0
    assert done.until == world.clock.now() + MARKERS.keep
    assert before - world.there() == listed
    assert listed <= marked(world)
    assert all(versions(world)[address] == 1 for address in listed)
    world.check()
    run = world.repo.runs()[0]
    assert run.quarantine is not None
    assert (run.state, run.quarantine.removal) == (RunState.DONE, "marked")
    assert commit_states(world.repo)[past.first] == CommitState.QUARANTINED
    with pytest.raises(Gone, match=run.id):
        whole(world.other(), past.first)

    undone = world.undo(run.id)
    assert undone.left == ()
    assert undone.objects == len(listed)
    assert world.there() == before
    assert not listed & marked(world)
    assert {address: versions(world)[address] for address in kept} == kept
    check_back(world, past)
    with pytest.raises(Conflict, match="undone already"):
        world.undo(run.id)


def test_what_commits_under_markers_share_stays(versioned: World) -> None:
    """Their containers are read from under the markers."""
    past = bury(versioned)
    check_shared(versioned, past, versioned.apply(versioned.plan(), removal=MARKERS).run)


def test_what_commits_under_markers_share_stays_whoever_writes_over_them(versioned: World) -> None:
    """The version that was covered is under what somebody wrote since."""
    past = bury(versioned)
    covered = [versioned.repo.commit(one).metarange for one in (past.first, past.second)]
    run = versioned.apply(versioned.plan(), removal=MARKERS).run
    for metarange in covered:
        versioned.storage.put(metarange, b"other bytes")
    check_shared(versioned, past, run, foreign=covered)


def check_shared(world: World, past: Past, run: str, foreign: Sequence[str] = ()) -> None:
    """A run that deletes leaves what the commits of a run share with those that die."""
    with world.opened() as catalog:
        repo = catalog.repository("sales")
        for path in ("a", "b/1", "b/2", "c"):
            repo.branch("main").put(path, b"new")
        repo.branch("main").commit("new")
        for name in ("work", "clean"):
            repo.delete_branch(name)
    world.age()
    with parentless():
        world.apply(world.plan(from_options(keep_last=1), allowed_fraction=1.0))
    with pytest.raises(Gone):
        whole(world.other(), past.keep)
    bucket = open_bucket(world.storage.url)
    for address in foreign:
        bucket.delete([one for one in bucket.versions_of(address) if one.latest])
    assert world.undo(run).snapshots == 2
    for commit in (past.first, past.second):
        assert whole(world.other(), commit) == past.files[commit]


def test_a_purge_frees_the_bytes(versioned: World) -> None:
    world, past = versioned, bury(versioned)
    plan = world.plan()
    listed = set(world.candidates(plan))
    run = world.apply(plan, removal=MARKERS).run
    there = world.there()
    world.clock.advance(MARKERS.keep)
    purged = world.purge()
    assert purged is not None
    assert purged.runs == [run]
    assert purged.summary()["objects"] == len(listed)
    assert not listed & (versions(world).keys() | marked(world))
    assert world.there() == there
    world.check()
    assert commit_states(world.repo)[past.first] == CommitState.COLLECTED
    with pytest.raises(Refused, match="purged"):
        world.undo(run)


def test_parents_and_refs_come_back_as_well(versioned: World) -> None:
    world, main = versioned, versioned.repo.branch("main")
    ids = []
    for number in range(3):
        main.put("a", f"{number}".encode())
        ids.append(main.commit(f"{number}").id)
        world.clock.advance(days=1)
    world.repo.create_tag("old", ids[0])
    world.age()
    log = [commit.id for commit in world.other().log("main")]
    plan = world.plan(from_options(older_than="3d"), delete_expired_tags=True, allowed_fraction=1.0)
    run = world.apply(plan, removal=MARKERS).run
    assert world.other().tags() == []
    assert world.undo(run).left == ()
    assert [commit.id for commit in world.other().log("main")] == log
    assert world.other().commit("old").id == ids[0]
    for number, commit in enumerate(ids):
        assert whole(world.other(), commit) == {"a": f"{number}".encode()}


def test_a_plan_counts_what_the_bucket_keeps(versioned: World) -> None:
    world = versioned
    bury(world)
    first = world.plan()
    assert first.document.versioning == "enabled"
    sizes = {one.address: one.size for one in world.storage.list(f"repos/{world.repo.uid}")}
    gone = set(world.candidates(first))
    assert first.document.noncurrent is not None
    before = first.document.noncurrent
    world.apply(first)
    kept = world.plan().document
    assert kept.noncurrent is not None
    # Deleting frees nothing here. A run leaves some of its own work behind as well.
    assert kept.noncurrent.objects >= before.objects + len(gone)
    assert kept.noncurrent.bytes >= before.bytes + sum(sizes[address] for address in gone)
    [warning] = [text for text in kept.warnings if "keeps versions" in text]
    assert f"{kept.noncurrent.objects} noncurrent versions" in warning
    assert "--markers" in warning


def test_without_versions_there_is_nothing_to_count(world: World) -> None:
    bury(world)
    plan = world.plan()
    assert (plan.document.versioning, plan.document.noncurrent) == ("", None)
    assert not [text for text in plan.document.warnings if "versions" in text]


def test_markers_need_versions(world: World) -> None:
    bury(world)
    plan, before = world.plan(), world.there()
    with pytest.raises(Refused, match="it is off here") as refused:
        world.apply(plan, removal=MARKERS)
    assert refused.value.hint
    assert world.there() == before
    assert world.repo.runs() == []
    world.apply(plan, removal=MoveToQuarantine())


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


def stumble(world: World, work: Work) -> Iterator[int]:
    """Die at a later step each time, from where the last one left off, until one lives."""
    fatal, died = 1, True
    while died:
        died = dies(world, work, fatal)
        world.clock.advance(minutes=12)
        yield fatal
        fatal += STRIDE
    assert fatal > 20


def test_dying_at_each_step(versioned: World) -> None:
    """Apply and undo, and apply and purge: each dies many times, and gets there."""
    world, past = versioned, bury(versioned)
    plan, before = world.plan(), world.there()
    listed = set(world.candidates(plan))
    for _ in stumble(world, lambda world, **how: world.apply(plan, removal=MARKERS, **how)):
        world.check()
        assert before - world.there() <= listed
    run = plan.document.run
    assert before - world.there() == listed
    for _ in stumble(world, lambda world, **how: world.undo(run, **how)):
        world.check()
        assert world.there() <= before
    assert world.there() == before
    check_back(world, past)

    world.age()
    again = world.plan()
    listed = {address for address in world.candidates(again) if address in before}
    assert listed
    world.apply(again, removal=MARKERS)
    there = world.there()
    world.clock.advance(MARKERS.keep)
    for _ in stumble(world, lambda world, **how: world.purge(**how)):
        world.check()
        assert world.there() == there
    assert not listed & (versions(world).keys() | marked(world))
    assert commit_states(world.repo)[past.first] == CommitState.COLLECTED


def test_a_purge_leaves_what_another_run_has_marked(versioned: World) -> None:
    """What a run's plan listed and confirm dropped is not that run's to purge."""
    world, past = versioned, bury(versioned)
    plan = world.plan()
    with world.opened() as catalog:
        catalog.repository("sales").create_branch("back", past.second)
    first = world.apply(plan, removal=DeleteMarkers(timedelta(days=1)))
    assert first.summary()["objects"] == 0
    with world.opened() as catalog:
        catalog.repository("sales").delete_branch("back")
    world.age()
    second = world.apply(world.plan(), removal=MARKERS)
    assert second.summary()["objects"] > 0
    purged = world.purge()
    assert purged is not None
    assert purged.runs == [first.run]
    assert world.undo(second.run).left == ()
    check_back(world, past)


def test_what_comes_back_counts_as_written_now(versioned_bucket: str) -> None:
    storage = ObjectStorage.open(f"{versioned_bucket}/{uuid4().hex}")
    storage.put("x", b"some bytes")
    before = storage.head("x").last_modified
    [taken] = Mark("notes/", "begun").page(storage, [Target("x", 10)], lambda: True)
    assert taken.identity
    sleep(1.1)
    for _ in range(2):
        Unmark().take_one(storage, Target("x", 10, taken.identity), lambda: True)
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


def test_one_plan_after_another_of_the_same(versioned: World) -> None:
    """The second covers nothing that the first had covered, and its window ends nothing."""
    world, past = versioned, bury(versioned)
    first, second = world.plan(), world.plan()
    run = world.apply(first, removal=MARKERS)
    again = world.apply(second, removal=DeleteMarkers(timedelta(hours=1)))
    assert run.summary()["objects"] == first.document.candidates
    assert again.summary()["objects"] == 0
    assert again.summary()["dropped"] == first.document.candidates
    undone = world.undo(again.run)
    assert (undone.objects, undone.snapshots) == (0, 0)
    world.clock.advance(hours=2)
    world.purge()
    assert world.undo(run.run).left == ()
    check_back(world, past)


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


@pytest.mark.parametrize("folder", ["journal", "objects"])
def test_a_damaged_record_and_its_plan_applied_again(versioned: World, folder: str) -> None:
    """It alone tells which markers are the run's; no other run is held up by it."""
    world, past = versioned, bury(versioned)
    plan = world.plan()
    run = world.apply(plan, removal=MARKERS).run
    damaged = next(
        stored.address
        for stored in world.storage.list(plan.place.at("apply"))
        if f"/{folder}/" in stored.address
    )
    world.storage.put(damaged, b"damaged")
    with pytest.raises(Refused, match="is damaged") as refused:
        world.undo(run)
    assert f"reclaim apply {plan.place}" in (refused.value.hint or "")
    world.clock.advance(MARKERS.keep)
    with pytest.raises(Partial, match=f"run {run} was not purged"):
        world.purge()
    world.apply(plan, removal=MARKERS)
    assert world.undo(run).snapshots == 2
    check_back(world, past)


def damage(world: World, plan: Plan, folder: str) -> dict[str, bytes]:
    """Damage the files of a plan's applies in folders of a name; returns what they were."""
    listed = [stored.address for stored in world.storage.list(plan.place.at("apply"))]
    files = {one: world.storage.get(one) for one in listed if f"/{folder}/" in one}
    for address in files:
        world.storage.put(address, b"damaged")
    return files


def test_a_damaged_record_and_a_plan_without_one(versioned: World) -> None:
    """A plan made anew has nothing of what markers cover: to apply it would forget them."""
    world, past = versioned, bury(versioned)
    plan = world.plan()
    run = world.apply(plan, removal=MARKERS).run
    with world.store().lock(run) as held:
        facts = {k: v for k, v in run_of(world, plan).summary.items() if k != VOUCHED}
        held.finish(run, RunState.DONE, facts)
    forget(world)
    files = damage(world, plan, "objects")
    with pytest.raises(PlanRefused, match="its delete markers could be found"):
        world.apply(plan, removal=MARKERS)
    for address, data in files.items():
        world.storage.put(address, data)
    assert world.undo(run).snapshots == 2
    check_back(world, past)


def test_a_damaged_record_and_a_plan_that_its_run_vouches_for(versioned: World) -> None:
    """The store has forgotten the digest by now."""
    world, past = versioned, bury(versioned)
    plan = world.plan()
    run = world.apply(plan, removal=MARKERS).run
    forget(world)
    damage(world, plan, "objects")
    world.apply(plan, removal=MARKERS)
    assert world.undo(run).snapshots == 2
    check_back(world, past)


def test_a_damaged_note_that_nobody_needs(versioned: World) -> None:
    world, past = versioned, bury(versioned)
    plan = world.plan()
    run = world.apply(plan, removal=MARKERS).run
    assert damage(world, plan, COVERING)
    assert world.undo(run).snapshots == 2
    check_back(world, past)


def test_a_damaged_note_that_is_needed(versioned: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal of its wave was lost: the note alone tells of the marker."""
    world, past = versioned, bury(versioned)
    plan = world.plan()

    def died(*_: Any) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "note", died)
        with pytest.raises(Died):
            world.apply(plan, removal=MARKERS)
    world.clock.advance(minutes=17)
    files = damage(world, plan, COVERING)
    with pytest.raises(Refused, match="in no journal") as refused:
        world.undo(plan.document.run)
    assert "or remove it" in (refused.value.hint or "")
    for address, data in files.items():
        world.storage.put(address, data)
    world.undo(plan.document.run)
    check_back(world, past)


@pytest.mark.parametrize("removed", [False, True])
def test_a_damaged_note_of_an_undo(
    versioned: World, monkeypatch: pytest.MonkeyPatch, removed: bool
) -> None:
    """It alone tells which version is a copy of what was covered, where etags do not."""
    world, past = versioned, bury(versioned)
    plan = world.plan()
    run = world.apply(plan, removal=MARKERS).run
    bucket, copy = open_bucket(world.storage.url), Bucket._copy
    covered = next(one for one in sorted(world.candidates(plan)) if "/branches/" in one)

    def copied(self: Bucket, source: str, goal: str, size: int, **version: str) -> Any:
        if goal != covered:
            return copy(self, source, goal, size, **version)
        # As Amazon copies what was uploaded in parts: the same bytes with another etag.
        world.storage.put(goal, b"?" * size)
        return bucket.versions_of(goal)[0].id

    def died(*_: Any, **__: Any) -> None:
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(Bucket, "_copy", copied)
        patch.setattr("reclaim.run.undo.find_whole", died)
        with pytest.raises(Died):
            world.undo(run)
    world.clock.advance(minutes=30)
    [note] = find_notes(world.storage, plan.place.at("undo"), RETURNED)
    data = world.storage.get(note.address)
    world.storage.put(note.address, b"damaged")
    for attempt in (lambda: world.undo(run), lambda: world.purge(timedelta(0))):
        with pytest.raises((Refused, Partial), match=note.address):
            attempt()
    if removed:
        # Somebody accepts that nothing tells of the copy.
        world.storage.delete(note.address)
        with pytest.raises(Partial, match="the covered version itself is gone"):
            world.undo(run)
        return
    world.storage.put(note.address, data)
    assert world.undo(run).snapshots == 2
    assert commit_states(world.repo)[past.second] == CommitState.LIVE


def test_a_run_of_a_version_that_recorded_no_lists(versioned: World) -> None:
    """It has neither their hashes nor how many objects it was about to take."""
    world, past = versioned, bury(versioned)
    plan = world.plan()
    run = world.apply(plan, removal=MARKERS).run
    with world.store().lock(run) as held:
        newer = (INTENDED, LISTS, PLAN_DIGEST, VOUCHED)
        facts = {k: v for k, v in run_of(world, plan).summary.items() if k not in newer}
        held.finish(run, RunState.DONE, facts)
    assert world.undo(run).snapshots == 2
    check_back(world, past)


def test_the_current_version_is_never_deleted(versioned_bucket: str) -> None:
    """Whatever a journal says."""
    storage = ObjectStorage.open(f"{versioned_bucket}/{uuid4().hex}")
    storage.put("x", b"some bytes")
    [current] = open_bucket(storage.url).versions_of("x")
    identity = Covered(UNKNOWN, current.id, current.etag).identity
    for deleter in (Expunge(), Unmark()):
        with suppress(Conflict):
            deleter.take_one(storage, Target("x", 10, identity), lambda: True)
        assert storage.get("x") == b"some bytes"
    assert Expunge().take_one(storage, Target("x", 10, identity), lambda: True).outcome == UNTOUCHED


def test_markers_without_a_journal(versioned: World) -> None:
    """A run that died between its markers and its journal knows them by what it noted before."""
    world, past = versioned, bury(versioned)
    plan = world.plan()

    def die(*_: Any, **__: Any) -> None:
        raise Died

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "note", die)
        with pytest.raises(Died):
            world.apply(plan, removal=MARKERS)
    covered = set(world.candidates(plan)) - world.there()
    assert covered
    run = plan.document.run
    world.clock.advance(minutes=12)
    assert world.undo(run).left == ()
    assert not covered & marked(world)
    check_back(world, past)

    world.age()
    plan = world.plan()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "note", die)
        with pytest.raises(Died):
            world.apply(plan, removal=DeleteMarkers(timedelta(hours=1)))
    covered = set(world.candidates(plan)) - world.there()
    world.clock.advance(hours=2)
    assert world.purge() is not None
    assert not covered & (versions(world).keys() | marked(world))
    world.check()


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
        Mark("notes/", "begun").page(storage, [Target("x", 10)], lambda: True)[0].outcome
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
            deleter=Mark("notes/", "begun"),
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
    [taken] = Mark("notes/", "begun").page(storage, [target], lambda: True)
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
    undo = Unmark(notes)
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
