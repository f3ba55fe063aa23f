"""Once something was condemned, every end is partial, and says what the cause was."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from reclaim.errors import (
    Corrupt,
    DatabaseUnavailable,
    OutOfSpace,
    OwnedAddress,
    Partial,
    StorageUnavailable,
)
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.run_record import Phase
from reclaim.stores.catalog import HeldRepository
from reclaim.testing.faults import FaultyStorage, Nth
from tests.collect.helpers.refusing import finishes
from tests.collect.helpers.world import At, World, bury, leftovers, stepped


def raising(error: BaseException) -> Callable[[], None]:
    def work() -> None:
        raise error

    return work


def check_partial(error: Partial, run: str, kind: str, message: str) -> None:
    """It is told as partial, with the cause inside and nothing that says otherwise."""
    assert (error.kind, error.exit_code) == ("partial", 7)
    assert error.details == {"run": run, "cause": {"kind": kind, "message": message}}
    assert error.message == f"run {run} was interrupted: {message}"
    assert error.hint is not None
    assert "nothing was changed" not in error.hint


CAUSES: dict[str, tuple[Exception, str, str]] = {
    "a database that goes away": (
        DatabaseUnavailable("it is gone", hint="run it again; nothing was changed"),
        "database_unavailable",
        "it is gone",
    ),
    "a full disk": (OutOfSpace("the disk is full"), "out_of_space", "the disk is full"),
    "a refused address": (OwnedAddress("not ours"), "owned_address", "not ours"),
    "a damaged journal": (Corrupt("not as it was"), "corrupt", "not as it was"),
    "a bug": (TypeError("odd\ntext"), "unexpected", "TypeError: odd"),
    "a bug without words": (AssertionError(), "unexpected", "AssertionError"),
}


AFTER = [(cause, "sweep range") for cause in CAUSES]
AFTER += [("a bug", step) for step in ("sweep data", "before collect", "before finish")]


@pytest.mark.parametrize(("cause", "step"), AFTER)
def test_whatever_stops_an_apply_after_promote(local: World, cause: str, step: str) -> None:
    bury(local)
    plan = local.plan()
    error, kind, message = CAUSES[cause]
    # A record is also written before and after the promotion.
    at = At(step, raising(error), nth=3 if step == "before finish" else 1)
    with pytest.raises(Partial) as caught:
        local.apply(plan, step=at, store=stepped(local.store(), at))
    check_partial(caught.value, plan.document.run, kind, message)
    assert caught.value.__cause__ is error
    [run] = local.repo.runs()
    assert (run.phase, run.error) == (Phase.PARTIAL, kind)
    finishes(local, plan)
    local.quiet()


@pytest.mark.parametrize("cause", ["a database that goes away", "a refused address", "a bug"])
@pytest.mark.parametrize("step", ["after condemn", "after release"])
def test_whatever_stops_an_apply_before_promote(local: World, cause: str, step: str) -> None:
    """It is raised as it is; the marks are off, and the record says that nothing was deleted."""
    bury(local)
    plan = local.plan()
    error, kind, _ = CAUSES[cause]
    at = At(step, raising(error))
    with pytest.raises(type(error)) as caught:
        local.apply(plan, step=at, store=stepped(local.store(), at))
    assert caught.value is error
    [run] = local.repo.runs()
    assert (run.phase, run.error) == (Phase.STOPPED, kind)
    assert leftovers(local.repo) == {}
    finishes(local, plan)


NOT_KNOWN = DatabaseUnavailable("whether it was saved is not known")


def test_whether_it_was_promoted_is_not_known(local: World) -> None:
    """The connection was lost while it was saved: the store is asked, and no mark stays."""
    bury(local)
    plan = local.plan()
    for step, error, state in (
        ("before promote", DatabaseUnavailable, Phase.STOPPED),
        ("after promote", Partial, Phase.PARTIAL),
    ):
        at = At(step, raising(NOT_KNOWN))
        with pytest.raises(error):
            local.apply(plan, store=stepped(local.store(), at))
        assert "provisional" not in leftovers(local.repo).values()
        assert local.repo.runs()[0].phase == state
    finishes(local, plan)
    local.quiet()


@pytest.mark.parametrize("step", ["before promote", "after promote"])
def test_nor_can_the_store_be_asked(local: World, step: str) -> None:
    """Then it counts as promoted."""
    bury(local)
    plan = local.plan()
    with pytest.MonkeyPatch.context() as patch:

        def go() -> None:
            patch.setattr(HeldRepository, "roll_back", lambda _: raising(NOT_KNOWN)())
            raise NOT_KNOWN

        with pytest.raises(Partial):
            local.apply(plan, store=stepped(local.store(), At(step, go)))
    assert local.repo.runs()[0].phase == Phase.PARTIAL
    finishes(local, plan)
    local.quiet()


def test_a_database_that_stays_away(local: World) -> None:
    """What cannot be recorded is told all the same; the next apply finishes it."""
    bury(local)
    plan = local.plan()

    def away(*_: Any, **__: Any) -> None:
        raise DatabaseUnavailable("it is gone", hint="nothing was changed")

    with pytest.MonkeyPatch.context() as patch:

        def go() -> None:
            for name in ("finish", "abandon", "collect"):
                patch.setattr(HeldRepository, name, away)

        at = At("sweep data", go)
        with pytest.raises(Partial) as caught:
            local.apply(plan, step=at)
    check_partial(caught.value, plan.document.run, "database_unavailable", "it is gone")
    finishes(local, plan)


def test_a_storage_that_fails_while_the_journal_is_written(local: World) -> None:
    bury(local)
    plan = local.plan()
    full = Nth(1, lambda *_: OutOfSpace("full"), calls=("put",), below=f"{plan.place.prefix}apply/")
    swept: list[str] = []

    def once_swept(call: str, address: str) -> None:
        if swept:
            full(call, address)

    storage = FaultyStorage(local.storage, once_swept)
    with pytest.raises(Partial) as caught:
        local.apply(plan, step=swept_noted(swept), storage=storage)
    check_partial(caught.value, plan.document.run, "out_of_space", "full")
    finishes(local, plan)


def swept_noted(swept: list[str]) -> Callable[[str], None]:
    return lambda step: swept.append(step) if step.startswith("sweep") else None


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interruption_stays_one_and_is_recorded(
    local: World, error: type[BaseException]
) -> None:
    bury(local)
    plan = local.plan()
    for step, state in (("confirm", Phase.STOPPED), ("sweep range", Phase.PARTIAL)):
        with pytest.raises(error):
            local.apply(plan, step=At(step, raising(error())))
        [run] = local.repo.runs()
        assert (run.phase, run.error) == (state, "interrupted")
    finishes(local, plan)


def test_a_second_apply_that_stops_early_leaves_the_run_partial(local: World) -> None:
    """Something was set aside by the first one; so it cannot go on in another way."""
    bury(local)
    plan = local.plan()
    with pytest.raises(Partial):
        local.apply(plan, step=At("sweep range", raising(TypeError())), removal=MoveToQuarantine())
    with pytest.raises(StorageUnavailable):
        local.apply(
            plan,
            step=At("confirm", raising(StorageUnavailable("down"))),
            removal=MoveToQuarantine(),
        )
    [run] = local.repo.runs()
    assert run.quarantine is not None
    assert (run.phase, run.quarantine.removal) == (Phase.PARTIAL, "moved")
    assert local.undo(run.id).left == ()
    local.check()


@pytest.mark.parametrize("step", ["sweep quarantine", "before restore", "before taken"])
def test_whatever_stops_an_undo_once_it_has_moved_something(local: World, step: str) -> None:
    bury(local)
    plan = local.plan()
    run = plan.document.run
    local.apply(plan, removal=MoveToQuarantine())
    at = At(step, raising(DatabaseUnavailable("it is gone", hint="nothing was changed")))
    with pytest.raises(Partial) as caught:
        local.undo(run, step=at, store=stepped(local.store(), at))
    check_partial(caught.value, run, "database_unavailable", "it is gone")
    assert local.undo(run).left == ()
    local.check()


def test_an_undo_that_moved_nothing_says_what_stopped_it(local: World) -> None:
    bury(local)
    plan = local.plan()
    local.apply(plan, removal=MoveToQuarantine())
    at = At("before begin", raising(DatabaseUnavailable("it is gone")))
    with pytest.raises(DatabaseUnavailable):
        local.undo(plan.document.run, store=stepped(local.store(), at))


@pytest.mark.parametrize("step", ["sweep quarantine", "before forget", "before finish"])
def test_whatever_stops_a_purge_once_it_has_deleted_something(local: World, step: str) -> None:
    bury(local)
    plan = local.plan()
    local.apply(plan, removal=MoveToQuarantine())
    # The first record that is written says that the purge begins: nothing is deleted yet.
    at = At(step, raising(TypeError("odd")), nth=2 if step == "before finish" else 1)
    with pytest.raises(Partial) as caught:
        local.purge(timedelta(0), step=at, store=stepped(local.store(), at))
    purging = local.repo.runs()[0]
    assert purging.kind == "purge"
    check_partial(caught.value, purging.id, "unexpected", "TypeError: odd")
    assert (purging.phase, purging.error) == (Phase.PARTIAL, "unexpected")
    local.purge(timedelta(0))
    local.quiet()


def test_a_purge_whose_record_cannot_be_written(local: World) -> None:
    bury(local)
    local.apply(local.plan(), removal=MoveToQuarantine())

    def away(*_: Any, **__: Any) -> None:
        raise DatabaseUnavailable("it is gone")

    with pytest.MonkeyPatch.context() as patch:

        def go() -> None:
            for name in ("finish", "forget"):
                patch.setattr(HeldRepository, name, away)

        with pytest.raises(Partial):
            local.purge(timedelta(0), step=At("sweep quarantine", go))
    local.purge(timedelta(0))
    local.quiet()


def test_a_lock_that_cannot_be_given_back_fails_no_run(
    local: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    bury(local)
    plan = local.plan()

    def fail(*_: Any) -> None:
        raise DatabaseUnavailable("it is gone")

    with monkeypatch.context() as patch:
        patch.setattr("reclaim.catalog.collection.locks._give_back", fail)
        assert local.apply(plan).failed == 0
    local.clock.advance(minutes=11)
    assert local.apply(plan).failed == 0
