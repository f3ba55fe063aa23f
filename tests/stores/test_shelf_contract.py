"""A shelf keeps the contract of stores, in a folder; and in a bucket what needs a storage."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from reclaim.testing import FakeClock
from reclaim.testing.stores import AbilityContract, RunContract, StoreContract
from tests.stores.shelf.subject import ShelfSubject
from tests.stores.shelf.world import World

pytestmark = pytest.mark.fast


class TestShelfStore(StoreContract):
    @pytest.fixture(params=["folder", "bucket"])
    def subject(self, request: pytest.FixtureRequest, clock: FakeClock) -> ShelfSubject:
        if request.param == "folder":
            folder: Path = request.getfixturevalue("folder")
            return ShelfSubject(World.make(folder, clock))
        bucket: str = request.getfixturevalue("bucket")
        return ShelfSubject(World.make(f"{bucket}/{uuid4().hex}", clock))


class TestShelfAbilities(AbilityContract, RunContract):
    @pytest.fixture
    def subject(self, folder: Path, clock: FakeClock) -> ShelfSubject:
        return ShelfSubject(World.make(folder, clock))


def test_what_is_unfinished_goes_when_it_is_old(folder: Path, clock: FakeClock) -> None:
    world = World.make(folder, clock)
    address = ShelfSubject(world).unfinished()
    assert world.plan().document.candidates == 0
    world.age()
    plan = world.plan()
    assert [group.reason for group in plan.document.going] == [
        "written for a commit that did not come to its end"
    ]
    world.apply(plan)
    assert address not in world.there()
    world.check_whole()
