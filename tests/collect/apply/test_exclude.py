"""What a person leaves out of an apply stays, breaks nothing, and is found again."""

from __future__ import annotations

from fnmatch import fnmatchcase

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reclaim.engine.tasks.excluding import matching
from reclaim.engine.tasks.parts import read_part
from reclaim.errors import InvalidInput, Partial, PlanRefused, TooMuch
from reclaim.globs import check_globs
from reclaim.run.apply.limits import Limits
from reclaim.run.gc import collect
from reclaim.run.plan.planning import PlanOptions, WrittenPlan
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine, Removal
from reclaim.run_record import NOTHING_LEFT_OUT
from tests.collect.helpers.world import (
    NAME,
    At,
    World,
    bury,
    commit_states,
    opening,
    whole,
)

MOVE = MoveToQuarantine()
KINDS = ("data", "range", "metarange")
REMOVALS = pytest.mark.parametrize("removal", [DELETE, MOVE], ids=["deleted", "moved"])


@pytest.fixture
def world(local: World) -> World:
    """On SQLite and a folder: an exclusion asks neither the database nor the storage."""
    return local


def of_kind(world: World, plan: WrittenPlan, kind: str) -> list[str]:
    """The candidates of a kind, by address."""
    tables = [read_part(world.storage, file.part) for file in plan.document.files]
    rows = [row for table in tables for row in table.to_pylist()]
    return sorted(row["address"] for row in rows if row["kind"] == kind)


@REMOVALS
@pytest.mark.parametrize("kind", KINDS)
def test_it_stays_and_is_named(world: World, kind: str, removal: Removal) -> None:
    bury(world)
    plan = world.plan()
    left_out = of_kind(world, plan, kind)[0]
    before, listed = world.there(), set(world.candidates(plan))
    done = world.apply(plan, removal=removal, exclude=[left_out])
    assert before - world.there() == listed - {left_out}
    world.check()
    [run] = world.store().runs()
    summary = done.summary()
    size = world.storage.head(left_out).size
    assert (summary["excluded"], summary["excluded_bytes"]) == (1, size)
    assert (summary["exclude"], summary["dropped"]) == ([left_out], 0)
    assert summary["objects"] == len(listed) - 1
    told = run.summary()
    assert {name: told[name] for name in summary} == summary
    folder = str(summary["excluded_list"]).removeprefix(f"{world.storage.url}/")
    assert [stored.address for stored in world.storage.list(folder)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_next_plan_takes_it(world: World, kind: str) -> None:
    bury(world)
    plan = world.plan()
    left_out = of_kind(world, plan, kind)[0]
    world.apply(plan, exclude=[left_out])
    again = world.plan(allowed_fraction=1.0)
    assert set(world.candidates(again)) == {left_out}
    world.quiet()


@pytest.mark.parametrize("kind", KINDS)
def test_an_undo_brings_back_all(world: World, kind: str) -> None:
    past = bury(world)
    before = world.there()
    plan = world.plan()
    left_out = of_kind(world, plan, kind)
    run = world.apply(plan, removal=MOVE, exclude=left_out).run
    # Nobody else takes what the undo needs.
    assert world.plan().document.candidates == 0
    world.age()
    world.apply(world.plan())
    assert set(left_out) <= world.there()
    undone = world.undo(run)
    assert (undone.snapshots, undone.left) == (2, ())
    assert world.there() == before
    for commit, files in past.files.items():
        assert whole(world.other(), commit) == files


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_purge_the_next_plan_takes_it(world: World, kind: str) -> None:
    bury(world)
    plan = world.plan()
    left_out = of_kind(world, plan, kind)
    world.apply(plan, removal=MOVE, exclude=left_out)
    world.clock.advance(days=8)
    assert world.purge() is not None
    assert set(left_out) <= world.there()
    assert set(world.candidates(world.plan(allowed_fraction=1.0))) == set(left_out)
    world.quiet()


@REMOVALS
def test_all_of_it(world: World, removal: Removal) -> None:
    """Its commits go all the same: who wants to keep them makes a tag."""
    past = bury(world)
    plan, before = world.plan(), world.there()
    done = world.apply(plan, removal=removal, exclude=["*"])
    assert world.there() == before
    assert done.summary()["objects"] == 0
    assert done.left_out.objects == plan.document.candidates
    assert done.left_out.size == plan.document.candidate_bytes
    assert commit_states(world.repo)[past.first] == "condemned"
    if removal is MOVE:
        assert world.undo(done.run).snapshots == 2
        assert whole(world.other(), past.first) == past.files[past.first]
    else:
        world.quiet()


def bury_raw(world: World, number: int) -> str:
    """A dead commit with an object that is to stay and one that is to go; gives the first."""
    with world.opened() as catalog:
        repo = catalog.repository(NAME)
        repo.branch("main").put(f"k{number}", b"k")
        repo.branch("main").commit("k")
        side = repo.create_branch("side", "main")
        side.put(f"raw/{number}", b"r")
        side.put(f"x/{number}", b"x")
        commit = side.commit("s").id
        tree = repo._workspace.containers.tree(repo.commit(commit).metarange)
        [raw] = [entry.address for entry in tree.entries() if entry.path.startswith("raw/")]
        repo.delete_branch("side")
    world.age()
    return raw


def test_the_same_glob_leaves_out_the_same_every_night(world: World) -> None:
    """When its commits are gone, only the lists of earlier runs have the path of what was left."""
    left_out: list[str] = []
    for night in range(4):
        # In the last night there is nothing else that it matches.
        left_out += [bury_raw(world, night)] if night < 3 else []
        plan = world.plan(allowed_fraction=1.0)
        assert set(left_out) <= set(world.candidates(plan))
        done = world.apply(plan, exclude=["raw/*"])
        assert done.left_out.objects == len(left_out)
        assert set(left_out) <= world.there()
    # The lists of all nights but the last are gone: each has what those before it had.
    for run in world.store().runs()[1:]:
        for stored in list(world.storage.list(world.store().place(run.id)[1].rstrip("/"))):
            world.storage.delete(stored.address)
    world.apply(world.plan(allowed_fraction=1.0), exclude=["raw/[0-1]"])
    assert world.there() & set(left_out) == set(left_out[:2])
    world.check()


def test_a_list_of_what_was_left_out_that_was_changed(world: World) -> None:
    bury_raw(world, 0)
    done = world.apply(world.plan(allowed_fraction=1.0), exclude=["raw/*"])
    folder = str(done.summary()["excluded_list"]).removeprefix(f"{world.storage.url}/")
    [stored] = world.storage.list(folder)
    world.storage.put(stored.address, b"changed")
    bury_raw(world, 1)
    plan, before = world.plan(allowed_fraction=1.0), world.there()
    with pytest.raises(PlanRefused, match="excluded by an earlier run is damaged"):
        world.apply(plan, exclude=["raw/*"])
    assert world.there() == before


@REMOVALS
def test_the_same_plan_takes_it_without_the_exclusion(world: World, removal: Removal) -> None:
    bury(world)
    plan, before = world.plan(), world.there()
    left_out = of_kind(world, plan, "range")[0]
    world.apply(plan, removal=removal, exclude=[left_out])
    done = world.apply(plan, removal=removal)
    assert before - world.there() == set(world.candidates(plan))
    assert (done.left_out.objects, done.dropped) == (0, 0)
    assert done.summary()["objects"] == plan.document.candidates
    [run] = world.store().runs()
    assert run.left_out == NOTHING_LEFT_OUT
    # What is gone is not called left out.
    again = world.apply(plan, removal=removal, exclude=[left_out])
    assert (again.left_out.objects, again.dropped) == (0, 0)
    if removal is MOVE:
        world.undo(done.run)
        assert world.there() == before


@REMOVALS
def test_it_stays_after_a_crash_too(world: World, removal: Removal) -> None:
    bury(world)
    plan, before = world.plan(), world.there()
    left_out = of_kind(world, plan, "metarange")[0]

    def die() -> None:
        raise RuntimeError("dead")

    with pytest.raises(Partial):
        world.apply(plan, removal=removal, step=At("sweep range", die))
    done = world.apply(plan, removal=removal, exclude=[left_out])
    assert before - world.there() == set(world.candidates(plan)) - {left_out}
    assert (done.left_out.objects, done.dropped) == (1, 0)
    if removal is MOVE:
        world.undo(done.run)
        assert world.there() == before


@REMOVALS
def test_an_apply_that_is_not_finished_leaves_out_the_same(world: World, removal: Removal) -> None:
    """Our own hint must not lead to what somebody took care to name."""
    bury(world)
    plan, before = world.plan(), world.there()
    left_out = of_kind(world, plan, "data")[0]

    def die() -> None:
        raise RuntimeError("dead")

    with pytest.raises(Partial) as caught:
        world.apply(plan, removal=removal, exclude=[left_out], step=At("sweep range", die))
    assert f"--exclude {left_out}" in str(caught.value.hint)
    with pytest.raises(PlanRefused, match="begun with --exclude"):
        world.apply(plan, removal=removal)
    assert left_out in world.there()
    world.apply(plan, removal=removal, exclude=[left_out])
    assert before - world.there() == set(world.candidates(plan)) - {left_out}


def test_paths_and_addresses(world: World) -> None:
    bury(world)
    plan = world.plan()
    rows = [
        row
        for file in plan.document.files
        for row in read_part(world.storage, file.part).to_pylist()
    ]
    by_path = {row["address"] for row in rows if row["path"] in ("x", "y")}
    assert len(by_path) == 2
    ranges = {row["address"] for row in rows if row["kind"] == "range"}
    folder = next(iter(ranges)).rpartition("/")[0]
    below = {row["address"] for row in rows if row["address"].startswith(f"{folder}/")}
    done = world.apply(plan, exclude=["[xy]", f"{folder}/"])
    assert by_path | below <= world.there()
    assert done.left_out.objects == len(by_path | below)


def test_a_glob_that_matches_nothing_is_refused(world: World) -> None:
    past = bury(world)
    plan, before = world.plan(), world.there()
    states = commit_states(world.repo)
    with pytest.raises(PlanRefused, match="'rwa/\\*' matches no object") as error:
        world.apply(plan, exclude=["x", "rwa/*"])
    assert error.value.details["exclude"] == ["rwa/*"]
    assert (world.there(), commit_states(world.repo)) == (before, states)
    assert whole(world.other(), past.keep) == past.files[past.keep]
    assert not world.store().runs()


@pytest.mark.parametrize("limits", [Limits(objects=3), Limits(size=50)], ids=["objects", "bytes"])
def test_a_plan_beyond_the_limits_changes_nothing(world: World, limits: Limits) -> None:
    bury(world)
    before, states = world.there(), commit_states(world.repo)
    store = world.store()
    options = PlanOptions(margins=world.margins)
    with pytest.raises(TooMuch, match="more than --max-") as error:
        collect(store, world.engine(), options, limits=limits, opener=opening(world.storage))
    assert "reclaim show" in (error.value.hint or "")
    assert (world.there(), commit_states(world.repo)) == (before, states)
    assert not store.runs()
    enough = Limits(error.value.details["candidates"], error.value.details["bytes"])
    done = collect(store, world.engine(), options, limits=enough, opener=opening(world.storage))
    assert done.applied is not None
    assert done.applied.summary()["objects"] == enough.objects


@given(glob=st.text("ab/*?[]!-^\\.", min_size=1, max_size=6), name=st.text("ab/-^]!.", max_size=5))
def test_globs_are_those_of_everybody(glob: str, name: str) -> None:
    try:
        check_globs([glob])
    except InvalidInput:
        return
    rows = pa.table({"address": ["no"], "path": pa.array([name], pa.string())})
    everybody = glob + "*" if glob.endswith("/") else glob
    assert matching(rows, glob).to_pylist() == [
        fnmatchcase(name, everybody) or fnmatchcase("no", everybody)
    ]


def test_paths_that_are_not_known_match_nothing() -> None:
    rows = pa.table({"address": ["a/b\nc", "d"], "path": pa.array([None, "e"], pa.string())})
    assert matching(rows, "a*").to_pylist() == [True, False]
    assert matching(rows, "E").to_pylist() == [False, False]
    with pytest.raises(InvalidInput):
        check_globs([""])
