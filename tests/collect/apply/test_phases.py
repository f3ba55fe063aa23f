"""Every action on a run in every phase: allowed, or refused with the sentence of the table."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import update

from reclaim.catalog.database.schema import runs
from reclaim.errors import ReclaimError
from reclaim.run.plan.planning import WrittenPlan
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.run_record import ALLOWED, Action, LeftOut, Phase, Refusal, RunRecord
from tests.collect.helpers.world import World, bury

MOVE = MoveToQuarantine(timedelta(days=30))
OPTIONS = "--exclude none"


def record_in(phase: Phase, record: RunRecord) -> str:
    """The record of a run that is done, as text, as it would be in another phase."""
    match phase:
        case Phase.UNREADABLE:
            return "{"
        case Phase.UNDOING:
            record = record.undo_begun(record.started_at)
        case Phase.PURGING:
            record = record.purge_begun(record.started_at)
        case _:
            record = replace(record, phase=phase)
    return record.encode()


def act(world: World, plan: WrittenPlan, action: Action) -> object:
    run = plan.document.run
    match action:
        case Action.APPLY | Action.EXCLUDE_LESS:
            return world.apply(plan, removal=MOVE)
        case Action.UNDO:
            return world.undo(run)
        case Action.PURGE:
            return world.purge(run_id=run)
        case Action.ANOTHER:
            return world.plan(allowed_fraction=1.0)


def told(world: World, plan: WrittenPlan, action: Action) -> str:
    """The sentence of the error of an action; "" if there is none."""
    try:
        act(world, plan, action)
    except ReclaimError as error:
        return error.message
    return ""


def sentence(refusal: Refusal, run: str, phase: Phase) -> str:
    return refusal.sentence.format(run=run, phase=phase, options=OPTIONS)


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("action", Action)
def test_an_action_in_a_phase(local: World, phase: Phase, action: Action) -> None:
    bury(local)
    plan = local.plan(allowed_fraction=1.0)
    run = local.apply(plan, removal=MOVE).run
    record = local.store().find_run(run)
    assert record is not None
    if action is Action.EXCLUDE_LESS:
        record = replace(record, left_out=LeftOut(("none",)))
    with local.repo._workspace.database.write() as connection:
        text = record_in(phase, record)
        connection.execute(update(runs).where(runs.c.id == run).values(record=text))
    found = local.store().find_run(run)
    assert found is not None
    assert found.phase is phase
    refusal = ALLOWED[phase, action]
    assert found.allows(action) is (refusal is None)
    before = local.there()
    if refusal is None:
        # The parts of the record may rule it out, and no other cell of the table.
        others = {sentence(other, run, phase) for other in ALLOWED.values() if other}
        assert told(local, plan, action) not in others
    elif action is Action.PURGE:
        # Nothing is due.
        assert act(local, plan, action) is None
        with pytest.raises(refusal.error) as refused:
            found.check(action)
        assert refused.value.message == sentence(refusal, run, phase)
    else:
        with pytest.raises(refusal.error) as refused:
            act(local, plan, action)
        # A run beside it says what of the record cannot be read.
        if action is Action.ANOTHER:
            assert f"the record of run {run} in the database cannot be read" in str(refused.value)
        else:
            assert refused.value.message == sentence(refusal, run, phase)
    if refusal is not None:
        assert local.there() == before


def test_the_table_has_every_cell() -> None:
    assert set(ALLOWED) == {(phase, action) for phase in Phase for action in Action}
