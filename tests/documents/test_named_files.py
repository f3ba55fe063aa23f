"""Python files that pages name are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
OF_READERS = {"weather.py"}
"""Files that a page tells its reader to make."""


@pytest.fixture(scope="module")
def files() -> set[str]:
    folders = ("src", "tests", "bench", "scripts", "examples")
    return {
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page(page: Path, files: set[str]) -> None:
    named = set(re.findall(r"`([\w/]+\.py)`", page.read_text())) - OF_READERS
    assert not {
        name for name in named if not any(f"/{file}".endswith(f"/{name}") for file in files)
    }
