"""Folders in memory, and the shelf's entry point, as if it were installed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.stores import shelf
from tests.support.memory import folder_in_memory

REGISTERED = Path(shelf.__file__).parent / "registered"


@pytest.fixture
def folder() -> Iterator[Path]:
    with folder_in_memory() as made:
        yield made


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """What ``pip install`` would have left on the path."""
    monkeypatch.syspath_prepend(str(REGISTERED))
