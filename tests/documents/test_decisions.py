"""Pages of decisions have one form, are in the index, and are what references name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DECISIONS = ROOT / "docs" / "decisions"
PAGES = sorted(DECISIONS.glob("[0-9]*.md"))
NUMBERS = {page.name[:4] for page in PAGES}
FORM = re.compile(
    r"# (?P<number>\d{4}): (?P<title>.+)\n\n"
    r"Status: (?P<status>accepted|(?:superseded|amended) by (?P<by>\d{4}))\n\n"
    r"## Question\n.+\n## Decision\n.+\n## Why\n.+\n## Cost\n.+",
    re.S,
)
_REFERENCE = re.compile(
    r"(?i:\bdecisions?)[\s/`#]+\[?(\d{4})((?:`?(?:,| and| or| to)\s+`?\[?\d{4})*)"
)
_LINK = re.compile(r"\(((?:[\w./-]*/)?decisions/[\w.-]+\.md|\d{4}-[\w-]+\.md)[)#]")


def find_references(text: str) -> set[str]:
    """The numbers in "decision 0001", "decisions 0001 and 0002" and "decisions/0001"."""
    found = _REFERENCE.findall(text)
    return {number for first, others in found for number in (first, *re.findall(r"\d{4}", others))}


def find_links(text: str) -> set[str]:
    """The file names of linked pages."""
    return {Path(link).name for link in _LINK.findall(text)}


def _texts() -> list[Path]:
    folders = ("src", "tests", "docs", "bench", "scripts", "examples")
    inside = [path for folder in folders for path in (ROOT / folder).rglob("*.*")]
    return [
        path
        for path in sorted([*ROOT.glob("*.md"), *inside])
        if path.suffix in (".md", ".py") and path != Path(__file__)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page(page: Path) -> None:
    form = FORM.match(page.read_text())
    assert form
    assert form["number"] == page.name[:4]
    assert form["by"] is None or form["by"] in NUMBERS
    row = f"| [{form['number']} {form['title']}]({page.name}) | {form['status']} |"
    assert row in (DECISIONS / "index.md").read_text().splitlines()


def test_every_number_is_given_out_once() -> None:
    assert len(NUMBERS) == len(PAGES)


def test_every_reference_is_to_a_page() -> None:
    names = {page.name for page in PAGES} | {"index.md"}
    for path in _texts():
        text = path.read_text()
        assert find_references(text) <= NUMBERS, path
        assert find_links(text) <= names, path


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("see decision 0001", {"0001"}),
        ("see [decision 0001](decisions/0002-x.md)", {"0001", "0002"}),
        ("(decision\n0003).", {"0003"}),
        ("decisions 0001, 0002 and 0003", {"0001", "0002", "0003"}),
        ("`docs/decisions/0004`, `0005`", {"0004", "0005"}),
        ("Decision 0006 to 0008", {"0006", "0008"}),
        ("both decisions; 0001", set()),
    ],
)
def test_references_that_are_found(text: str, numbers: set[str]) -> None:
    assert find_references(text) == numbers


def test_links_that_are_found() -> None:
    text = "[a](../decisions/0001-a.md) [b](0002-b.md#x) [c](docs/decisions/index.md) [d](other.md)"
    assert find_links(text) == {"0001-a.md", "0002-b.md", "index.md"}
