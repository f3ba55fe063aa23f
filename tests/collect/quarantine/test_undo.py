"""Undo gives everything back: random histories, writers at work, one run after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reclaim.errors import Conflict, Gone, Partial
from reclaim.policy import Policy, Rules, from_options
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.testing import FakeClock
from tests.collect.helpers.dying import Frozen
from tests.collect.helpers.histories import (
    HISTORIES,
    LATER,
    POLICIES,
    Deed,
    Readable,
    live,
    plan,
    start,
)
from tests.collect.helpers.older import heedless
from tests.collect.helpers.world import NAME, At, World, bury, stepped, whole
from tests.conftest import Backend
from tests.support.memory import folder_in_memory
from tests.support.servers import PostgreSQL
from tests.support.soak import MORE

MOVE = MoveToQuarantine()
Making = Callable[[], Any]


@contextmanager
def fresh() -> Iterator[World]:
    """A new world in a folder of its own, for each example."""
    with folder_in_memory() as folder:
        backend = Backend("embedded", str(folder / "catalog"), None, FakeClock())
        try:
            yield World.make(backend)
        finally:
            backend.close()


@pytest.fixture
def served(postgres: PostgreSQL, bucket: str) -> Making:
    """New worlds on servers."""

    @contextmanager
    def make() -> Iterator[World]:
        storage = f"{bucket}/{uuid4().hex}"
        backend = Backend(
            "server", postgres.new_database(), storage, FakeClock(), postgres=postgres
        )
        try:
            yield World.make(backend)
        finally:
            backend.close()

    return make


def give_back(world: World, deeds: list[Deed], policy: dict[str, Any], later: list[Deed]) -> None:
    """What a run took is back after an undo, whatever was done in between."""
    repo = world.repo
    start(world, deeds)
    before = Readable.of(world)
    there = world.there()
    made = plan(world, policy)
    run = world.apply(made, removal=MOVE).run
    world.check()
    assert world.there() | world.aside() == there
    taken = before.refs.keys() - {ref.name for ref in (*repo.branches(), *repo.tags())}
    live(world, later)
    between = Readable.of(world)
    undone = world.undo(run)
    world.check()
    after = Readable.of(world)
    assert not world.aside()
    assert there <= world.there()
    if not later:
        assert undone.left == ()
        assert after == before
        assert world.there() == there
    assert before.files.items() <= after.files.items()
    assert between.refs.items() <= after.refs.items()
    assert between.staged.items() <= after.staged.items()
    # Only names and parents that were changed since can be left; commits all come back.
    left = set(undone.left)
    assert not [one for one in left if one.startswith("commit ")]
    for name in taken:
        there_again = after.refs.get(name) == before.refs[name]
        assert there_again or left & {f"the tag {name}", f"the branch {name}"}


@given(HISTORIES, POLICIES, st.just([]))
@settings(max_examples=12 * MORE)
def test_everything_reads_as_before(
    deeds: list[Deed], policy: dict[str, Any], later: list[Deed]
) -> None:
    with fresh() as world:
        give_back(world, deeds, policy, later)


@given(HISTORIES, POLICIES, LATER)
@settings(max_examples=6 * MORE)
def test_nothing_is_lost_when_others_went_on(
    deeds: list[Deed], policy: dict[str, Any], later: list[Deed]
) -> None:
    with fresh() as world:
        give_back(world, deeds, policy, later)


@given(deeds=HISTORIES, policy=POLICIES, later=LATER)
@settings(max_examples=2 * MORE)
def test_everything_reads_as_before_on_servers(
    served: Making, deeds: list[Deed], policy: dict[str, Any], later: list[Deed]
) -> None:
    with served() as world:
        give_back(world, deeds, policy, later)


@given(HISTORIES, POLICIES, LATER, POLICIES, st.booleans())
@settings(max_examples=6 * MORE)
def test_a_run_after_another(
    deeds: list[Deed],
    policy: dict[str, Any],
    later: list[Deed],
    second_policy: dict[str, Any],
    newest_first: bool,
) -> None:
    """The newest first, all comes back; otherwise what a later run edited waits for that run."""
    with fresh() as world:
        start(world, deeds)
        before = Readable.of(world)
        runs = [world.apply(plan(world, policy), removal=MOVE).run]
        live(world, later)
        world.age()
        between = Readable.of(world)
        runs.append(world.apply(plan(world, second_policy), removal=MOVE).run)
        waiting: list[str] = []
        for run in reversed(runs) if newest_first else runs:
            try:
                world.undo(run)
            except Partial:
                waiting.append(run)
            world.check()
        assert not waiting or not newest_first
        for run in waiting:
            world.undo(run)
        after = Readable.of(world)
        assert (before.files | between.files).items() <= after.files.items()


def test_a_run_undone_before_a_later_one_that_took_what_it_shares(local: World) -> None:
    """In the wrong order some waits, by name, and comes back once the other run is undone."""
    past = bury(local)
    first = local.apply(local.plan(), removal=MOVE).run
    with local.opened() as catalog:
        repo = catalog.repository("sales")
        for path in ("a", "b/1", "b/2", "c"):
            repo.branch("main").put(path, b"new")
        now = repo.branch("main").commit("new").id
        for name in ("work", "clean"):
            repo.delete_branch(name)
    local.age()
    with heedless():
        plan = local.plan(Policy(Rules(keep_last=1)), allowed_fraction=1.0)
        second = local.apply(plan, removal=MOVE).run
    with pytest.raises(Partial) as partial:
        local.undo(first)
    waits = " ".join(partial.value.details["waits"])
    assert past.first in waits
    assert past.second in waits
    # The command in the hint undoes the run of the message.
    hint = str(partial.value.hint)
    assert f"reclaim undo {first}" in hint
    assert second not in hint
    assert "undo later runs with a quarantine first" in hint
    local.check()
    # However long that takes, and whatever runs meanwhile, what was promised stays.
    local.age()
    local.apply(local.plan(allowed_fraction=1.0))
    assert local.undo(second).left == ()
    assert whole(local.other(), past.keep) == past.files[past.keep]
    assert [commit.id for commit in local.other().log("main")][:2] == [now, past.keep]
    assert local.undo(first).snapshots == 2
    for commit, files in past.files.items():
        assert whole(local.other(), commit) == files
    local.quiet()


def test_an_undo_leaves_what_was_copied_from_as_it_is(local: World) -> None:
    """A copy comes back as if it were written now; its original waits in another quarantine."""
    past = bury(local)
    with local.opened() as catalog:
        work = catalog.repository(NAME).branch("work")
        work.copy("x", "copied", source_ref=past.second)
        work.commit("a copy of what is dead")
    local.age()
    original = local.apply(local.plan(), removal=MOVE).run
    local.repo.delete_branch("work")
    local.age()
    copied = local.apply(local.plan(), removal=MOVE).run
    local.undo(copied)
    assert local.undo(original).snapshots == 2
    assert whole(local.other(), past.second) == past.files[past.second]


def test_a_commit_that_misses_an_object_is_left(local: World) -> None:
    """Its parent lives, but what it shared with an older one went with that one."""
    main = local.repo.branch("main")
    main.put("x", b"x")
    main.put("y", b"y")
    older = main.commit("older").id
    local.clock.advance(hours=1)
    main.delete("x")
    parent = main.commit("without x").id
    again = local.repo.create_branch("side").revert(parent)
    assert again is not None
    local.repo.delete_branch("side")
    local.backend.close()
    local.repo = local.other()
    local.age()
    run = local.apply(local.plan(), removal=MOVE).run
    with heedless():
        local.apply(local.plan(Policy(Rules(keep_last=1)), allowed_fraction=1.0))
    with pytest.raises(Partial) as partial:
        local.undo(run)
    missing = f"commit {again.id}: some of its objects are missing"
    assert partial.value.details["waits"] == [missing]
    for gone in (again.id, older):
        with pytest.raises(Gone):
            whole(local.other(), gone)
    assert whole(local.other(), parent) == {"y": b"y"}
    assert local.purge(timedelta(0)) is not None
    local.quiet()


def test_writers_at_work_at_each_step_of_an_undo(world: World) -> None:
    past = bury(world)
    with world.opened() as catalog:
        catalog.repository("sales").create_tag("tag", past.second)
    world.age()
    policy = from_options(older_than="3d")
    run = world.apply(
        world.plan(policy, delete_expired_tags=True, allowed_fraction=1.0), removal=MOVE
    ).run
    assert world.repo.tags() == []
    frozen = Frozen(world)
    steps: list[str] = []
    world = frozen.thaw()
    world.undo(run, step=steps.append, store=stepped(world.store(), steps.append))
    assert len(steps) > 10
    for at, name in list(enumerate(steps))[:: 1 if world.backend.postgres is None else 6]:
        frozen.thaw()
        done: set[str] = set()

        def work(done: set[str] = done) -> None:
            with world.opened() as catalog:
                repo = catalog.repository("sales")
                repo.branch("main").put("meanwhile", b"meanwhile")
                repo.branch("main").commit("meanwhile")
                repo.delete_branch("work")
                repo.create_branch("new", "main").put("staged", b"staged")
                with suppress(Conflict, Gone):
                    repo.create_branch("dead", past.first)
                    done.add("dead")
                with suppress(Conflict):
                    repo.create_tag("tag", "main")
                    done.add("tag")

        writer = At(name, work, nth=steps[: at + 1].count(name))
        undone = world.undo(run, step=writer, store=stepped(world.store(), writer))
        assert writer.done
        world.check()
        repo = world.other()
        for commit, files in past.files.items():
            assert whole(repo, commit) == files, name
        assert undone.left == (("the tag tag",) if "tag" in done else ())
        assert ("tag" in done) == (repo.commit("tag").id != past.second)
        # A commit is named again only once it is back.
        assert ("dead" in done) == (name == "after restore")
        assert ("dead" in done) == ("dead" in {ref.name for ref in repo.branches()})
        assert whole(repo, "main") == past.files[past.keep] | {"meanwhile": b"meanwhile"}
        assert whole(repo, "new")["staged"] == b"staged"
        assert "work" not in {ref.name for ref in repo.branches()}


def test_what_is_back_and_in_no_commit_has_its_margin(world: World) -> None:
    with world.opened() as catalog:
        branch = catalog.repository("sales").branch("main")
        branch.put("lost", b"lost")
        branch.reset()
    bury(world)
    made = world.plan()
    reasons = world.candidates(made)
    [lost] = [one for one, reason in reasons.items() if reason == "uploaded, and in no commit"]
    run = world.apply(made, removal=MOVE).run
    assert lost not in world.there()
    world.undo(run)
    world.clock.advance(hours=23)
    world.apply(world.plan())
    assert world.storage.get(lost) == b"lost"
    world.clock.advance(timedelta(hours=2))
    assert lost in world.candidates(world.plan())
