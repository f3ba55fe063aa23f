"""Records of delete markers that are damaged or lost, and what is found without them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from reclaim.catalog.database.schema import CommitState
from reclaim.engine.tasks import deleting
from reclaim.engine.tasks.notes import COVERING, RETURNED, find_notes
from reclaim.errors import Partial, PlanRefused, Refused
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.record.journal import Journal
from reclaim.run.sweep.removal import DeleteMarkers
from reclaim.storage.buckets import Bucket, open_bucket
from tests.collect.helpers.forging import forget
from tests.collect.helpers.versioned import MARKERS, check_back, marked, versions
from tests.collect.helpers.world import World, bury, commit_states
from tests.collect.quarantine.test_promises import run_of
from tests.support.dying import Died

pytestmark = pytest.mark.repeats(first=2)


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deleting, "PAGE", 2)


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


def damage(world: World, plan: WrittenPlan, folder: str) -> dict[str, bytes]:
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
        held.finish(replace(run_of(world, plan), vouched=False))
    forget(world)
    files = damage(world, plan, "objects")
    with pytest.raises(PlanRefused, match="needed to find its delete markers"):
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
        patch.setattr("reclaim.run.undo.undo_run.find_whole", died)
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
        record = run_of(world, plan)
        held.finish(replace(record, intended=0, lists=None, plan="", vouched=False))
    assert world.undo(run).snapshots == 2
    check_back(world, past)


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

    # The undo holds what came back until the window is over.
    world.clock.advance(days=7)
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
