"""Giving up a lifecycle run that deletes for good and was cut off after its promotion.

What it has deleted is gone. What it has not is released, so that it can be read, referred to and
judged again. From the record on nobody finishes the run; and a task of it that wakes up late finds
the note of an undo before it deletes the next page.
"""

from __future__ import annotations

from dataclasses import replace

from reclaim.engine.base import Engine
from reclaim.engine.tasks.parts import Opener, Place
from reclaim.errors import Conflict, Partial
from reclaim.ids import new_uid
from reclaim.run.lifecycle.settling import Settled, settle
from reclaim.run.plan.checks import check_clock
from reclaim.run.record.stages import Stages
from reclaim.run.roots.cut_off import can_be_given_up
from reclaim.run.sweep.removal import note_undo_begun
from reclaim.run_record import GivenUp, Phase, RunRecord
from reclaim.stores.abilities import TakesReferenced
from reclaim.stores.base import Held, Store


def give_up(
    store: Store, held: Held, engine: Engine, run: RunRecord, stages: Stages, opener: Opener
) -> Settled:
    """Release what a run has not deleted, under its lock; says how many of all that it claimed."""
    if not can_be_given_up(store, run):
        raise Conflict(f"run {run.id} is {run.phase} now", hint="see `reclaim runs`")
    place = Place(*store.place(run.id)).below("undo").below(new_uid())
    with stages.stage("check"):
        store.check()
        check_clock(store, store.storage, place)
        held.begin()
        run = _note(store, held, run)
    with stages.stage("settle") as settling:
        found = settle(store, held, engine, run.id, place=place, opener=opener)
        # With what an undo that was cut off had released before.
        assert run.given_up is not None
        released = run.given_up.claimed - found.gone - found.unknown
        settled = replace(found, released=released)
        settling.facts |= {"released": released, "gone": found.gone}
    run = replace(run, given_up=replace(run.given_up, released=released, gone=found.gone))
    if found.unknown:
        held.finish(run)
        raise Partial(
            f"of what run {run.id} claimed, {released} objects were released, {found.gone} are "
            f"gone for good, and {found.unknown} could not be asked for; the journal at {place} "
            "says why",
            hint=f"undo it again: reclaim undo {run.id}",
            released=released,
            gone=found.gone,
            failed=found.unknown,
        )
    held.finish(replace(run, phase=Phase.UNDONE))
    return settled


def _note(store: Store, held: Held, run: RunRecord) -> RunRecord:
    """Note that nobody may finish it, before the first address is released."""
    assert isinstance(store, TakesReferenced)
    now = store.clock.now()
    # What was noted first stays: it counts what was claimed before anything was released.
    given_up = run.given_up or GivenUp(now, store.count_expired(run.id))
    run = replace(run, phase=Phase.UNDOING, given_up=given_up)
    held.finish(run)
    # Then for its tasks: from the record on no other apply can begin.
    note_undo_begun(store, run.id, now)
    return run
