"""The names in docs/spec/README.md are those of bugs, races, pairs and models that there are."""

from __future__ import annotations

import re
from pathlib import Path

from tests.catalog.test_reaper_races import RACES as REAPER_ROUNDS
from tests.collect.apply.test_run_races import RACES as RUN_ROUNDS
from tests.planted.plant import BUGS
from tests.schedules.operations import OPERATIONS
from tests.schedules.test_pairs import PAIRS
from tests.schedules.test_races import RACES

SPEC = Path(__file__).parents[2] / "docs/spec"


def rows(heading: str) -> list[list[str]]:
    """The names in the cells of the table that begins with a heading."""
    table = (SPEC / "README.md").read_text().split(f"| {heading} |")[1].split("\n\n")[0]
    lines = table.split("\n")[2:]
    return [re.findall(r"`([^`]+)`", line) for line in lines]


def test_bugs() -> None:
    models = "".join((SPEC / name).read_text() for name in ("Collect.tla", "Ledger.tla"))
    bugs = rows("bug | planted as")
    assert len(bugs) == 9
    for planted, found_in, modelled in bugs:
        assert any(test.endswith(f"[{found_in}]") for test in BUGS[planted].tests), planted
        assert f'"{modelled}"' in models


def test_races() -> None:
    pairs = {" + ".join(pair) for pair in PAIRS}
    races = rows("race | scheduler")
    assert len(races) == 9
    for scheduled, on_postgresql in races:
        assert scheduled in RACES or scheduled in pairs
        assert on_postgresql in REAPER_ROUNDS or on_postgresql in RUN_ROUNDS


def test_every_operation_is_in_pairs() -> None:
    asked_for = {
        *("put", "delete", "copy", "move", "commit", "merge", "reset", "delete branch", "link"),
        *("reap", "clean", "expire", "collect", "undo", "lease"),
    }
    assert asked_for <= OPERATIONS.keys()
