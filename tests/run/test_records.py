"""What a run set aside, as a record has it: read with types, also from older records."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from reclaim.model import Quarantine, Run, RunState, instant_text

WHEN = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
RECORD: dict[str, Any] = {
    "quarantine": "moved",
    "since": instant_text(WHEN),
    "until": instant_text(WHEN),
    "intended": 7,
    "undos": [instant_text(WHEN)],
}
OLDER: dict[str, Any] = {"quarantine": "moved", "objects": 3}


def run(summary: dict[str, Any], state: RunState = RunState.DONE) -> Run:
    return Run("r", "collect", state, WHEN, summary)


def test_a_record_says_what_it_did() -> None:
    aside = run(RECORD).quarantine
    assert aside == Quarantine("moved", WHEN, WHEN, 7, (WHEN,))
    assert aside.record() == RECORD


def test_a_record_of_an_older_version() -> None:
    aside = run(OLDER).quarantine
    assert aside == Quarantine("moved")
    assert aside.record() == {"quarantine": "moved"}


@pytest.mark.parametrize("state", [RunState.STOPPED, RunState.UNDONE, RunState.PURGED])
def test_what_is_not_aside_any_more(state: RunState) -> None:
    ended = run(RECORD, state)
    assert (ended.quarantine, ended.undoing, ended.unfinished) == (None, False, False)


def test_a_run_that_deleted() -> None:
    assert run({"intended": 3, "objects": 3}).quarantine is None


@pytest.mark.parametrize(
    "damage",
    [
        {"quarantine": 5},
        {"since": 5},
        {"until": "soon"},
        {"until": "2026-01-03T00:00:00"},
        {"undos": "yesterday"},
        {"undos": [None]},
        {"intended": "many"},
    ],
)
def test_a_record_that_is_damaged(damage: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(damage))):
        run(RECORD | damage)
