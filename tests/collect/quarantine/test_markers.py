"""Delete markers in a bucket that keeps versions: another way aside, and back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

import pytest

from reclaim.catalog.database.schema import CommitState
from reclaim.engine.tasks import deleting
from reclaim.errors import Conflict, Gone, Refused
from reclaim.policy import from_options
from reclaim.run.sweep.removal import DeleteMarkers, MoveToQuarantine
from reclaim.run_record import Phase
from reclaim.storage.buckets import open_bucket
from tests.collect.helpers.dying import dies
from tests.collect.helpers.older import parentless
from tests.collect.helpers.versioned import MARKERS, check_back, marked, versions
from tests.collect.helpers.world import Past, World, bury, commit_states, whole
from tests.support.dying import Work

STRIDE = 2


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleting, "PAGE", 2)


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
    assert (run.phase, run.quarantine.removal) == (Phase.DONE, "marked")
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

    # The undo holds what came back until the window is over.
    world.clock.advance(MARKERS.keep)
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
