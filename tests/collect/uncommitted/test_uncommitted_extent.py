"""What a run on uncommitted data looks at, and what of it may not go."""

from __future__ import annotations

import pytest

from reclaim.catalog import Repository
from reclaim.errors import (
    InvalidInput,
    PlanRefused,
    StorageAhead,
    TooMuch,
)
from reclaim.run.record.checkpoints import Mode
from reclaim.run.uncommitted import scope
from reclaim.stores.catalog import CatalogStore
from reclaim.stores.catalog import format as catalog_format
from tests.collect.helpers.uncommitted import (
    address,
    begin,
    checkpoint_of,
    notes,
    optimized,
    run,
    settle,
)
from tests.collect.helpers.world import NAME, World


def test_a_branch_limits_the_listing_and_never_the_references(local: World) -> None:
    main = begin(local)
    work = local.repo.create_branch("work", "main")
    work.put("x", b"merged")
    work.commit("on work")
    work.put("y", b"garbage")
    garbage, kept = address(work, "y"), address(work, "x")
    main.merge("work")
    main.put("z", b"other garbage")
    other = address(main, "z")
    work.reset()
    main.reset()
    local.repo.delete_branch("work")
    settle(local)
    for mode in (Mode.FULL, Mode.INCREMENTAL):
        plan = local.uncommitted(mode, branch="work", allowed_fraction=1.0)
        assert notes(plan).mode == mode
        assert set(local.candidates(plan)) == {garbage}
    before = checkpoint_of(local)
    local.apply(plan)
    assert checkpoint_of(local) == before, "it leaves no checkpoint"
    assert garbage not in local.there()
    assert {other, kept} <= local.there()
    local.check()
    assert other in optimized(local)


def test_open_partitions_and_protected_globs_are_counted(local: World) -> None:
    begin(local)
    local.repo.change_settings(protect=("raw/*", "*.keep"))
    main = local.repo.branch("main")
    for path in ("raw/1", "raw/2", "x.keep", "free"):
        main.put(path, path.encode())
    kept = {address(main, path) for path in ("raw/1", "raw/2", "x.keep")}
    free = address(main, "free")
    deeper = f"{free.rpartition('/')[0]}/of/somebody"
    local.storage.put(deeper, b"not named as a branch names its data")
    main.reset()
    settle(local)
    with local.opened() as catalog:
        catalog.repository(NAME).branch("main").put("open", b"open")
        catalog.repository(NAME).branch("main").reset()
        plan = local.uncommitted(allowed_fraction=1.0)
        assert set(local.candidates(plan)) & local.there() == {free}
        why = {group.reason: group.objects for group in plan.document.staying}
        assert why["protected by raw/*"] == 2
        assert why["protected by *.keep"] == 1
        assert why["in an open partition"] == 1
        assert why["of a kind that is never deleted"] == 1
    local.apply(plan)
    assert kept | {deeper} <= local.there()
    local.repo.change_settings(protect=())
    settle(local)
    assert optimized(local) >= kept


def test_what_is_protected_after_the_plan_refuses_it(local: World) -> None:
    main = begin(local)
    main.put("raw/1", b"1")
    main.reset()
    settle(local)
    before = local.there()
    plan = local.uncommitted(allowed_fraction=1.0)
    local.repo.change_settings(protect=("raw/*",))
    with pytest.raises(PlanRefused, match="protects raw/\\* since"):
        local.apply(plan)
    assert local.there() == before


def test_what_is_known_counts_for_the_rule_of_90_percent(local: World) -> None:
    main = begin(local)
    for number in range(8):
        main.put(f"many/{number}", b"x")
    main.commit("many")
    settle(local)
    run(local)
    main = local.repo.branch("main")
    for number in range(5):
        main.put(f"garbage/{number}", b"x")
    main.reset()
    settle(local)
    # All that an optimized run looks at would go, and it is far from all that is known.
    plan = local.uncommitted(Mode.INCREMENTAL)
    assert notes(plan).mode == Mode.INCREMENTAL
    assert plan.document.candidates >= 5
    assert notes(plan).objects_known > 15
    assert plan.document.fraction < 0.5
    local.repo.branch("main").reset_to(oldest(local.repo))
    local.clock.advance(hours=3)
    with pytest.raises(TooMuch):
        local.uncommitted(Mode.INCREMENTAL)


def oldest(repo: Repository) -> str:
    return list(repo.log("main"))[-1].id


def test_many_branches_are_listed_by_key_ranges(
    local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scope, "MANY_BRANCHES", 1)
    monkeypatch.setattr(catalog_format, "MANY_BRANCHES", 1)
    begin(local)
    for name in ("one", "two", "three"):
        local.repo.create_branch(name, "main").put("x", name.encode())
    settle(local)
    run(local)
    left = set()
    for name in ("one", "two"):
        left.add(address(local.repo.branch(name), "x"))
        local.repo.branch(name).reset()
    local.repo.branch("three").put("y", b"y")
    settle(local)
    assert optimized(local) == left
    # In a folder that need not be listed at all.
    stranger = f"repos/{local.repo.uid}/branches/one/0000000000ffff_{'f' * 32}/x"
    local.storage.put(stranger, b"of a newer database")
    for mode in (Mode.FULL, Mode.INCREMENTAL):
        with pytest.raises(StorageAhead):
            local.uncommitted(mode)


def test_an_empty_name_of_a_branch(world: World) -> None:
    with pytest.raises(InvalidInput, match="the name of a branch is empty"):
        world.uncommitted(Mode.FULL, branch="")


@pytest.mark.parametrize("branch", [None, "work"])
def test_what_was_deleted_since_counts_no_more_for_the_rule_of_90_percent(
    local: World, branch: str | None
) -> None:
    local.repo.change_settings(hard_delete=True)
    main = begin(local)
    work = local.repo.create_branch("work", "main")
    for number in range(60):
        work.put(f"w{number}", b"work")
        main.put(f"s{number}", b"staged")
    work.commit("all the work")
    staged = {entry.address for entry in main.entries() if entry.path.startswith("s")}
    settle(local)
    run(local)
    local.repo.branch("main").reset()
    for _ in range(3):
        local.clock.advance(hours=1)
        with local.opened() as catalog:
            catalog.reap()
    assert not staged & local.there(), "the reaper took them"
    local.repo.delete_branch("work")
    settle(local)
    if branch is not None:
        limited = local.uncommitted(Mode.INCREMENTAL, branch=branch)
        assert notes(limited).mode == Mode.INCREMENTAL
        assert notes(limited).objects_known <= len(local.there())
        return
    for mode in (Mode.FULL, Mode.INCREMENTAL):
        with pytest.raises(TooMuch) as refused:
            local.uncommitted(mode)
        # Files of runs are not among them.
        assert refused.value.details["objects"] <= len(local.there())
        assert refused.value.message.startswith(f"{refused.value.details['candidates']} of ")
    plan, _ = run(local, Mode.INCREMENTAL)
    assert notes(plan).mode == Mode.INCREMENTAL
    again = local.uncommitted(Mode.INCREMENTAL)
    assert notes(again).objects_known <= len(local.there())


def test_a_branch_of_a_deleted_repository_is_refused(local: World) -> None:
    begin(local)
    uid = local.repo.uid
    local.opened().delete_repository(NAME)
    local.age()
    store = CatalogStore(local.opened().workspace(uid))
    with pytest.raises(InvalidInput, match="is collected completely"):
        local.uncommitted(branch="main", store=store)
