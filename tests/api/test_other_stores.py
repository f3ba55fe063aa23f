"""The same calls on stores that are not of the catalog."""

from __future__ import annotations

from pathlib import Path

import icechunk
import pytest

import reclaim
from reclaim.api.store import OpenStore
from reclaim.api.work import EngineChoice, make_work
from reclaim.stores.terminus.store import TerminusStore
from tests.icechunk.conftest import *  # noqa: F403
from tests.icechunk.repositories import FIRST, WrittenRepository
from tests.icechunk.trees import SampleTree
from tests.terminus.samples import unpack


def test_an_icechunk_repository(written: WrittenRepository, spec: int) -> None:
    tree = SampleTree(written)
    lines = tree.lines()
    with reclaim.open_store(f"icechunk:{written.folder}", engine="local") as store:
        assert store.kind == "icechunk"
        plan = store.plan(
            reclaim.Policy(older_than=tree.bound), min_age="0s", unsafe_allow_fraction=1
        )
        run = plan.apply()
        assert run.quarantined_until is not None
        assert tree.lines() != lines
        if spec > 1:
            run.undo()
            assert tree.lines() == lines


def test_all_stores_of_a_location(tmp_path: Path) -> None:
    with pytest.raises(reclaim.errors.Refused, match="cannot find the icechunk stores"):
        reclaim.list_stores(f"icechunk:{tmp_path}")


def test_an_option_of_a_plan_holds_for_that_plan_alone(tmp_path: Path) -> None:
    """Both change the store that is open: the next call must not go on with them."""
    with reclaim.open_store(f"icechunk:{make_repository(tmp_path)}", engine="local") as store:
        assert store.plan(min_age="0s", old_backups=True).summary.objects > 0
        assert store.plan(min_age="0s").summary.objects == 0
    terminus = TerminusStore(unpack("archive", tmp_path).folder)
    with OpenStore(terminus, make_work(EngineChoice("local"), None)) as store:
        store.plan(unsafe_allow_missing_layers=True)
        assert allows_missing(terminus)
        store.plan()
        assert not allows_missing(terminus)


def make_repository(folder: Path) -> Path:
    """A repository with a log that goes on in several backups."""
    config = icechunk.RepositoryConfig(num_updates_per_repo_info_file=5)
    written = WrittenRepository.create(folder / "repository", 2, config)
    for number in range(15):
        written.branch(f"b{number}", FIRST)
    return written.folder


def allows_missing(store: TerminusStore) -> bool:
    return store._observer.allow_missing
