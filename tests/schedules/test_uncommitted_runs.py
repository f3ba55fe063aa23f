"""Writers that stand still in the middle while a run on uncommitted data goes by, at every step."""

from __future__ import annotations

import pytest

from reclaim.errors import ReclaimError
from tests.schedules.checks import Checks
from tests.schedules.exploring import scheduler
from tests.schedules.past import Past, Pasts
from tests.support.scheduler import Trace
from tests.support.soak import SOAK

LATER = "uncommitted a minute later"

WAITING: dict[str, tuple[str, str]] = {
    "an upload begun before the run and staged during it": ("put", LATER),
    "a token linked during it": ("link", LATER),
    "a commit in flight": ("commit", LATER),
    "a writer that stalls past its partition's expiry and wakes up": ("put", "late uncommitted"),
    "a commit that stalls past its partition's expiry": ("commit", "late uncommitted"),
}


def steps_of(past: Past, name: str) -> int:
    """How many steps an operation has by itself."""
    return len(scheduler(past, [name]).run().steps)


def check_run(trace: Trace, task: int) -> None:
    """A run that goes by is never disturbed."""
    assert not isinstance(trace.results[task], ReclaimError), trace


@pytest.mark.parametrize("name", WAITING)
def test_a_writer_waits_while_a_run_goes_by(name: str, pasts: Pasts, checks: Checks) -> None:
    names = WAITING[name]
    past = pasts.of(names)
    steps = steps_of(past, names[0])
    assert steps > 1
    for before in range(1, steps, 1 if SOAK or steps < 5 else 4):
        # So many steps, then the whole run, then the rest.
        trace = scheduler(past, names).run((*[0] * before, 1))
        checks.check(past, trace)
        check_run(trace, 1)
        tasks = [step.task for step in trace.steps]
        assert tasks[:before] == [0] * before
        # The run is at its end before the writer goes on.
        assert 0 not in tasks[before : len(tasks) - tasks[::-1].index(1)]


def test_a_branch_is_reset_during_a_commit_during_a_run(pasts: Pasts, checks: Checks) -> None:
    names = ("commit", "reset", LATER)
    past = pasts.of(names)
    of_commit, of_run = steps_of(past, "commit"), steps_of(past, LATER)
    shares = (1, 2, 3) if SOAK else (1, 3)
    for committed in (of_commit // 3, 2 * of_commit // 3):
        for share in shares:
            # A part of the commit, a part of the run, the reset, and then the rest of both.
            schedule = (*[0] * committed, *[2] * (share * of_run // 4), 1)
            trace = scheduler(past, names).run(schedule)
            checks.check(past, trace)
            check_run(trace, 2)
            tasks = [step.task for step in trace.steps]
            reset = tasks.index(1)
            assert set(tasks[:reset]) == {0, 2}
            assert 2 in tasks[reset:]
