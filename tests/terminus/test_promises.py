"""What layers in quarantine need stays, so that an undo brings back layers that can be loaded."""

from __future__ import annotations

import os
import shutil
from datetime import timedelta

import pytest

from reclaim.errors import Partial, Refused
from reclaim.model import SnapshotId
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine, Removal
from reclaim.run_record import Phase
from tests.support.dying import Died
from tests.terminus.world import MOVE, At, World, stepped, taking_what_others_need

EDGES = ("parent", "rollup", "data")
LONG, SHORT = MoveToQuarantine(timedelta(days=60)), MoveToQuarantine(timedelta(hours=1))


def die() -> None:
    raise Died


def build(world: World, edge: str = "parent") -> tuple[SnapshotId, SnapshotId]:
    """A dead layer, and one that it needs and that a label still has."""
    write = world.write
    for number in range(5):
        write.label(f"main {number}", write.layer(values=[str(number)]))
    if edge == "rollup":
        child = write.layer(values=["child"])
        needed = write.rollup(child)
    else:
        needed = write.layer(write.layer(values=["base"]), values=["needed"])
        child = write.layer(needed) if edge == "parent" else write.layer(names=[needed])
    write.label("keep", needed)
    world.age()
    return child, needed


def unlabel(world: World) -> None:
    world.write.unlabel("keep")
    world.age()


def plan(world: World) -> WrittenPlan:
    return world.plan(allowed_fraction=1.0)


def check_undone(world: World, run: str, child: SnapshotId) -> None:
    undone = world.undo(run)
    assert child in world.there()
    assert not undone.left
    world.check()
    assert world.store().find_run(run).phase == Phase.UNDONE  # type: ignore[union-attr]


@pytest.mark.parametrize("later", [DELETE, SHORT], ids=["deletes", "moves"])
@pytest.mark.parametrize("edge", EDGES)
def test_a_later_run_leaves_it(world: World, edge: str, later: Removal) -> None:
    child, needed = build(world, edge)
    run = world.apply(plan(world), removal=LONG).run
    assert child in world.aside()
    unlabel(world)
    made = plan(world)
    assert [line for line in made.document.warnings if run in line]
    world.apply(made, removal=later)
    world.clock.advance(hours=2)
    world.purge()
    assert needed in world.there()
    check_undone(world, run, child)


def test_a_plan_names_a_layer_that_is_away(world: World) -> None:
    """What it needs is not known while it is: whoever reads the plan can wait for it."""
    child, _ = build(world)
    run = world.apply(plan(world), removal=LONG).run
    [file] = world.folder.glob(f".reclaim/quarantine/{run}/???/{child}*")
    file.rename(world.folder.with_name("elsewhere"))
    unlabel(world)
    warnings = plan(world).document.warnings
    assert any(run in line and child in line and "not protected" in line for line in warnings)
    world.folder.with_name("elsewhere").rename(file)
    assert not any("not protected" in line for line in plan(world).document.warnings)


def test_it_goes_once_the_other_run_was_purged(world: World) -> None:
    child, needed = build(world)
    world.apply(plan(world))
    unlabel(world)
    assert plan(world).document.candidates == 0
    assert world.purge(timedelta(0)) is not None
    assert child not in world.aside()
    world.quiet()
    assert needed not in world.there()


def test_a_plan_that_was_made_before(world: World) -> None:
    """What it lists is needed by what a run has set aside since."""
    child, needed = build(world)
    lease = world.store().take_lease(needed, holder="reader", length=timedelta(days=5))
    world.write.unlabel("keep")
    first = plan(world)
    world.store().release_lease(lease.id)
    second = plan(world)
    assert first.document.candidates < second.document.candidates
    run = world.apply(first, removal=LONG).run
    assert world.aside() == {child}
    world.apply(second, removal=DELETE)
    assert needed in world.there()
    check_undone(world, run, child)


@pytest.mark.parametrize("step", ["before promote", "after promote", "before set_aside"])
def test_a_run_that_died(world: World, step: str) -> None:
    """What it was about to take is promised, wherever it lies now."""
    child, needed = build(world)
    made = plan(world)
    with pytest.raises(Died):
        world.apply(made, store=stepped(world.store(), At(step, die)), removal=LONG)
    unlabel(world)
    world.apply(plan(world), removal=DELETE)
    assert needed in world.there()
    check_undone(world, made.document.run, child)


def test_a_rollup_file_alone(world: World) -> None:
    """A run died when it had taken the rollup file; its layer would be loaded through it again."""
    child, needed = build(world, "rollup")
    made = plan(world)
    with pytest.raises(Died):
        world.apply(made, step=At("sweep", die, nth=2), removal=LONG)
    assert child in world.there() & world.aside()
    world.clock.advance(hours=1)
    world.write.label("again", child)
    world.apply(made, removal=LONG)
    unlabel(world)
    world.apply(plan(world), removal=DELETE)
    world.undo(made.document.run)
    assert world.contents().layers[child].rollup == needed
    world.check()


def test_a_quarantine_without_a_record(world: World) -> None:
    """Its record was removed, as a damaged one is; the run is undone after another apply."""
    child, needed = build(world)
    made = plan(world)
    run = world.apply(made, removal=LONG).run
    (world.folder / f".reclaim/runs/{run}/run.json").unlink()
    unlabel(world)
    world.apply(plan(world), removal=DELETE)
    assert needed in world.there()
    world.apply(made, removal=LONG)
    check_undone(world, run, child)


def test_a_layer_that_died_after_the_plan(world: World) -> None:
    """It is condemned and not in the plan; no later run takes it as its own and spoils the undo."""
    child, needed = build(world)
    extra = world.write.layer(values=["extra"])
    world.write.label("extra", extra)
    world.age()
    made = plan(world)
    world.write.unlabel("extra")
    run = world.apply(made, removal=LONG).run
    world.apply(plan(world), removal=SHORT)
    check_undone(world, run, child)
    assert {extra, needed} <= world.there()
    world.age()
    world.quiet()


def test_what_is_lost_already_stops_nobody(world: World) -> None:
    child, needed = build(world)
    world.apply(plan(world), removal=LONG)
    unlabel(world)
    dead = world.write.layer(values=["dead"])
    world.age()
    (world.folder / world.write.path(needed)).unlink()
    world.apply(plan(world), removal=DELETE)
    assert dead not in world.there()
    assert child in world.aside()


Apart = tuple[SnapshotId, SnapshotId, str, str]


@pytest.fixture
def apart(world: World) -> Apart:
    """One run has a layer in quarantine, another what that needs."""
    child, needed = build(world)
    first = world.apply(plan(world), removal=LONG).run
    unlabel(world)
    with taking_what_others_need():
        second = world.apply(plan(world), removal=MoveToQuarantine(timedelta(days=3))).run
    assert {child, needed} <= world.aside()
    return child, needed, first, second


def test_a_purge_brings_it_back(world: World, apart: Apart) -> None:
    child, needed, first, second = apart
    world.clock.advance(days=3)
    done = world.purge()
    assert done is not None
    assert done.runs == [second]
    assert needed in world.there()
    check_undone(world, first, child)


def test_a_purge_while_an_undo_is_cut_off(world: World, apart: Apart) -> None:
    """The layer lies in its place again, and is not young any more."""
    child, needed, first, _ = apart
    with pytest.raises(Died):
        world.undo(first, store=stepped(world.store(), At("before restore", die)))
    assert child in world.there()
    world.clock.advance(days=3)
    world.purge()
    assert needed in world.there()
    check_undone(world, first, child)


def test_a_purge_of_both_leaves_nothing(world: World, apart: Apart) -> None:
    """The run that has the child ends first, and then nobody needs the parent."""
    child, needed, first, second = apart
    done = world.purge(timedelta(0))
    assert done is not None
    assert done.runs == [first, second]
    assert world.aside() == set()
    assert not {child, needed} & world.there()


def test_a_purged_run_promises_nothing(world: World) -> None:
    """Something that was left in its folder keeps nothing alive."""
    child, needed = build(world)
    run = world.apply(plan(world), removal=MOVE).run
    folder = world.folder / ".reclaim/quarantine" / run
    copy = world.folder.with_name("copy")
    shutil.copytree(folder, copy)
    assert world.purge(timedelta(0)) is not None
    shutil.copytree(copy, folder, dirs_exist_ok=True)
    assert child in world.aside()
    unlabel(world)
    world.apply(plan(world), removal=DELETE)
    assert needed not in world.there()


@pytest.mark.parametrize("dies", [False, True])
def test_what_an_earlier_run_left_is_promised_if_it_is_whole(world: World, dies: bool) -> None:
    """A run that deleted has died; of one of its layers a parent is gone, another is whole."""
    write = world.write
    for number in range(5):
        write.label(f"main {number}", write.layer(values=[str(number)]))
    parent = write.layer(values=["parent"])
    broken = write.layer(write.layer(parent, values=["between"]), values=["broken"])
    whole = write.layer(values=["whole"])
    world.age()
    with pytest.raises(Died):
        world.apply(plan(world), step=At("sweep layer", die), removal=DELETE)
    (world.folder / write.path(parent)).unlink()
    world.age()
    again = plan(world)
    if dies:
        with pytest.raises(Died):
            world.apply(again, step=At("sweep layer", die))
        world.age()
    else:
        world.apply(again)
    promised = world.store().taken(again.document.run)
    assert whole in promised
    assert broken not in promised
    undone = world.undo(again.document.run)
    assert (undone.snapshots, undone.left) == (1, ())
    assert world.store().find_run(again.document.run).phase == Phase.UNDONE  # type: ignore[union-attr]
    # Objects of the broken ones came back with the rest, and are garbage.
    world.age()
    world.apply(plan(world), removal=DELETE)
    assert broken not in world.there()
    world.check()


def test_a_purge_that_stops_halfway_holds_up_no_other_run(world: World) -> None:
    """What it has deleted is not named as missing; what is still aside keeps what it needs."""
    child, needed = build(world)
    top = world.write.layer(child, values=["top"])
    world.age()
    run = world.apply(plan(world), removal=LONG).run
    changed = world.folder / ".reclaim/quarantine" / run / world.write.path(child)
    times = changed.stat()
    os.utime(changed, (1, 1))
    with pytest.raises(Partial, match="is not the object moved to quarantine"):
        world.purge(timedelta(0))
    assert world.aside() & {child, top} == {child}
    unlabel(world)
    again = plan(world)
    assert not [text for text in again.document.warnings if "neither in place" in text]
    world.apply(again, removal=DELETE)
    assert needed in world.there()
    with pytest.raises(Refused, match="can no longer be undone"):
        world.undo(run)
    os.utime(changed, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert world.purge() is not None
    world.apply(plan(world), removal=DELETE)
    assert needed not in world.there()
