"""TLC checks the protocol of ``Collect.tla``, and finds every bug that was planted in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spec.tlc import PlantedBug, check, check_documented, check_whole

pytestmark = pytest.mark.repeats(first=2)

# What TLC must have seen of each world at least; README.md has the exact numbers.
WORLDS = {"History": 400_000, "Staging": 200_000}

BUGS = [
    PlantedBug("confirm_skipped", "History", "NothingDangles"),
    PlantedBug("confirm_by_time", "History", "NothingDangles"),
    PlantedBug("only_planned_condemned", "History", "CondemnedIsClosed"),
    PlantedBug("no_fixpoint", "History", "CondemnedIsClosed"),
    PlantedBug("leases_forgotten", "History", "NothingDangles"),
    PlantedBug("staged_forgotten", "Staging", "NothingDangles"),
    PlantedBug("open_partitions_forgotten", "Staging", "NothingDangles"),
    PlantedBug("lock_unchecked", "History", "NothingDangles"),
    PlantedBug("promoted_one_by_one", "History", "CondemnedIsClosed"),
    PlantedBug("database_before_listing", "Staging", "PlanIsExact"),
    PlantedBug("parents_unchecked", "History", "CondemnedIsClosed"),
    PlantedBug("provisional_accepted", "History", "NothingReachesCondemned"),
    PlantedBug("refs_unlocked", "History", "NothingReachesCondemned"),
    PlantedBug("partition_unchecked", "Staging", "NothingDangles"),
    PlantedBug("copied_unseen", "History", "NothingDangles"),
]
SIGHTS = ["NeverDeleted", "NeverReturned", "NeverGivenBack", "NeverAgain"]


@pytest.mark.parametrize("world", WORLDS)
def test_the_protocol_holds(tmp_path: Path, world: str) -> None:
    check_whole(tmp_path, "Collect", world, WORLDS[world])


@pytest.mark.parametrize("bug", BUGS, ids=str)
def test_a_planted_bug_is_found(tmp_path: Path, bug: PlantedBug) -> None:
    verdict = check(tmp_path, "Collect", bug.world, bug=bug.name, invariant=bug.invariant)
    assert verdict.fallen == [bug.invariant], verdict.text


@pytest.mark.parametrize("sight", SIGHTS)
def test_the_model_gets_somewhere(tmp_path: Path, sight: str) -> None:
    assert check(tmp_path, "Collect", "History", invariant=sight).fallen == [sight]


def test_every_bug_is_planted_and_described() -> None:
    check_documented("Collect", BUGS)
