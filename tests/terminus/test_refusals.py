"""What stops a run before anything goes: each with its own error, and every layer in its place."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from reclaim.errors import (
    ClockSkew,
    Corrupt,
    IncompleteRead,
    InvalidInput,
    NotFound,
    OutOfTime,
    ReclaimError,
    Refused,
    TooMuch,
    UnknownVersion,
)
from reclaim.policy import Policy, Rules
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run_record import Phase
from reclaim.stores.sidecar import leases
from reclaim.stores.terminus import graph
from reclaim.stores.terminus.labels import SYSTEM, file_name
from reclaim.stores.terminus.store import TerminusStore
from reclaim.testing import ClockedStorage
from tests.terminus.world import STEPS, At, Past, World, bury, cut, stepped


@pytest.fixture
def past(world: World) -> Past:
    return bury(world)


def refused(
    world: World, plan: WrittenPlan, kind: type[ReclaimError], *, match: str | None = None
) -> ReclaimError:
    """Neither a plan nor an apply of an older one gets anywhere; nothing is marked for long."""
    before = world.there()
    with pytest.raises(kind, match=match) as planning:
        world.plan()
    with pytest.raises(kind, match=match):
        world.apply(plan)
    assert world.there() == before
    assert world.aside() == set()
    assert list(world.folder.glob(".reclaim/condemned/*")) == []
    # A plan that was refused leaves nothing that could be taken for one.
    assert len(list(world.folder.glob(".reclaim/runs/*/plan.json"))) == 1
    return planning.value


@pytest.mark.parametrize("archives", [True, False])
def test_a_reachable_layer_that_is_cut_off(world: World, past: Past, archives: bool) -> None:
    write = world.write
    write.archives = archives
    hurt = write.layer(values=["x"])
    write.label("hurt", write.layer(hurt))
    world.age()
    plan = world.plan()
    cut(world, hurt)
    error = refused(world, plan, Corrupt, match=hurt)
    assert "the label hurt" in error.message
    assert error.details["chain"][0] == "the label hurt"
    assert error.details["chain"][-1] == hurt


@pytest.mark.parametrize("archives", [True, False])
def test_an_unreachable_one_goes_when_it_is_old(world: World, past: Past, archives: bool) -> None:
    write = world.write
    write.archives = archives
    torn = write.layer(past.main[0])
    cut(world, torn)
    young = world.plan()
    assert young.document.candidates == len(past.dead) + 1
    world.apply(young)
    # Being written just now, as far as anyone can tell.
    assert world.there() == past.live | {torn}
    world.age()
    old = world.plan()
    assert old.document.candidates == 1
    world.apply(old)
    assert world.there() == past.live


@pytest.mark.parametrize("data", [b"", b"3\n", b"3\n" + b"a" * 39 + b"\n", b"x\n\n"])
def test_a_label_that_cannot_be_read(world: World, past: Past, data: bytes) -> None:
    plan = world.plan()
    (world.folder / file_name("other")).write_bytes(data)
    refused(world, plan, Corrupt, match="the label other cannot be read")


def test_a_label_without_a_layer_is_one(world: World, past: Past) -> None:
    world.write.label("new", None)
    world.apply(world.plan())
    assert world.there() == past.live


def test_a_label_is_read_under_its_lock(world: World, past: Past) -> None:
    """A server writes a label in place: whoever reads waits until it is done."""
    path = world.folder / file_name("main")
    whole = path.read_bytes()
    with path.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.truncate(5)
        found: list[WrittenPlan] = []
        planning = threading.Thread(target=lambda: found.append(world.plan()))
        planning.start()
        planning.join(0.3)
        assert planning.is_alive()
        file.write(whole)
    planning.join()
    assert found[0].document.dead == len(past.dead)


def test_no_labels(world: World, past: Past) -> None:
    plan = world.plan()
    world.write.unlabel("main")
    refused(world, plan, Refused, match="is not a TerminusDB store")


def test_no_label_that_names_a_layer(world: World, past: Past) -> None:
    plan = world.plan()
    world.write.label("main", None)
    refused(world, plan, Refused, match="names a layer")


@pytest.mark.parametrize("name", SYSTEM)
@pytest.mark.parametrize("gone", [True, False], ids=["missing", "empty"])
def test_the_labels_of_a_server(world: World, past: Past, name: str, gone: bool) -> None:
    world.write.server()
    plan = world.plan()
    if gone:
        world.write.unlabel(name)
    else:
        world.write.label(name, None)
    refused(world, plan, Refused, match=f"the server.s own label {name}")


@pytest.mark.parametrize("data", [b"1", b"3", b"", b"two"])
def test_an_unknown_version(world: World, past: Past, data: bytes) -> None:
    plan = world.plan()
    (world.folder / "STORAGE_VERSION").write_bytes(data)
    refused(world, plan, UnknownVersion)


@pytest.mark.parametrize("which", ["parent", "rollup", "label"])
def test_a_layer_that_is_missing_under_a_live_one(world: World, past: Past, which: str) -> None:
    plan = world.plan()
    lost = {"parent": past.main[0], "rollup": past.rollup, "label": past.main[-1]}[which]
    (world.folder / world.write.path(lost)).unlink()
    error = refused(world, plan, Corrupt, match=f"{lost} is missing")
    assert "the label main" in error.message


def test_a_missing_layer_that_a_run_has_set_aside(world: World, past: Past) -> None:
    run = world.apply(world.plan()).run
    world.write.label("back", past.old[1])
    with pytest.raises(Corrupt) as error:
        world.plan()
    assert f"reclaim undo {run} --store terminus:{world.folder}" in (error.value.hint or "")
    world.undo(run)
    world.plan()


def test_a_lease_that_cannot_be_read(world: World, past: Past) -> None:
    plan = world.plan()
    folder = world.folder / ".reclaim/leases"
    folder.mkdir()
    (folder / "x.json").write_text("{")
    refused(world, plan, Corrupt, match="lease")


def test_a_list_of_condemned_layers_that_cannot_be_read(world: World, past: Past) -> None:
    plan = world.plan()
    folder = world.folder / ".reclaim/condemned"
    folder.mkdir()
    (folder / "x.json").write_text("{")
    for work in (world.plan, lambda: world.apply(plan)):
        with pytest.raises(Corrupt, match="condemned"):
            work()
    assert world.there() == past.live | past.dead


def late(world: World, by: timedelta, name: str) -> Callable[[str], None]:
    return At(name, lambda: world.clock.advance(by))


def test_a_plan_past_its_budget(world: World, past: Past) -> None:
    """Between the note of the time and the end of the mark no more than 15 minutes pass."""
    for minutes, in_time in ((15, True), (16, False)):
        step = late(world, timedelta(minutes=minutes), "survey")
        if in_time:
            world.plan(step=step)
            continue
        with pytest.raises(OutOfTime, match="marking took longer"):
            world.plan(step=step)
    assert world.there() == past.live | past.dead


@pytest.mark.parametrize("step", ["survey", "before release", "confirm", "before promote"])
def test_an_apply_past_its_budget(world: World, past: Past, step: str) -> None:
    plan = world.plan()
    moved = late(world, timedelta(minutes=16), step)
    with pytest.raises(ReclaimError) as error:
        world.apply(plan, store=stepped(world.store(), moved), step=moved)
    # What comes first: the budget, or the lock, which nobody renewed in so long a time.
    assert error.value.kind in ("out_of_time", "lock_lost")
    assert world.there() == past.live | past.dead
    world.clock.advance(minutes=17)
    world.apply(plan)
    assert world.there() == past.live


def test_a_lease_outlives_any_look(world: World) -> None:
    """Whoever renews in time is seen as valid to the end of a run that took its whole budget."""
    assert leases.REFRESH + timedelta(minutes=15) < leases.LENGTH


@pytest.mark.parametrize("minutes", [6, -6])
def test_a_clock_that_is_not_the_storages(world: World, past: Past, minutes: int) -> None:
    plan = world.plan()
    inner = world.storage
    assert isinstance(inner, ClockedStorage)
    inner.skew = timedelta(minutes=minutes)
    with pytest.raises(ClockSkew):
        world.plan(storage=inner)
    with pytest.raises(ClockSkew):
        world.apply(plan, storage=inner, store=world.store(lambda _: inner))
    assert world.there() == past.live | past.dead


@pytest.mark.parametrize("days", [30, -30])
@pytest.mark.parametrize("step", ["survey", "before observe", "after observe"])
def test_a_clock_that_jumps_while_a_plan_is_made(
    world: World, past: Past, step: str, days: int
) -> None:
    storage, jump = jumping(world, timedelta(days=days), step)
    young = world.write.layer(past.old[-1], values=["young"])
    with pytest.raises((ClockSkew, OutOfTime)):
        world.plan(storage=storage, step=jump, store=stepped(world.store(lambda _: storage), jump))
    assert young in world.there()


@pytest.mark.parametrize("step", ["survey", *(f"before {s}" for s in STEPS[1:7] if s != "collect")])
def test_a_clock_that_jumps_while_a_plan_is_applied(world: World, past: Past, step: str) -> None:
    plan = world.plan()
    # What it stands on is in the plan, and only its age and a lease say that it must stay.
    young = world.write.layer(past.old[-1], values=["young"])
    lease = world.store().take_lease(past.old[-1], holder="reader")
    storage, jump = jumping(world, timedelta(days=30), step)
    with pytest.raises(ReclaimError) as error:
        world.apply(
            plan, storage=storage, step=jump, store=stepped(world.store(lambda _: storage), jump)
        )
    assert error.value.kind in ("clock_skew", "out_of_time", "lock_lost")
    assert world.there() == past.live | past.dead | {young}
    assert lease.snapshot in world.there()


def jumping(world: World, by: timedelta, step: str) -> tuple[ClockedStorage, Callable[[str], None]]:
    """A storage whose clock stays where it is while ours jumps."""
    storage = world.storage
    assert isinstance(storage, ClockedStorage)

    def jump() -> None:
        world.clock.advance(by)
        storage.skew = -by

    return storage, At(step, jump)


def test_nearly_everything_dead(world: World) -> None:
    write = world.write
    write.label("main", write.layer(values=["main"]))
    for number in range(40):
        write.layer(values=[str(number)])
    world.age()
    with pytest.raises(TooMuch):
        world.plan()
    assert world.plan(allowed_fraction=1.0).document.candidates == 40
    assert len(world.there()) == 41


def test_nothing_live(world: World, past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    """The net under a mark that finds nothing, as a bug in it would."""
    whole = graph.reach
    monkeypatch.setattr(graph, "reach", lambda found, _roots, **_how: whole(found, {}))
    with pytest.raises(IncompleteRead, match="no snapshot is live"):
        world.plan(allowed_fraction=1.0)
    assert world.there() == past.live | past.dead


def test_history_is_not_ours_to_expire(world: World, past: Past) -> None:
    with pytest.raises(Refused, match="no history to expire"):
        world.plan(policy=Policy(Rules(keep_last=1)))


def test_an_apply_that_stops_after_its_marks_takes_them_off(world: World, past: Past) -> None:
    plan = world.plan()
    path = world.folder / world.write.path(past.main[0])
    whole = path.read_bytes()
    step = At("after condemn", lambda: path.write_bytes(whole[:-1]))
    with pytest.raises(Corrupt):
        world.apply(plan, store=stepped(world.store(), step))
    assert step.done
    assert list(world.folder.glob(".reclaim/condemned/*")) == []
    [run] = world.store().runs()
    assert (run.phase, run.error) == (Phase.STOPPED, "corrupt")
    path.write_bytes(whole)
    world.apply(plan)
    assert world.there() == past.live


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        TerminusStore(tmp_path / "none")
    with pytest.raises(InvalidInput):
        TerminusStore(Path("/"))
