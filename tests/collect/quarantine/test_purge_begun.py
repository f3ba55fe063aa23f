"""A purge that stops after it has deleted something: its run promises nothing, and others go on."""

from __future__ import annotations

from datetime import timedelta

import pytest

from reclaim.engine.tasks.parts import open_storage
from reclaim.errors import Partial, PlanRefused, Refused
from reclaim.ids import short
from reclaim.run.doctor.doctor import examine_store
from reclaim.run.roots import promises
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine
from reclaim.run_record import Phase, Quarantine, RunRecord
from tests.collect.helpers.promised_history import ONE, apply_all, shared_data
from tests.collect.helpers.world import NAME, At, World, bury, stepped, whole
from tests.collect.quarantine.test_promises import aside_of, die, dies_at
from tests.support.dying import Died

LONG = MoveToQuarantine(timedelta(days=30))


def change_one(world: World, run: str, ending: str = "") -> str:
    """Write over a file in the quarantine of a run, as a scanner does."""
    folder = aside_of(world, run, f"repos/{world.repo.uid}/")
    files = sorted(stored.address for stored in world.storage.list(folder.rstrip("/")))
    changed = next(address for address in files if ending in address)
    world.storage.put(changed, b"changed")
    return changed


def state_of(world: World, run: str) -> str:
    found = world.store().find_run(run)
    assert found is not None
    return found.phase


@pytest.mark.parametrize("removal", ["moved", "marked"])
def test_a_run_that_is_being_purged_keeps_nothing_from_others(local: World, removal: str) -> None:
    """Also where its lists are gone, without which nobody knows what it was about to take."""
    now = local.clock.now()
    partial = RunRecord(
        "run", "collect", Phase.PARTIAL, now, "file:///nowhere", promised=Quarantine(removal)
    )
    run = partial.purge_begun(now)
    assert run.unfinished
    assert list(promises._taking(local.store(), run, open_storage)) == []


def test_a_purge_that_stops_at_a_changed_file_holds_up_no_other_run(local: World) -> None:
    bury(local)
    plan = local.plan()
    run = local.apply(plan, removal=LONG).run
    changed = change_one(local, run, "/branches/")
    with pytest.raises(Partial) as partial:
        local.purge(run_id=run)
    assert f"{changed} is not the object moved to quarantine; it was left" in partial.value.message
    assert partial.value.details["failures"][run]
    assert "move files" in (partial.value.hint or "")
    folder = aside_of(local, run, f"repos/{local.repo.uid}/").rstrip("/")
    assert [stored.address for stored in local.storage.list(folder)] == [changed]
    # Its metaranges are deleted; others do not ask for them.
    apply_all(local)
    local.check()
    with pytest.raises(Refused, match=f"begun to delete the quarantine of run {run}"):
        local.undo(run)
    with pytest.raises(PlanRefused, match="purge has begun"):
        local.apply(plan, removal=LONG)
    assert local.storage.get(changed) == b"changed"
    findings = {finding.check: finding for finding in examine_store(local.store())}
    assert findings["runs"].hint == f"finish it: reclaim purge {NAME} --run {short(run)}"
    # The window is not over; what was begun is finished all the same.
    local.storage.delete(changed)
    purged = local.purge()
    assert purged is not None
    assert purged.runs == [run]
    assert state_of(local, run) == Phase.PURGED
    local.quiet()


def test_what_another_run_promised_stays(local: World) -> None:
    """Both runs need the same data at home; the purge of one stops halfway."""
    shared = shared_data(local)
    other = apply_all(local, ONE, LONG)
    assert shared.data in local.there()
    change_one(local, shared.run)
    with pytest.raises(Partial):
        local.purge(run_id=shared.run)
    local.age()
    apply_all(local, ONE, DELETE)
    assert shared.data in local.there()
    taken = [str(commit) for commit in local.store().taken(other)]
    local.undo(other)
    assert b"shared" in [whole(local.other(), commit).get("d") for commit in taken]


def test_a_purge_that_died_before_it_deleted_anything(local: World) -> None:
    """What it had begun counts; everything is in quarantine until the next one takes it."""
    bury(local)
    run = local.apply(local.plan(), removal=LONG).run
    there, aside = local.there(), local.aside()
    # Before it is noted: the run can be undone.
    dies_at(local, "before finish", lambda **how: local.purge(run_id=run, **how))
    local.undo(run)
    assert local.there() == there | aside

    # The undo holds what came back until the window is over.
    local.clock.advance(days=30)
    run = local.apply(local.plan(), removal=LONG).run
    aside = local.aside()
    with pytest.raises(Died):
        local.purge(run_id=run, store=stepped(local.store(), At("after finish", die)))
    local.clock.advance(minutes=12)
    assert local.aside() == aside
    apply_all(local)
    assert local.aside() == aside
    with pytest.raises(Refused, match="can no longer be undone"):
        local.undo(run)
    assert local.purge() is not None
    assert not local.aside()
    local.quiet()
