"""What the setting ``protect`` keeps: an object that ever had a path which a glob matches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from reclaim.catalog import Branch
from reclaim.catalog.collection.roots import staged_paths
from reclaim.catalog.database.schema import protected_paths, upload_tokens
from reclaim.engine import pipelines
from reclaim.engine.tasks.judging import IN_DOUBT
from reclaim.engine.tasks.shielding import Matches
from reclaim.errors import IncompleteRead, InvalidInput, PlanRefused
from reclaim.policy import from_options
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.record.checkpoints import Mode
from reclaim.run.roots import protection
from reclaim.run.roots.protection import find_memory
from tests.catalog import raw
from tests.collect.helpers.uncommitted import address, begin, run, settle
from tests.collect.helpers.world import At, World

pytestmark = pytest.mark.repeats(first=4)

RAW = ("raw/*",)


def plain(world: World) -> WrittenPlan:
    plan = world.plan(allowed_fraction=1.0)
    world.apply(plan)
    return plan


RUNS: dict[str, Callable[[World], Any]] = {
    "clean": lambda world: run(world, Mode.FULL),
    "auto": run,
    "plan": plain,
}


def protect(world: World, *globs: str) -> None:
    world.repo.change_settings(protect=globs or RAW)


def work_branch(world: World) -> Branch:
    begin(world)
    return world.repo.create_branch("work", "main")


def memory_files(world: World) -> set[str]:
    return {one for one in raw.objects(world.repo) if "/_reclaim/protected/" in one}


def kept_by(plan: WrittenPlan) -> dict[str, int]:
    return {group.reason: group.objects for group in plan.document.staying}


@pytest.mark.parametrize("kind", RUNS)
def test_the_path_of_a_dead_commit_is_remembered(local: World, kind: str) -> None:
    work = work_branch(local)
    work.put("raw/x", b"precious")
    work.put("other", b"garbage")
    precious, garbage = address(work, "raw/x"), address(work, "other")
    work.commit("on work")
    protect(local)
    local.repo.delete_branch("work")
    settle(local)
    for _ in range(3):
        RUNS[kind](local)
        assert precious in local.there()
        assert garbage not in local.there()
        settle(local)


@pytest.mark.parametrize("kind", RUNS)
def test_any_path_of_an_object_protects_it(local: World, kind: str) -> None:
    work = work_branch(local)
    work.put("raw/x", b"precious")
    work.copy("raw/x", "a1")
    shared = address(work, "raw/x")
    assert shared == address(work, "a1")
    work.commit("on work")
    protect(local)
    local.repo.delete_branch("work")
    settle(local)
    for _ in range(2):
        RUNS[kind](local)
        assert shared in local.there()
        settle(local)


def test_a_path_is_remembered_while_another_commit_has_the_object(local: World) -> None:
    """When its commit dies, the object is live under another path; later that dies as well."""
    work = work_branch(local)
    work.put("raw/x", b"precious")
    precious = address(work, "raw/x")
    work.commit("as raw/x")
    work.move("raw/x", "zz")
    work.commit("as zz")
    protect(local)
    settle(local)
    plan = local.plan(from_options(keep_last=1), allowed_fraction=1.0)
    assert precious not in local.candidates(plan)
    local.apply(plan)
    assert memory_files(local)
    local.repo.delete_branch("work")
    settle(local)
    for kind in ("auto", "clean"):
        RUNS[kind](local)
        assert precious in local.there()
        settle(local)


def move_and_delete(main: Branch) -> None:
    main.move("raw/x", "zz")
    main.delete("zz")


def copy_and_delete(main: Branch) -> None:
    main.copy("raw/x", "a1")
    main.delete("raw/x")
    main.delete("a1")


def copy_and_reset(main: Branch) -> None:
    main.copy("raw/x", "a1")
    main.reset()


STAGED: dict[str, Callable[[Branch], None]] = {
    "first path, then moved": move_and_delete,
    "copied, and both deleted": copy_and_delete,
    "copied, and reset": copy_and_reset,
}


@pytest.mark.parametrize("deed", STAGED)
@pytest.mark.parametrize("first", ["raw/x", "a0"])
def test_any_staged_path_protects(local: World, deed: str, first: str) -> None:
    main = begin(local)
    protect(local)
    main.put(first, b"precious")
    precious = address(main, first)
    if first != "raw/x":
        main.move(first, "raw/x")
    STAGED[deed](main)
    for kind in ("clean", "auto", "plan"):
        settle(local)
        local.store().clean()
        RUNS[kind](local)
        assert precious in local.there(), kind


def test_the_first_path_of_what_was_committed_under_another(local: World) -> None:
    work = work_branch(local)
    protect(local)
    work.put("raw/x", b"precious")
    precious = address(work, "raw/x")
    work.move("raw/x", "zz")
    work.commit("as zz")
    local.repo.delete_branch("work")
    settle(local)
    for cleaned in (False, True):
        if cleaned:
            local.store().clean()
            assert raw.rows(local.repo, protected_paths)
        assert precious not in local.candidates(local.uncommitted(allowed_fraction=1.0))


def test_more_staged_paths_than_explain_a_plan(
    local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staged_paths, "MOST", 2)
    main = begin(local)
    protect(local)
    for number in range(5):
        main.put(f"raw/{number}", b"precious")
    precious = {address(main, f"raw/{number}") for number in range(5)}
    main.reset()
    settle(local)
    plan, _ = run(local)
    assert precious <= local.there()
    assert kept_by(plan)["protected by raw/*"] == 5


def test_an_upload_that_was_never_linked_stays_for_good(local: World) -> None:
    main = begin(local)
    upload = main.get_physical_address("raw/x")
    local.storage.put(upload.address, b"precious")
    protect(local)
    for _ in range(3):
        settle(local)
        local.clock.advance(days=40)
        with local.opened() as catalog:
            catalog.reap()
        run(local)
        assert upload.address in local.there()
    assert raw.rows(local.repo, upload_tokens)


def buried(world: World) -> str:
    """A protected object of a dead commit, whose containers a run has taken."""
    work = work_branch(world)
    work.put("raw/x", b"precious")
    precious = address(work, "raw/x")
    work.commit("on work")
    protect(world)
    world.repo.delete_branch("work")
    settle(world)
    run(world)
    settle(world)
    assert memory_files(world)
    return precious


@pytest.mark.parametrize("which", ["protected.json", ".parquet"])
@pytest.mark.parametrize("how", ["gone", "changed"])
def test_a_memory_that_is_damaged_stops_every_plan(local: World, which: str, how: str) -> None:
    buried(local)
    (file,) = (one for one in memory_files(local) if one.endswith(which))
    if how == "gone":
        local.storage.delete(file)
    else:
        local.storage.put(file, local.storage.get(file) + b" ")
    refused = pytest.raises(PlanRefused, match="the list of objects kept by")
    with refused:
        local.plan()
    for mode in Mode:
        with refused:
            local.uncommitted(mode)


def test_files_of_the_memory_are_kept_and_old_ones_go(
    local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protection, "MAX_PARTS", 2)
    precious = {buried(local)}
    for number in range(3):
        work = local.repo.create_branch("work", "main")
        work.put(f"raw/{number}", b"precious")
        precious.add(address(work, f"raw/{number}"))
        work.commit("on work")
        local.repo.delete_branch("work")
        settle(local)
        plain(local)
    settle(local)
    run(local)
    assert precious <= local.there()
    memory = find_memory(local.store(), local.storage)
    assert memory.generation == 4
    assert len(memory.parts) <= 2
    assert memory_files(local) == set(memory.addresses())


def test_what_was_kept_goes_when_nothing_protects_it(local: World) -> None:
    precious = buried(local)
    local.repo.change_settings(protect=())
    for _ in range(2):
        run(local)
        settle(local)
    assert precious not in local.there()
    assert not memory_files(local)
    protect(local)
    local.plan()


def test_another_glob_keeps_what_it_matches(local: World) -> None:
    precious = buried(local)
    protect(local, "*/x", "zz/*")
    plan, _ = run(local)
    assert precious in local.there()
    assert kept_by(plan)["protected by */x"] == 1
    protect(local, "zz/*")
    run(local)
    assert precious not in local.there()


def test_a_container_that_cannot_be_read_keeps_everything(local: World) -> None:
    work = work_branch(local)
    work.put("raw/x", b"precious")
    precious = address(work, "raw/x")
    before = local.there()
    work.commit("on work")
    (damaged,) = (
        one
        for one in local.there() - before
        if b"raw/x" in local.storage.get(one) and precious.encode() in local.storage.get(one)
    )
    protect(local)
    local.repo.delete_branch("work")
    settle(local)
    whole = local.storage.get(damaged)
    local.storage.put(damaged, whole[:-20])
    settle(local)
    there = local.there()
    for kind in ("clean", "auto", "plan"):
        plan = RUNS[kind](local)
        plan = plan if isinstance(plan, WrittenPlan) else plan[0]
        assert local.there() == there, kind
        assert kept_by(plan)[IN_DOUBT] > 0
        assert any("cannot be read" in line for line in plan.document.warnings)
        settle(local)
    local.storage.put(damaged, whole)
    settle(local)
    run(local)
    assert local.there() < there
    assert precious in local.there()


def test_another_run_takes_the_containers_while_a_plan_is_made(local: World) -> None:
    work = work_branch(local)
    work.put("raw/x", b"precious")
    precious = address(work, "raw/x")
    work.commit("on work")
    protect(local)
    local.repo.delete_branch("work")
    settle(local)
    first = local.plan(allowed_fraction=1.0)
    plan = local.plan(allowed_fraction=1.0, step=At("match", lambda: local.apply(first)))
    assert precious not in local.candidates(plan)


def test_a_run_that_died_and_goes_on(local: World) -> None:
    work = work_branch(local)
    work.put("raw/x", b"precious")
    precious = address(work, "raw/x")
    work.commit("on work")
    protect(local)
    local.repo.delete_branch("work")
    settle(local)
    plan = local.plan(allowed_fraction=1.0)

    def die() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        local.apply(plan, step=At("sweep metarange", die))
    # Another plan knows by the record of the one that died, however often it dies.
    assert precious not in local.candidates(local.plan(allowed_fraction=1.0))
    with pytest.raises(KeyboardInterrupt):
        local.apply(plan, step=At("confirm", die))
    assert precious not in local.candidates(local.plan(allowed_fraction=1.0))
    local.apply(plan)
    recorded = [one for one in local.store().runs() if one.protected]
    assert [one.id for one in recorded] == [plan.document.run]
    settle(local)
    plain(local)
    assert precious in local.there()


def test_a_path_that_an_object_had_between_plan_and_apply(local: World) -> None:
    work = work_branch(local)
    work.put("other", b"precious")
    precious = address(work, "other")
    dead = work.commit("on work").id
    protect(local)
    local.repo.delete_branch("work")
    settle(local)
    plan = local.plan(allowed_fraction=1.0)
    assert precious in local.candidates(plan)
    local.repo.create_branch("again", dead).move("other", "raw/x")
    local.repo.delete_branch("again")
    local.apply(plan)
    assert precious in local.there()


def test_containers_that_were_not_asked_are_missed(
    local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = work_branch(local)
    work.put("raw/x", b"precious")
    work.commit("on work")
    protect(local)
    local.repo.delete_branch("work")
    settle(local)
    monkeypatch.setattr(pipelines, "match", lambda _engine, _request: Matches())
    missed = pytest.raises(IncompleteRead, match="in the search for protected paths")
    with missed:
        local.plan()
    with missed:
        local.uncommitted()


@pytest.mark.parametrize("glob", ["[z-a]*", "", "a,b", "[a"])
def test_what_is_no_glob_is_refused(local: World, glob: str) -> None:
    with pytest.raises(InvalidInput):
        local.repo.change_settings(protect=(glob,))
