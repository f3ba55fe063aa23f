"""The site of the documentation is built without a dead link, and loads nothing from elsewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import commands

ROOT = Path(__file__).parents[2]
_LOADED = re.compile(
    r"<(?:script|img|iframe)\b[^>]*\bsrc=[\"']?(https?:)?//"
    r"|<link\b(?![^>]*rel=[\"']?canonical)[^>]*\bhref=[\"']?(https?:)?//"
)


def build(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    mkdocs = Path(sys.executable).with_name("mkdocs")
    return subprocess.run(
        [mkdocs, "build", "--strict", "--site-dir", folder, *options],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = build(folder)
    assert built.returncode == 0, built.stderr
    return folder


def test_every_page_is_there(site: Path) -> None:
    docs = ROOT / "docs"
    for page in docs.rglob("*.md"):
        name = page.relative_to(docs).with_suffix(".html").as_posix()
        assert (site / name.replace("README.html", "index.html")).exists()


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert pages
    loading = {page.name for page in pages if _LOADED.search(page.read_text(encoding="utf-8"))}
    assert loading == set()


def test_a_dead_link_and_a_page_outside_the_index_fail(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "index.md").write_text("[gone](gone.md) and [gone](#gone)\n")
    (docs / "alone.md").write_text("Alone.\n")
    rules = (ROOT / "mkdocs.yml").read_text().split("validation:\n")[1].split("\n\n")[0]
    config = tmp_path / "mkdocs.yml"
    config.write_text(f"site_name: test\nvalidation:\n{rules}\nnav: [index.md]\n")
    built = build(tmp_path / "site", "--config-file", str(config))
    assert built.returncode == 1
    assert all(name in built.stderr for name in ("alone.md", "'gone.md'", "'#gone'"))


def test_the_page_of_commands_is_up_to_date() -> None:
    """After a change of a command: ``make schemas``."""
    assert commands.PAGE.read_text(encoding="utf-8") == commands.text()
