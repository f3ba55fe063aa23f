"""Undoing a run of spec 1 once the repository was upgraded to spec 2, which does not know it."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import icechunk
import numpy as np
import pytest
import zarr

from reclaim.engine.local.engine import LocalEngine
from reclaim.run.apply.apply_plan import apply_plan
from reclaim.run.sweep.removal import MoveToQuarantine
from reclaim.run.undo.undo_run import undo_run
from reclaim.stores.icechunk.store import IcechunkStore
from tests.icechunk.repositories import NEWEST_SPEC, WrittenRepository
from tests.icechunk.world import bury, plan


@pytest.mark.skipif(NEWEST_SPEC < 2, reason="the installed library writes spec 1 only")
def test_what_was_taken_before_an_upgrade_comes_back(tmp_path: Path) -> None:
    written = WrittenRepository.create(tmp_path / "repository", 1)
    first, second = bury(written)
    before = written.objects()
    removal = MoveToQuarantine(timedelta(days=7))
    store = IcechunkStore(str(written.folder))
    run = apply_plan(store, LocalEngine(), plan(written).place, removal=removal).run
    icechunk.upgrade_icechunk_repository(written.reopened().repository, dry_run=False)
    upgraded = IcechunkStore(str(written.folder))
    done = undo_run(upgraded, LocalEngine(), run)
    assert done.snapshots == 2
    assert {name: before[name] - written.objects()[name] for name in before} == {
        name: set() for name in before
    }
    after = written.reopened()
    after.branch("back", second)
    ancestry = list(after.repository.ancestry(branch="back"))
    assert [info.id for info in ancestry[:2]] == [second, first]
    assert ancestry[0].message == "a = 3"
    values = zarr.open_group(after.repository.readonly_session("back").store, mode="r")["a"]
    assert np.array_equal(np.asarray(values), np.full(8, 3))
