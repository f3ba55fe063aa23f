"""References that are made at each step between the claims of lifecycle rules and their promotion.

The rules are stopped before a step of their window, somebody makes a reference there, and they go
on; and the other way round, somebody is stopped before a step and the window goes by. The oracle
looks at each promotion. ``make soak`` does so with everybody at every step. ``make test`` stops the
rules once before each step of the window, and everybody before the reference is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from reclaim.catalog.database.schema import branches, leases, staged_entries, tags
from tests.schedules.checks import Checks
from tests.schedules.exploring import Golden, scheduler, tried
from tests.schedules.past import Past, Pasts
from tests.schedules.promotions import Oracle, watch_promotions
from tests.schedules.window import MAKER, RULES, Window, changes_state, find_window
from tests.support.scheduler import Trace
from tests.support.soak import SOAK

pytestmark = pytest.mark.repeats(first=2)

BY_ADDRESS = ("copy of the old", "move of the old")
"""They stage bytes that are there, which is refused once these are claimed."""
BY_REF = ("merge", "revert to the old", "reset to the old", "archive", "tag", "lease of the old")
"""They name a commit: the rules see that, and leave what it has."""
MAKERS = (*BY_ADDRESS, *BY_REF, "link and commit")
"""Who makes references. The last one makes one to nothing that the rules have planned to take."""
NAMES = {table.name for table in (branches, tags, leases)}
"""Tables of what names a commit."""


@pytest.fixture
def past(pasts: Pasts) -> Past:
    return pasts.of(["hold others"])


@pytest.fixture
def oracle(past: Past, monkeypatch: pytest.MonkeyPatch) -> Oracle:
    return watch_promotions(past, monkeypatch)


@pytest.fixture
def window(past: Past, oracle: Oracle) -> Window:
    return find_window(past)


def stops(name: str, window: Window) -> Sequence[int]:
    """The steps before which the rules are stopped for somebody; each has a share of them."""
    numbers = range(len(window.steps))
    return numbers if SOAK else numbers[MAKERS.index(name) :: len(MAKERS)]


def own_stops(name: str, past: Past) -> Sequence[int]:
    """The steps of a maker before which it is stopped."""
    steps = scheduler(past, [name]).run().steps
    if SOAK:
        return range(len(steps))
    written = [step.footprint.writes for step in steps]
    named = [at for at, tables in enumerate(written) if tables & NAMES]
    staged = [at for at, tables in enumerate(written) if staged_entries.name in tables]
    return [max(named or staged)]


def test_the_window_is_hit_at_every_step(window: Window) -> None:
    hit = {number for name in MAKERS for number in stops(name, window)}
    assert hit == set(range(len(window.steps)))
    verbs = [step.name.split()[0] for step in window.steps]
    # Open, claim; close; read all roots, and what is judged again; drop twice; promote.
    assert verbs[0] == verbs[window.claimed] == verbs[-1] == "write"
    assert [verbs[at] for at in window.drops] == ["write", "write"]
    between = verbs[window.claimed + 1 : window.drops[0]]
    assert {"write", "read", "get"} <= {*between}


@pytest.mark.parametrize("name", MAKERS)
def test_a_reference_at_a_step_of_the_window(
    name: str, past: Past, window: Window, oracle: Oracle, checks: Checks
) -> None:
    for number in stops(name, window):
        promotions, taken = oracle.promotions, oracle.taken
        trace = scheduler(past, tasks(name)).run(window.stopped_at(number))
        check_stopped(trace, window, number)
        assert not oracle.wrong, f"{trace}: {oracle.wrong}"
        refused = name in BY_ADDRESS and number > window.claimed
        end = "conflict" if refused else "done"
        assert trace.outcome == f"{name}: {end}, hold others: done, lifecycle: done"
        assert oracle.promotions == promotions + 1
        goes = refused or name == "link and commit"
        assert oracle.taken == taken + goes, trace
        checks.check(past, trace)


@pytest.mark.parametrize("name", MAKERS)
def test_the_window_goes_by_while_a_reference_is_made(
    name: str, past: Past, window: Window, oracle: Oracle, checks: Checks, golden: Golden
) -> None:
    def traces() -> Iterator[Trace]:
        for done in own_stops(name, past):
            promotions = oracle.promotions

            def is_promoted(before: int = promotions) -> bool:
                return oracle.promotions > before

            guide = window.goes_by(done, is_promoted)
            trace = scheduler(past, tasks(name)).run(guide=guide)
            check_gone_by(trace, window, done)
            assert not oracle.wrong, f"{trace}: {oracle.wrong}"
            assert oracle.promotions == promotions + 1
            yield trace

    golden.compare(f"the window goes by: {name}", tried(traces(), past, checks))


def tasks(name: str) -> tuple[str, str, str]:
    return (name, "hold others", "lifecycle")


def check_stopped(trace: Trace, window: Window, number: int) -> None:
    """The maker has come to its end where the rules were stopped, in the middle of the window."""
    turns = trace.schedule
    first = window.before + window.others + number
    last = len(turns) - turns[::-1].index(MAKER)
    assert turns.index(MAKER) == first
    assert {*turns[first:last]} == {MAKER}
    rules = [step.name.split()[0] for step in trace.steps if step.task == RULES]
    in_window = [step.name.split()[0] for step in window.steps[:number]]
    assert rules[window.before : window.before + number] == in_window


def check_gone_by(trace: Trace, window: Window, done: int) -> None:
    """The whole window lies between two steps of the maker, or before its first."""
    turns = trace.schedule
    begin = window.before + window.others + done
    end = turns.index(MAKER, begin)
    assert turns[begin - done : end] == (MAKER,) * done + (RULES,) * (end - begin)
    gone_by = trace.steps[begin:end]
    assert changes_state(gone_by[0])
    assert changes_state(gone_by[-1])
