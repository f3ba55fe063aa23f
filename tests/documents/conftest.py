"""A shell in an empty folder, whose ``reclaim`` needs neither a new process nor Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from reclaim.cli.main import main
from tests.documents.shell import Shell


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "demo"
    folder.mkdir()
    return folder


@pytest.fixture
def shell(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    # What Spark does is tested elsewhere; here it is about what is printed.
    monkeypatch.setenv("RECLAIM_ENGINE", "local")
    monkeypatch.delenv("RECLAIM_CATALOG", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    opened = Shell(folder, lambda arguments: main(arguments))
    yield opened
    opened.close()
