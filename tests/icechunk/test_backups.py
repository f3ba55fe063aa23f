"""Old copies of repo: named in a plan on request, and the operations log stays whole."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import icechunk
import pytest

from reclaim.engine.local.engine import LocalEngine
from reclaim.errors import InvalidInput, PlanRefused
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.plan.planning import PlanOptions, WrittenPlan, make_plan
from reclaim.run.sweep.removal import DELETE, MoveToQuarantine, Removal
from reclaim.run.undo.undo_run import undo_run
from reclaim.stores.icechunk.format import OLD_BACKUP, SNAPSHOT
from reclaim.stores.icechunk.repo_file import decode_repo
from reclaim.stores.icechunk.store import IcechunkStore
from reclaim.stores.observation import Margins
from tests.icechunk.repositories import FIRST, NEWEST_SPEC, WrittenRepository
from tests.icechunk.world import DAY, plan

pytestmark = pytest.mark.skipif(NEWEST_SPEC < 2, reason="the installed library writes spec 1 only")

IN_ONE_FILE = 5
"""So many updates the library keeps in one file in these tests."""


@pytest.fixture
def logged(tmp_path: Path) -> WrittenRepository:
    """A repository with a log that goes on in several backups, all of them old."""
    config = icechunk.RepositoryConfig(num_updates_per_repo_info_file=IN_ONE_FILE)
    written = WrittenRepository.create(tmp_path / "repository", 2, config)
    for number in range(3 * IN_ONE_FILE):
        written.branch(f"b{number}", FIRST)
    age(written)
    return written


def age(written: WrittenRepository) -> None:
    old = time.time() - 3 * 86_400
    for file in (written.folder / "overwritten").iterdir():
        os.utime(file, (old, old))


def log(written: WrittenRepository) -> list[Any]:
    return [(one.kind, one.updated_at) for one in written.reopened().repository.ops_log()]


def plan_backups(written: WrittenRepository) -> tuple[IcechunkStore, WrittenPlan]:
    store = IcechunkStore(str(written.folder))
    store.collect_backups()
    options = PlanOptions(margins=Margins(objects=DAY), allowed_fraction=1)
    return store, make_plan(store, LocalEngine(), options)


def chain(written: WrittenRepository) -> set[str]:
    """The backups in which the log goes on."""
    repo, names = decode_repo((written.folder / "repo").read_bytes(), "repo"), set()
    while repo.before_updates is not None:
        names.add(repo.before_updates)
        repo = decode_repo(written.data("overwritten", repo.before_updates), "")
    return names


def test_they_stay_unless_somebody_asks(logged: WrittenRepository) -> None:
    made = plan(logged)
    assert made.document.candidates == 0
    count = len(logged.names("overwritten")) - len(chain(logged))
    [note] = [one for one in made.document.warnings if "--old-backups" in one]
    assert note.startswith(f"{count} old copies of repo")


@pytest.mark.parametrize("more", [0, 1, 3], ids="{} more updates".format)
def test_the_log_is_whole_afterwards(logged: WrittenRepository, more: int) -> None:
    """Also after many more updates: the library goes on with backups that a full log names."""
    before = log(logged)
    _, made = plan_backups(logged)
    assert {(one.kind, one.reason) for one in made.document.going} == {
        ("old backup", "an old copy of repo that the operations log does not need")
    }
    assert made.document.candidates == len(logged.names("overwritten")) - len(chain(logged))
    for number in range(more):
        logged.branch(f"meanwhile{number}", FIRST)
    # By somebody who knows nothing but the plan.
    store = IcechunkStore(str(logged.folder))
    done = apply_plan(store, LocalEngine(), made.place, removal=DELETE)
    assert done.outcome.counts["deleted"] >= IN_ONE_FILE
    assert log(logged)[1 + more :] == before
    after = logged.reopened()
    for number in range(2 * IN_ONE_FILE + 1):
        after.branch(f"c{number}", FIRST)
        assert log(logged)[-len(before) :] == before


def test_young_ones_and_strangers_stay(logged: WrittenRepository) -> None:
    young = min(logged.names("overwritten"))
    os.utime(logged.folder / "overwritten" / young)
    (logged.folder / "overwritten" / "mine").write_bytes(b"not a copy of repo")
    age_of_mine = time.time() - 9 * 86_400
    os.utime(logged.folder / "overwritten" / "mine", (age_of_mine, age_of_mine))
    _, made = plan_backups(logged)
    apply_plan(IcechunkStore(str(logged.folder)), LocalEngine(), made.place, removal=DELETE)
    assert {young, "mine"} <= logged.names("overwritten")


def test_they_come_back(logged: WrittenRepository) -> None:
    before = logged.names("overwritten")
    removal: Removal = MoveToQuarantine(7 * DAY)
    store, made = plan_backups(logged)
    run = apply_plan(store, LocalEngine(), made.place, removal=removal).run
    assert not before <= logged.names("overwritten")
    undo_run(store, LocalEngine(), run)
    assert before <= logged.names("overwritten")


def test_spec_1_has_none(tmp_path: Path) -> None:
    written = WrittenRepository.create(tmp_path / "repository", 1)
    with pytest.raises(InvalidInput, match="spec 1"):
        IcechunkStore(str(written.folder)).collect_backups()


def test_an_apply_of_spec_1_refuses_a_plan_that_names_backups(tmp_path: Path) -> None:
    store = IcechunkStore(str(WrittenRepository.create(tmp_path / "repository", 1).folder))
    with store.lock("a run") as held:
        held.free_kinds({SNAPSHOT})
        with pytest.raises(PlanRefused, match="does not keep"):
            held.free_kinds({SNAPSHOT, OLD_BACKUP})
