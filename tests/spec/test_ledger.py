"""TLC checks online hard delete in ``Ledger.tla``, and finds every bug that was planted in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spec.tlc import PlantedBug, check, check_documented, check_whole

pytestmark = pytest.mark.repeats(first=2)

# What TLC must have seen of each world at least; README.md has the exact numbers.
WORLDS = {"Ledger": 40_000, "Clone": 10_000}

BUGS = [
    PlantedBug("condemned_unchecked", "Ledger", "NothingDangles"),
    PlantedBug("deleted_before_condemned", "Ledger", "NothingDangles"),
    PlantedBug("rows_of_a_run_taken", "Ledger", "NothingDangles"),
    PlantedBug("rows_of_a_run_settled", "Ledger", "NothingDangles"),
    PlantedBug("copied_outside_transaction", "Ledger", "NothingDangles"),
    PlantedBug("landed_unchecked", "Ledger", "NothingDangles"),
    PlantedBug("settled_before_judged", "Ledger", "NothingIsForgotten"),
    PlantedBug("newest_token_first", "Ledger", "NothingIsForgotten"),
    PlantedBug("shadowed_across_commits", "Ledger", "CommittedIsUntouched"),
    PlantedBug("outside_entered", "Clone", "OutsideIsUntouched"),
    PlantedBug("epoch_unchecked", "Clone", "CommittedIsUntouched"),
    PlantedBug("home_unchecked", "Clone", "NothingDangles"),
]
# What the model must be able to do, and the world in which it does it.
SIGHTS = {
    "NeverReaped": "Ledger",
    "NeverSettled": "Ledger",
    "NeverShared": "Ledger",
    "NeverWanted": "Clone",
    "NeverEnough": "Clone",
}


@pytest.mark.parametrize("world", WORLDS)
def test_the_protocol_holds(tmp_path: Path, world: str) -> None:
    check_whole(tmp_path, "Ledger", world, WORLDS[world])


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_a_planted_bug_is_found(tmp_path: Path, bug: PlantedBug) -> None:
    verdict = check(tmp_path, "Ledger", bug.world, bug=bug.name, invariant=bug.invariant)
    assert verdict.fallen == [bug.invariant], verdict.text


@pytest.mark.parametrize("sight", SIGHTS)
def test_the_model_gets_somewhere(tmp_path: Path, sight: str) -> None:
    assert check(tmp_path, "Ledger", SIGHTS[sight], invariant=sight).fallen == [sight]


def test_every_bug_is_planted_and_described() -> None:
    check_documented("Ledger", BUGS)
