"""Cancel a lifecycle run that deletes without quarantine, interrupted after its promotion.

Deleted objects are gone. The others are released, so that they can be read, referenced and judged
again. Once recorded, nobody can finish the run, and a late task of it finds the note of an undo
before it deletes the next page.
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
from reclaim.run.roots.interrupted_runs import can_be_given_up
from reclaim.run.sweep.removal import note_undo_begun
from reclaim.run_record import GivenUp, Phase, RunRecord
from reclaim.stores.abilities import TakesReferenced
from reclaim.stores.base import Held, Store


def give_up(
    store: Store, held: Held, engine: Engine, run: RunRecord, stages: Stages, opener: Opener
) -> Settled:
    """Release the objects a run has not deleted, under its lock; return the counts of its
    claims."""
    if not can_be_given_up(store, run):
        raise Conflict(f"run {run.id} is {run.phase} by now", hint="see `reclaim runs`")
    place = Place(*store.place(run.id)).below("undo").below(new_uid())
    with stages.stage("check"):
        store.check()
        check_clock(store, store.storage, place)
        held.begin()
        run = _note(store, held, run)
    with stages.stage("settle") as settling:
        outcome = settle(store, held, engine, run.id, place=place, opener=opener)
        # Includes objects released by an interrupted undo.
        assert run.given_up is not None
        released = run.given_up.claimed - outcome.gone - outcome.unknown
        settled = replace(outcome, released=released)
        settling.facts |= {"released": released, "gone": outcome.gone}
    run = replace(run, given_up=replace(run.given_up, released=released, gone=outcome.gone))
    if outcome.unknown:
        held.finish(run)
        raise Partial(
            f"of the objects claimed by run {run.id}, {released} were released, {outcome.gone} are "
            f"deleted, and {outcome.unknown} could not be looked up; the journal at {place} has "
            "the errors",
            hint=f"undo it again: reclaim undo {run.id}",
            released=released,
            gone=outcome.gone,
            failed=outcome.unknown,
        )
    held.finish(replace(run, phase=Phase.UNDONE))
    return settled


def _note(store: Store, held: Held, run: RunRecord) -> RunRecord:
    """Record that the run cannot be finished, before the first address is released."""
    assert isinstance(store, TakesReferenced)
    now = store.clock.now()
    # The first record is kept: it counts the claims before any release.
    given_up = run.given_up or GivenUp(now, store.count_expired(run.id))
    run = replace(run, phase=Phase.UNDOING, given_up=given_up)
    held.finish(run)
    # The note is for its tasks; the record already excludes another apply.
    note_undo_begun(store, run.id, now)
    return run
