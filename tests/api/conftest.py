"""A repository with five commits, of which rules can let some go."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import reclaim
from reclaim.catalog import Catalog


@pytest.fixture
def location(tmp_path: Path) -> Path:
    folder = tmp_path / "catalog"
    with Catalog.init(folder) as catalog:
        main = catalog.create_repository("sales").branch("main")
        for number in range(5):
            main.put("2026/orders.csv", f"id,amount\n1,{number}\n".encode())
            main.commit(f"commit {number}")
        main.put("staged.csv", b"not committed yet")
    return folder


@pytest.fixture
def store(location: Path) -> Iterator[reclaim.OpenStore]:
    with reclaim.open_store("sales", catalog=location, engine="local") as opened:
        yield opened
