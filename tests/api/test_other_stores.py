"""The same calls on stores that are not of the catalog."""

from __future__ import annotations

from pathlib import Path

import pytest

import reclaim
from tests.icechunk.conftest import *  # noqa: F403
from tests.icechunk.repositories import WrittenRepository
from tests.icechunk.trees import SampleTree


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
