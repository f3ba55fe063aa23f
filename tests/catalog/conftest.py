"""Fixtures that more than one file of this suite needs."""

from __future__ import annotations

import pytest

from reclaim.catalog import Branch, Repository
from tests.catalog.saving import save


@pytest.fixture
def commit(repo: Repository, main: Branch) -> str:
    """A commit with one object, by its id."""
    main.put("a", b"x")
    return main.commit("one").id


@pytest.fixture
def side(repo: Repository, main: Branch) -> Branch:
    """A branch beside main; both start with a, b and c."""
    save(main, {"a": "0", "b": "0", "c": "0"})
    return repo.create_branch("side")
