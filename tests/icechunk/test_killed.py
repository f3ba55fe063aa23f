"""Kill -9 of an apply, at what begins each of its steps.

The library opens what is left and reads every ref; the apply is finished by another one; an undo
brings all of it back. Then the next one is killed, one step later.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from reclaim.model import RunState
from reclaim.run.apply import apply_plan
from reclaim.run.plan import Plan, PlanOptions, make_plan
from reclaim.run.undo import undo_run
from reclaim.stores.icechunk.store import IcechunkStore
from reclaim.stores.observation import Margins
from reclaim.testing.engine import OracleEngine
from reclaim.testing.servers import SeaweedFS
from tests.icechunk.killed import MOVE, Nursery, nursery
from tests.icechunk.repositories import NEWEST_SPEC, WrittenRepository, bucket_storage
from tests.icechunk.test_differential import ancestries, contents
from tests.icechunk.world import bury
from tests.soak import SOAK

MOST = 200
STRIDE = 12
"""Boundaries from one death to the next; ``make soak`` dies at each of them."""


class Repository:
    """A repository with dead snapshots, in a folder or in a bucket."""

    def __init__(self, written: WrittenRepository, location: str) -> None:
        self.written = written
        self.location = location
        bury(written)

    def store(self) -> IcechunkStore:
        return IcechunkStore(self.location)

    def plan(self) -> Plan:
        options = PlanOptions(margins=Margins(objects=timedelta(0)), allowed_fraction=1)
        return make_plan(self.store(), OracleEngine(), options)

    def objects(self) -> set[str]:
        storage, prefix = self.store().storage, self.store().format.prefix
        folders = ("snapshots", "transactions", "manifests", "chunks")
        return {one.address for name in folders for one in storage.list(prefix + name)}

    def read(self) -> object:
        repository = self.written.reopened().repository
        return contents(repository), ancestries(repository)

    def unlock(self) -> None:
        """Nobody else is at work: so an operator removes the lock of a process that is gone."""
        storage = self.store().storage
        for stored in list(storage.list(f"{self.store().format.prefix}_reclaim/lock")):
            storage.delete(stored.address)

    def state(self, run: str) -> str:
        found = self.store().find_run(run)
        assert found is not None
        return found.state


def check_deaths(repository: Repository, kill: Callable[[Plan, int], bool], first: int) -> None:
    every, seen = repository.objects(), repository.read()
    deaths = 0
    for fatal in range(1, MOST) if SOAK else range(first, MOST, STRIDE):
        plan = repository.plan()
        going = plan.document.candidates
        assert going
        killed = kill(plan, fatal)
        repository.unlock()
        assert repository.read() == seen, fatal
        # Also when it had gone so far that there was nothing left to do.
        done = apply_plan(repository.store(), OracleEngine(), plan.place, removal=MOVE)
        assert repository.state(plan.document.run) == RunState.DONE, fatal
        assert done.summary()["objects"] == going, fatal
        assert len(repository.objects()) == len(every) - going, fatal
        assert repository.read() == seen, fatal
        undo_run(repository.store(), OracleEngine(), plan.document.run)
        assert repository.objects() == every, fatal
        assert repository.read() == seen, fatal
        if not killed:
            break
        deaths += 1
    else:
        pytest.fail("there are more steps than the test goes through")
    assert deaths >= 2
    repository.written.reopened().write(9)


@pytest.fixture(autouse=True)
def no_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _file: None)


def killing(repository: Repository, made: Nursery) -> Callable[[Plan, int], bool]:
    return lambda plan, fatal: made.apply(repository.location, plan, fatal)


def test_on_a_disk(written: WrittenRepository, spec: int) -> None:
    repository = Repository(written, str(written.folder))
    with nursery({}) as made:
        check_deaths(repository, killing(repository, made), first=4 * spec)


@pytest.mark.skipif(NEWEST_SPEC < 2, reason="the installed library writes spec 1 only")
def test_in_a_bucket(s3: SeaweedFS, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where ``repo`` is compared and swapped."""
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    bucket = s3.new_bucket()
    written = WrittenRepository.create(tmp_path, 2, storage=bucket_storage(s3, bucket))
    repository = Repository(written, f"{bucket}/data/repository")
    with nursery(s3.environment) as made:
        check_deaths(repository, killing(repository, made), first=6)
